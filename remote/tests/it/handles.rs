//! Handles of endpoints in another process: as an actix recipient, sent inside a message, and what
//! they tell of an endpoint that hangs.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use lockkeeper_remote::RemoteSettings;
use serde::{Deserialize, Serialize};

use crate::support::*;

/// Adds to a counter wherever it lives, and says its total.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "i64")]
struct AddTo(GatewayRef<CounterGateway>, i64);

/// Holds the endpoint's thread until the test lets go.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
struct Hang;

rpc_gateway! {
    /// What an endpoint with a service of its own is asked.
    ErrandGateway("test.Errand", version = 1) { AddTo, Hang }
}

#[derive(RpcEndpoint)]
#[rpc(gateways(ErrandGateway))]
struct Errand {
    service: RpcService,
    until: Mutex<Receiver<()>>,
}

impl Actor for Errand {
    type Context = Context<Self>;
}

impl Handler<AddTo> for Errand {
    type Result = ResponseFuture<i64>;

    fn handle(&mut self, AddTo(to, number): AddTo, _: &mut Context<Self>) -> Self::Result {
        let service = self.service.clone();
        Box::pin(async move {
            let counter = service.connect_ref(&to).await.unwrap();
            counter.send(Add(number)).await.unwrap()
        })
    }
}

impl Handler<Hang> for Errand {
    type Result = ();

    fn handle(&mut self, Hang: Hang, _: &mut Context<Self>) {
        // Also when the test has ended.
        let _ = self.until.lock().unwrap().recv_timeout(LIMIT);
    }
}

#[actix::test]
async fn a_remote_endpoint_is_an_actix_recipient() {
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let recipient: Recipient<Add> = counter.recipient().unwrap();
    assert_eq!(recipient.send(Add(5)).await.unwrap(), 5);
    recipient.try_send(Add(1)).unwrap();
    assert_eq!(recipient.send(Add(0)).await.unwrap(), 6);
    server.terminate().await.unwrap();
    assert_eq!(recipient.send(Add(1)).await, Err(MailboxError::Closed));
}

#[actix::test]
async fn a_gateway_sent_in_a_message_is_called_back_over_the_connection() {
    let (one, two) = (service().await, service().await);
    let (_hold, until) = channel();
    let errand = Errand {
        service: one.clone(),
        until: Mutex::new(until),
    };
    let errand = one.start_server("errand", errand).await.unwrap();
    errand.start().await.unwrap();
    let counter = two.start_server("mine", Counter::default()).await.unwrap();
    counter.start().await.unwrap();
    let gateway = two
        .connect::<ErrandGateway>(&errand.address())
        .await
        .unwrap();
    let mine = counter.gateway::<CounterGateway>().to_ref();
    assert_eq!(gateway.send(AddTo(mine, 7)).await.unwrap(), 7);
}

#[actix::test]
async fn an_endpoint_that_hangs_is_told_from_a_link_that_is_dead() {
    let settings = RemoteSettings {
        ping_interval: Duration::from_millis(100),
        ping_timeout: Duration::from_secs(2),
        ..RemoteSettings::default()
    };
    let quick = || builder().settings(settings.clone()).start();
    let (one, two) = (quick().await.unwrap(), quick().await.unwrap());
    let (release, until) = channel();
    let thread = Arbiter::new();
    let service = one.clone();
    let hanging = one
        .start_server_in(&thread.handle(), "errand", move || Errand {
            service,
            until: Mutex::new(until),
        })
        .await
        .unwrap();
    hanging.start().await.unwrap();
    let server = one
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    server.start().await.unwrap();
    let errand = two
        .connect::<ErrandGateway>(&hanging.address())
        .await
        .unwrap();
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let longer_than_silence = 2 * (settings.ping_interval + settings.ping_timeout);
    // The endpoint does not answer; its process answers pings, and so the link stays.
    let error = errand.send(Hang).timeout(longer_than_silence).await;
    assert_eq!(error.unwrap_err().kind(), RpcErrorKind::Timeout);
    let behind = errand.send(Hang).timeout(Duration::from_millis(50)).await;
    assert_eq!(behind.unwrap_err().kind(), RpcErrorKind::Timeout);
    assert!(errand.is_connected());
    assert_answers(&counter).await;
    // It comes back as the same.
    release.send(()).unwrap();
    release.send(()).unwrap();
    errand.send(Hang).await.unwrap();
    thread.stop();
}
