//! Calls between two services, and each way in which one can end.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_core::transport::Transport;
use lockkeeper_core::{Outcome, RpcError, RpcErrorKind};

use super::fixture::*;
use crate::settings::RemoteSettings;

#[tokio::test]
async fn an_ask_comes_back_with_its_value() {
    let (server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    for size in [0, 1, 16, 1024, 70_000, 1_000_000] {
        let payload = Bytes::from(vec![5; size]);
        assert_eq!(
            session.ask(call(ECHO, payload.clone())).await.unwrap(),
            payload
        );
    }
}

#[tokio::test]
async fn many_asks_at_once_get_their_own_answers() {
    let (server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let asks = (0..2000_u32).map(|number| {
        let ask = session.ask(call(ECHO, number.to_be_bytes().to_vec()));
        async move { (number, ask.await.unwrap()) }
    });
    for (number, answer) in futures_util::future::join_all(asks).await {
        assert_eq!(answer[..], number.to_be_bytes());
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_named() {
    let (server, client) = (Service::start().await, Service::start().await);
    let error = client
        .connect(address(server.authority(), "nobody"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::NoSuchEndpoint);
    assert!(error.text().contains("nobody"), "{error}");
    assert_serves(&client.connect(server.address()).await.unwrap()).await;
}

#[tokio::test]
async fn a_process_that_is_not_there_is_reported_at_once() {
    let client = Service::start().await;
    let vacant = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = vacant.local_addr().unwrap().into();
    drop(vacant);
    let begun = Instant::now();
    let error = client
        .connect(address(authority, "echo"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Unreachable, Outcome::NotSent)
    );
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_before_a_byte_is_written() {
    let (server, client) = (
        Service::start_with(|it| it.frame_limit(65_536)).await,
        Service::start().await,
    );
    let session = client.connect(server.address()).await.unwrap();
    let error = session.ask(call(ECHO, vec![0; 65_536])).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::TooLarge, Outcome::NotSent)
    );
    for part in ["Echo", "65551", "65536"] {
        assert!(error.text().contains(part), "{error}");
    }
    assert_eq!(
        session
            .tell(ECHO, Bytes::from(vec![0; 65_536]))
            .unwrap_err()
            .kind(),
        RpcErrorKind::TooLarge
    );
    // The largest that fits.
    assert_eq!(
        session
            .ask(call(ECHO, vec![0; 65_521]))
            .await
            .unwrap()
            .len(),
        65_521
    );
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_reply_over_the_limit_is_an_error_of_that_call() {
    let (server, client) = (
        Service::start_with(|it| it.frame_limit(65_536)).await,
        Service::start().await,
    );
    let session = client.connect(server.address()).await.unwrap();
    let error = session
        .ask(call(GROW, 100_000_u32.to_be_bytes().to_vec()))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::TooLarge, Outcome::Unknown)
    );
    assert!(
        error.text().contains("100005") && error.text().contains("65536"),
        "{error}"
    );
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_local_method_does_not_leave_the_process() {
    let (server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let error = session.ask(call(HERE, Bytes::new())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::LocalOnly, Outcome::NotSent)
    );
    // Numbers after it mean the right methods on the other side.
    let size = 3_u32.to_be_bytes().to_vec();
    assert_eq!(session.ask(call(GROW, size)).await.unwrap(), &[7, 7, 7][..]);
}

#[tokio::test]
async fn a_timed_out_ask_says_so_and_the_handler_is_told() {
    let (mut server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let limit = Duration::from_millis(50);
    let ask = tokio::spawn(session.ask(call_within(HOLD, Bytes::new(), limit)));
    let (held, _reply) = server.held().await;
    assert!(held.deadline.unwrap() <= tokio::time::Instant::now() + limit);
    let error = ask.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Timeout, Outcome::Unknown)
    );
    for part in ["Hold", "echo", "50ms"] {
        assert!(error.text().contains(part), "{error}");
    }
    tokio::time::timeout(LIMIT, held.cancellation.cancelled())
        .await
        .unwrap();
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_dropped_ask_cancels_the_handler() {
    let (mut server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let ask = tokio::spawn(session.ask(call(HOLD, Bytes::new())));
    let (held, reply) = server.held().await;
    ask.abort();
    tokio::time::timeout(LIMIT, held.cancellation.cancelled())
        .await
        .unwrap();
    reply.reply(Ok(Bytes::from_static(b"late")));
    assert_serves(&session).await;
}

#[tokio::test]
async fn the_endpoints_error_keeps_kind_outcome_and_text() {
    let (mut server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let ask = tokio::spawn(session.ask(call(HOLD, Bytes::new())));
    let (_, reply) = server.held().await;
    let sent = RpcError::new(RpcErrorKind::Panicked, "at the disco");
    reply.reply(Err(sent.clone()));
    assert_eq!(ask.await.unwrap().unwrap_err(), sent);
    let ask = tokio::spawn(session.ask(call(HOLD, Bytes::new())));
    drop(server.held().await);
    assert_eq!(
        ask.await.unwrap().unwrap_err().kind(),
        RpcErrorKind::NoReply
    );
}

#[tokio::test]
async fn one_way_messages_arrive_in_order() {
    let (mut server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    for number in 0..1000_u32 {
        session
            .tell(ECHO, Bytes::copy_from_slice(&number.to_be_bytes()))
            .unwrap();
    }
    for number in 0..1000_u32 {
        let Seen::Told(told) = server.seen().await else {
            panic!("an ask")
        };
        assert_eq!(told.payload[..], number.to_be_bytes());
    }
}

#[tokio::test]
async fn a_peer_that_does_not_read_makes_asks_wait_and_tells_full() {
    let settings = RemoteSettings {
        outgoing_limit_bytes: 1024 * 1024,
        ..RemoteSettings::default()
    };
    let client = Service::start_with(|it| it.settings(settings)).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = listener.local_addr().unwrap().into();
    let connect = client.connect(address(authority, "echo"));
    let peer = async {
        let mut peer = HandPeer::new(listener.accept().await.unwrap().0);
        peer.hear_preface().await;
        peer.say_preface(&HandPeer::preface()).await;
        let Some(crate::wire::Frame::Connect(connect)) = peer.hear().await else {
            panic!("no connect");
        };
        let connected = crate::wire::Connected {
            request: connect.request,
            session: 1,
            grant: crate::wire::Grant {
                messages: u32::MAX,
                bytes: u32::MAX,
            },
        };
        peer.say_frame(&crate::wire::Frame::Connected(connected))
            .await;
        peer
    };
    let (session, _peer) = tokio::join!(connect, peer);
    let session = session.unwrap();
    // Far more than sockets and queue hold; the peer reads nothing.
    let refused = (0..100_000)
        .find_map(|_| session.tell(ECHO, Bytes::from(vec![0; 65_000])).err())
        .unwrap();
    assert_eq!(
        (refused.kind(), refused.outcome()),
        (RpcErrorKind::Full, Outcome::NotSent)
    );
    // The sockets' buffers are filled behind our back: go on until an ask finds no room.
    let limit = Duration::from_millis(100);
    let error = session
        .ask(call_within(ECHO, vec![0; 900_000], limit))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::Timeout);
}

#[tokio::test]
async fn a_shut_down_service_says_goodbye_and_calls_nobody() {
    let (mut server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let ask = tokio::spawn(session.ask(call(HOLD, Bytes::new())));
    let (_, reply) = server.held().await;
    let shutdown = server.transport.shutdown();
    let shutdown = tokio::spawn(shutdown);
    reply.reply(Ok(Bytes::from_static(b"the last")));
    assert_eq!(ask.await.unwrap().unwrap(), &b"the last"[..]);
    tokio::time::timeout(LIMIT, shutdown)
        .await
        .unwrap()
        .unwrap();
    let error = session.ask(call(ECHO, Bytes::new())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Unreachable, Outcome::NotSent)
    );
    client.transport.shutdown().await;
    let error = client.connect(server.address()).await.unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::ServiceStopped);
}

#[tokio::test]
async fn a_small_call_does_not_wait_for_a_large_one() {
    let (server, client) = (Service::start().await, Service::start().await);
    let large = client.connect(server.address()).await.unwrap();
    let small = client.connect(server.address()).await.unwrap();
    let size = 60 * 1024 * 1024;
    let mut transfer = tokio::spawn(large.ask(call(ECHO, vec![1; size])));
    let mut between = 0;
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut transfer => break answer.unwrap().unwrap(),
            small = small.ask(call(ECHO, vec![2; 16])) => {
                small.unwrap();
                between += 1;
            }
        }
    };
    assert_eq!(answer.len(), size);
    // If it went in one piece each way, no answer could come before its own.
    assert!(between >= 3, "{between}");
}

#[tokio::test]
async fn large_and_small_messages_of_a_session_keep_their_order() {
    let (mut server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let sizes = [10, 300_000, 20, 70_000, 30, 40, 100_000, 50];
    for size in sizes {
        session.tell(ECHO, Bytes::from(vec![0; size])).unwrap();
    }
    // Leaving the session waits behind them.
    drop(session);
    for size in sizes {
        let Seen::Told(told) = server.seen().await else {
            panic!("an ask");
        };
        assert_eq!(told.payload.len(), size);
    }
}

#[tokio::test]
async fn an_ask_waits_for_room_at_the_endpoint_within_its_deadline() {
    let (server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    // The first three attempts find the inbox full.
    assert_eq!(session.ask(call(BUSY, &b"x"[..])).await.unwrap(), &b"x"[..]);
    let session = client.connect(server.address()).await.unwrap();
    let limit = Duration::from_micros(500);
    let error = session
        .ask(call_within(BUSY, &b"x"[..], limit))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::Timeout);
}

#[tokio::test]
async fn more_asks_than_the_connection_takes_wait_for_their_turn() {
    let settings = RemoteSettings {
        in_flight_limit: 8,
        ..RemoteSettings::default()
    };
    let server = Service::start().await;
    let client = Service::start_with(|it| it.settings(settings)).await;
    let session = client.connect(server.address()).await.unwrap();
    let asks = (0..100_u8).map(|number| session.ask(call(ECHO, vec![number])));
    for (number, answer) in (0_u8..).zip(futures_util::future::join_all(asks).await) {
        assert_eq!(answer.unwrap(), &[number][..]);
    }
}
