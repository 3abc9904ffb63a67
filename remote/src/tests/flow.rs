//! One-way messages and the room that they take: credits, and what becomes of those that are lost.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_core::{Outcome, RpcErrorKind};

use super::fixture::*;
use crate::settings::RemoteSettings;

fn small_credit() -> RemoteSettings {
    RemoteSettings {
        credit_messages: 8,
        credit_bytes: 1000,
        ..RemoteSettings::default()
    }
}

/// Sends until there is no room, and returns how many were taken.
fn send_until_full(session: &dyn lockkeeper_core::transport::RemoteSession, size: usize) -> usize {
    for count in 0..100_000 {
        if let Err(error) = session.tell(HOLD, Bytes::from(vec![1; size])) {
            assert_eq!(
                (error.kind(), error.outcome()),
                (RpcErrorKind::Full, Outcome::NotSent)
            );
            assert!(error.text().contains("credit"), "{error}");
            return count;
        }
    }
    panic!("never full");
}

#[tokio::test]
async fn an_endpoint_that_does_not_keep_up_makes_its_senders_full() {
    let mut server = Service::start_with(|it| it.settings(small_credit())).await;
    let client = Service::start().await;
    let session = client.connect(server.address()).await.unwrap();
    assert_eq!(send_until_full(&*session, 10), 8);
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(server.seen().await);
    }
    // Calls need no credit, and nothing comes back while the messages are there.
    assert_serves(&session).await;
    assert!(session.tell(HOLD, Bytes::new()).is_err());
    // What has left the inbox makes room.
    held.clear();
    loop {
        if session.tell(HOLD, Bytes::from_static(b"again")).is_ok() {
            break;
        }
        assert_serves(&session).await;
    }
    let Seen::Told(told) = server.seen().await else {
        panic!("a call");
    };
    assert_eq!(told.payload, &b"again"[..]);
}

#[tokio::test]
async fn credit_counts_bytes_too_and_lets_one_message_beyond() {
    let mut server = Service::start_with(|it| it.settings(small_credit())).await;
    let client = Service::start().await;
    let session = client.connect(server.address()).await.unwrap();
    assert_eq!(send_until_full(&*session, 400), 3);
    for _ in 0..3 {
        drop(server.seen().await);
    }
    // Larger than all credit.
    while session.tell(HOLD, Bytes::from(vec![2; 5000])).is_err() {
        assert_serves(&session).await;
    }
    let Seen::Told(told) = server.seen().await else {
        panic!("a call");
    };
    assert_eq!(told.payload.len(), 5000);
    drop(told);
    while session.tell(HOLD, Bytes::new()).is_err() {
        assert_serves(&session).await;
    }
}

#[tokio::test]
async fn asks_beyond_a_sessions_credit_wait_in_turn_and_keep_no_other_session_waiting() {
    let settings = RemoteSettings {
        in_flight_limit: 10,
        ..small_credit()
    };
    let mut server = Service::start_with(|it| it.settings(settings.clone())).await;
    let client = Service::start_with(|it| it.settings(settings)).await;
    let slow = client.connect(server.address()).await.unwrap();
    let other = client.connect(server.address()).await.unwrap();
    let ask = |number: u8| tokio::spawn(slow.ask(call(HOLD, vec![number])));
    let mut asks = (0..20).map(ask).collect::<Vec<_>>();
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(server.held().await);
    }
    // Eight are all that the session may have under way; the connection takes two more.
    for _ in 0..20 {
        assert_serves(&other).await;
    }
    // Each that ends lets one more in, also if it ends by its caller's hand.
    asks.remove(0).abort();
    let ninth = server.held().await;
    let late = call_within(HOLD, vec![99], Duration::from_millis(20));
    let error = slow.ask(late).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Timeout, Outcome::NotSent)
    );
    // Those that wait are told of the end.
    let waiting = asks.split_off(8);
    server.end_endpoint("it was terminated by the test");
    for ask in waiting {
        let error = ask.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Stopped, "{error}");
    }
    drop((held, ninth));
    for ask in asks {
        let error = ask.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::NoReply, "{error}");
    }
}

#[tokio::test]
async fn a_large_ask_that_is_not_answered_keeps_no_other_of_its_session_waiting() {
    let mut server = Service::start_with(|it| it.settings(small_credit())).await;
    let client = Service::start().await;
    let session = client.connect(server.address()).await.unwrap();
    let large = tokio::spawn(session.ask(call(HOLD, vec![1; 100_000])));
    let (held, reply) = server.held().await;
    assert_eq!(held.payload.len(), 100_000);
    assert_serves(&session).await;
    reply.reply(Ok(Bytes::new()));
    large.await.unwrap().unwrap();
}

#[tokio::test]
async fn one_slow_endpoints_credit_is_no_other_sessions() {
    let server = Service::start_with(|it| it.settings(small_credit())).await;
    let client = Service::start().await;
    let slow = client.connect(server.address()).await.unwrap();
    let other = client.connect(server.address()).await.unwrap();
    assert_eq!(send_until_full(&*slow, 10), 8);
    assert_eq!(send_until_full(&*other, 10), 8);
}

#[tokio::test]
async fn an_endpoints_end_is_told_to_those_who_are_connected() {
    let mut server = Service::start().await;
    let client = Service::start().await;
    let session = client.connect(server.address()).await.unwrap();
    let closed = session.closed();
    assert!(session.is_connected());
    server.end_endpoint("it was terminated by the test");
    let end = tokio::time::timeout(LIMIT, closed).await.unwrap();
    assert_eq!(end.kind(), RpcErrorKind::Stopped);
    assert!(end.text().contains("by the test"), "{end}");
    assert!(!session.is_connected());
    let error = session.ask(call(ECHO, Bytes::new())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Stopped, Outcome::NotSent)
    );
    let error = session.tell(ECHO, Bytes::new()).unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::Stopped);
}
