//! The endpoints that the tests call, and how a service is started.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use lockkeeper_core::trace::TraceContext;
use lockkeeper_remote::{RemoteBuilder, RemoteBuilderExt, RemoteSettings};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// No test waits longer than this for anything.
pub const LIMIT: Duration = Duration::from_secs(120);

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "i64")]
pub struct Add(pub i64);

/// Comes back as it is.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Vec<u8>")]
pub struct Echo(pub Vec<u8>);

/// Answered with so many bytes.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Vec<u8>")]
pub struct Grow(pub usize);

/// Never answered; the endpoint notes whether it was cancelled.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Hold;

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Explode;

/// Which trace the call belongs to, as far as its handler knows.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Option<TraceContext>")]
pub struct Traced;

#[derive(Message)]
#[rtype(result = "()")]
pub struct Here;

rpc_gateway! {
    /// What the tests ask.
    pub CounterGateway("test.Counter", version = 1) { Add, local Here, Echo, Grow, Hold, Explode, Traced }
}

/// The same gateway of another age.
pub mod newer {
    use super::Add;
    lockkeeper_core::rpc_gateway! {
        /// Version 2.
        pub CounterGateway("test.Counter", version = 2) { Add }
    }
}

/// The same gateway in the same version, where somebody has changed a message.
pub mod changed {
    use actix::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Message, Serialize, Deserialize)]
    #[rtype(result = "i64")]
    pub struct Add {
        pub number: i64,
        pub times: u32,
    }

    lockkeeper_core::rpc_gateway! {
        /// Version 1 as well.
        pub CounterGateway("test.Counter", version = 1) { Add }
    }
}

rpc_gateway! {
    /// One that nobody serves.
    pub OtherGateway("test.Other", version = 1) { Add }
}

rpc_gateway! {
    /// A counter that leads.
    pub fenced LeaderGateway("test.Leader", version = 1) { Add }
}

/// Resolved once a held call is there, and once it is cancelled.
#[derive(Default)]
pub struct Held {
    pub arrived: Option<oneshot::Sender<()>>,
    pub cancelled: Option<oneshot::Sender<()>>,
}

#[derive(RpcEndpoint, Default)]
#[rpc(gateways(CounterGateway))]
pub struct Counter {
    total: i64,
    held: Rc<RefCell<Held>>,
}

impl Counter {
    /// A counter that tells of its next held call.
    pub fn watched() -> (Self, oneshot::Receiver<()>, oneshot::Receiver<()>) {
        let (arrived, has_arrived) = oneshot::channel();
        let (cancelled, is_cancelled) = oneshot::channel();
        let held = Held {
            arrived: Some(arrived),
            cancelled: Some(cancelled),
        };
        (
            Self {
                total: 0,
                held: Rc::new(RefCell::new(held)),
            },
            has_arrived,
            is_cancelled,
        )
    }
}

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Handler<Add> for Counter {
    type Result = i64;

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> i64 {
        self.total += number;
        self.total
    }
}

impl Handler<Echo> for Counter {
    type Result = Vec<u8>;

    fn handle(&mut self, Echo(bytes): Echo, _: &mut Context<Self>) -> Vec<u8> {
        bytes
    }
}

impl Handler<Grow> for Counter {
    type Result = Vec<u8>;

    fn handle(&mut self, Grow(size): Grow, _: &mut Context<Self>) -> Vec<u8> {
        vec![7; size]
    }
}

impl Handler<Hold> for Counter {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Hold: Hold, _: &mut Context<Self>) -> ResponseFuture<()> {
        let call = CallContext::current().unwrap();
        let held = Rc::clone(&self.held);
        Box::pin(async move {
            let arrived = held.borrow_mut().arrived.take();
            if let Some(arrived) = arrived {
                let _ = arrived.send(());
            }
            call.cancelled().await;
            let cancelled = held.borrow_mut().cancelled.take();
            if let Some(cancelled) = cancelled {
                let _ = cancelled.send(());
            }
        })
    }
}

impl Handler<Explode> for Counter {
    type Result = ();

    fn handle(&mut self, Explode: Explode, _: &mut Context<Self>) {
        panic!("the test asked for it");
    }
}

impl Handler<Traced> for Counter {
    type Result = Option<TraceContext>;

    fn handle(&mut self, Traced: Traced, _: &mut Context<Self>) -> Option<TraceContext> {
        CallContext::current().unwrap().trace()
    }
}

impl Handler<Here> for Counter {
    type Result = ();

    fn handle(&mut self, Here: Here, _: &mut Context<Self>) {}
}

#[derive(RpcEndpoint, Default)]
#[rpc(gateways(LeaderGateway), fenced)]
pub struct Leader {
    total: i64,
}

impl Actor for Leader {
    type Context = Context<Self>;
}

impl Handler<Add> for Leader {
    type Result = i64;

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> i64 {
        self.total += number;
        self.total
    }
}

/// A service on a free loopback port, before it is started.
pub fn builder() -> RemoteBuilder {
    RpcService::builder()
        .default_timeout(LIMIT)
        .bind("127.0.0.1:0")
}

pub async fn service() -> RpcService {
    builder().start().await.unwrap()
}

/// Settings with which a silent peer is noticed soon.
pub fn quick_settings() -> RemoteSettings {
    RemoteSettings {
        ping_interval: Duration::from_millis(100),
        ping_timeout: Duration::from_millis(500),
        handshake_timeout: Duration::from_secs(3),
        ..RemoteSettings::default()
    }
}

/// Two services; the first has a started counter.
pub async fn pair() -> (RpcService, RpcServer<Counter>, RpcService) {
    let (one, two) = (service().await, service().await);
    let server = one
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    server.start().await.unwrap();
    (one, server, two)
}

/// The good call after a bad one.
pub async fn assert_answers(counter: &Gateway<CounterGateway>) {
    assert_eq!(
        counter.send(Echo(vec![1, 2])).timeout(LIMIT).await.unwrap(),
        [1, 2]
    );
}

/// Awaits what a test has caused; a hang fails.
pub async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(LIMIT, what).await.unwrap()
}
