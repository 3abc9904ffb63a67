//! Which connections two processes have, and what becomes of calls when one goes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_core::transport::Transport;
use lockkeeper_core::{Outcome, RpcErrorKind, RpcService};
use uuid::Uuid;

use super::fixture::*;
use crate::builder::RemoteBuilderExt;
use crate::wire::{Connected, Frame};

async fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn both_directions_use_one_connection() {
    let (one, two) = (Service::start().await, Service::start().await);
    let there = one.connect(two.address()).await.unwrap();
    let back = two.connect(one.address()).await.unwrap();
    assert_serves(&there).await;
    assert_serves(&back).await;
    assert_eq!((one.links(), two.links()), (1, 1));
}

#[tokio::test]
async fn simultaneous_connects_end_in_one_connection() {
    for _ in 0..20 {
        let (one, two) = (Service::start().await, Service::start().await);
        let (there, back) = tokio::join!(one.connect(two.address()), two.connect(one.address()));
        let (there, back) = (there.unwrap(), back.unwrap());
        for _ in 0..3 {
            assert_serves(&there).await;
            assert_serves(&back).await;
        }
        until("one connection", || one.links() == 1 && two.links() == 1).await;
        assert_serves(&there).await;
        assert_serves(&back).await;
    }
}

#[tokio::test]
async fn a_service_can_connect_to_itself() {
    let one = Service::start().await;
    let session = one.connect(one.address()).await.unwrap();
    assert_serves(&session).await;
}

#[tokio::test]
async fn two_names_of_one_process_share_a_connection() {
    let (one, two) = (Service::start().await, Service::start().await);
    let by_name: lockkeeper_core::Authority = format!("localhost:{}", two.authority().port())
        .parse()
        .unwrap();
    let first = one.connect(two.address()).await.unwrap();
    let second = one.connect(address(by_name, "echo")).await.unwrap();
    assert_serves(&first).await;
    assert_serves(&second).await;
    until("one connection", || one.links() == 1 && two.links() == 1).await;
    assert_serves(&second).await;
}

#[tokio::test]
async fn a_peer_that_goes_away_fails_calls_in_flight_at_once() {
    let (mut server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let ask = tokio::spawn(session.ask(call(HOLD, Bytes::new())));
    let held = server.held().await;
    let begun = Instant::now();
    // Its thread and sockets end without a goodbye.
    drop(server);
    let error = ask.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::ConnectionLost, Outcome::Unknown)
    );
    assert!(begun.elapsed() < Duration::from_secs(15));
    drop(held);
}

#[tokio::test]
async fn a_caller_that_goes_away_cancels_its_handlers() {
    let (mut server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    let ask = tokio::spawn(session.ask(call(HOLD, Bytes::new())));
    let (held, _reply) = server.held().await;
    drop(client);
    tokio::time::timeout(LIMIT, held.cancellation.cancelled())
        .await
        .unwrap();
    ask.abort();
}

#[tokio::test]
async fn a_restarted_peer_is_noticed_and_can_be_connected_anew() {
    let (server, client) = (Service::start().await, Service::start().await);
    let address = server.address();
    let session = client.connect(address.clone()).await.unwrap();
    assert_serves(&session).await;
    let bind = server.authority().to_string();
    drop(server);
    until("the loss is noticed", || !session.is_connected()).await;
    let builder = || RpcService::builder().bind(&bind);
    let again = loop {
        // The old thread may still hold the port for a moment.
        match builder().listen().await {
            Ok(bound) => {
                drop(bound);
                break Service::start_as(builder(), Uuid::new_v4()).await;
            }
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let error = session.ask(call(ECHO, Bytes::new())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Restarted, Outcome::NotSent)
    );
    assert_eq!(session.closed().await.kind(), RpcErrorKind::Restarted);
    assert_serves(&client.connect(again.address()).await.unwrap()).await;
}

#[tokio::test]
async fn a_lost_connection_to_the_same_run_is_made_anew_by_the_next_call() {
    let (server, client) = (Service::start().await, Service::start().await);
    let session = client.connect(server.address()).await.unwrap();
    for link in server.transport.shared().peers.all() {
        link.retire(crate::wire::Farewell::Duplicate, "cut by the test");
    }
    until("the loss is noticed", || !session.is_connected()).await;
    assert_serves(&session).await;
    assert!(session.is_connected());
}

#[tokio::test]
async fn a_silent_peer_is_given_up_after_its_ping() {
    let client = Service::start_with(|it| it.settings(quick_settings())).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = listener.local_addr().unwrap().into();
    let peer = async {
        let mut peer = HandPeer::new(listener.accept().await.unwrap().0);
        peer.hear_preface().await;
        peer.say_preface(&HandPeer::preface()).await;
        let Some(Frame::Connect(connect)) = peer.hear().await else {
            panic!("no connect")
        };
        let connected = Connected {
            request: connect.request,
            session: 1,
            grant: crate::wire::Grant::default(),
        };
        peer.say_frame(&Frame::Connected(connected)).await;
        peer
    };
    let (session, _peer) = tokio::join!(client.connect(address(authority, "echo")), peer);
    let begun = Instant::now();
    let error = session
        .unwrap()
        .ask(call(ECHO, Bytes::new()))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::ConnectionLost, Outcome::Unknown)
    );
    assert!(error.text().contains("silent"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn an_idle_connection_stays() {
    let quick = || Service::start_with(|it| it.settings(quick_settings()));
    let (server, client) = (quick().await, quick().await);
    let session = client.connect(server.address()).await.unwrap();
    // Longer than interval and time-out together: pings are sent and answered meanwhile.
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(session.is_connected());
    assert_serves(&session).await;
}

#[tokio::test]
async fn the_watch_of_a_session_ends_with_its_process() {
    let (server, client) = (
        Service::start().await,
        Service::start_with(|it| it.settings(quick_settings())).await,
    );
    let session = client.connect(server.address()).await.unwrap();
    let closed = tokio::spawn(session.closed());
    drop(server);
    let error = tokio::time::timeout(LIMIT, closed).await.unwrap().unwrap();
    assert_eq!(error.kind(), RpcErrorKind::Unreachable);
}

#[tokio::test]
async fn the_advertised_address_may_differ_from_the_bound_one() {
    // A forwarder before the server, as NAT does it.
    let front = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outside = front.local_addr().unwrap();
    let server = Service::start_with(|it| it.advertise(outside.to_string())).await;
    let inside = server.transport.shared().bound;
    tokio::spawn(async move {
        while let Ok((mut near, _)) = front.accept().await {
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(inside).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let client = Service::start().await;
    assert_eq!(server.authority(), outside.into());
    let session = client.connect(server.address()).await.unwrap();
    assert_serves(&session).await;
    assert_serves(&server.connect(client.address()).await.unwrap()).await;
    assert_eq!(client.links(), 1);
}

#[tokio::test]
async fn addresses_of_the_sixth_protocol_work() {
    let builder = RpcService::builder().bind("[::1]:0");
    if builder.listen().await.is_err() {
        eprintln!("skipped: this host has no ::1");
        return;
    }
    let server = Service::start_as(builder, Uuid::new_v4()).await;
    let client = Service::start().await;
    assert_serves(&client.connect(server.address()).await.unwrap()).await;
}

#[tokio::test]
async fn listening_beyond_loopback_needs_a_word() {
    let error = RpcService::builder()
        .bind("0.0.0.0:0")
        .start()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::InvalidConfiguration);
    assert!(error.text().contains("allow_insecure(true)"), "{error}");
    let open = RpcService::builder().bind("0.0.0.0:0").allow_insecure(true);
    let error = open.start().await.unwrap_err();
    assert!(error.text().contains("advertise"), "{error}");
    let open = RpcService::builder().bind("0.0.0.0:0").allow_insecure(true);
    let service = open.advertise("127.0.0.1:0").start().await.unwrap();
    assert_ne!(service.transport().unwrap().authority().port(), 0);
}

#[tokio::test]
async fn after_a_shutdown_the_port_is_free() {
    let service = Service::start().await;
    let bind = service.authority().to_string();
    service.transport.shutdown().await;
    let again = Service::start_as(RpcService::builder().bind(&bind), Uuid::new_v4()).await;
    assert_eq!(again.authority().to_string(), bind);
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = taken.local_addr().unwrap().to_string();
    let error = RpcService::builder().bind(&bind).start().await.unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::Unreachable);
    assert!(error.text().contains(&bind), "{error}");
}

#[tokio::test]
async fn a_setting_that_is_not_allowed_is_named() {
    let error = RpcService::builder()
        .bind("127.0.0.1:0")
        .frame_limit(1)
        .start()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::InvalidConfiguration);
    assert!(error.text().contains("frame_limit_bytes is 1"), "{error}");
}

#[tokio::test]
async fn of_a_range_of_ports_the_first_free_one_is_bound() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let range = port..=port.saturating_add(50);
    let server = Service::start_with(|it| it.port_range(range.clone())).await;
    let bound = server.authority().port();
    assert!(range.contains(&bound) && bound != port, "{bound}");
    let client = Service::start().await;
    assert_serves(&client.connect(server.address()).await.unwrap()).await;
    let builder = || RpcService::builder().bind("127.0.0.1:0");
    let error = builder()
        .port_range(port..=port)
        .listen()
        .await
        .err()
        .unwrap();
    assert_eq!(error.kind(), RpcErrorKind::Unreachable);
    assert!(error.text().contains(&port.to_string()), "{error}");
    #[expect(clippy::reversed_empty_ranges, reason = "that is refused")]
    let error = builder().port_range(9..=8).listen().await.err().unwrap();
    assert_eq!(error.kind(), RpcErrorKind::InvalidConfiguration);
}
