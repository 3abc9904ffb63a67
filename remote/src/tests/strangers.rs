//! Peers that speak something else, an older or newer version, or nonsense. The service goes on.

use std::time::{Duration, Instant};

use lockkeeper_core::{Outcome, RpcErrorKind};

use super::fixture::*;
use crate::wire::{Farewell, Frame, Goodbye, VersionRange};

async fn assert_still_serves(server: &Service) {
    let client = Service::start().await;
    assert_serves(&client.connect(server.address()).await.unwrap()).await;
}

#[tokio::test]
async fn an_http_client_is_told_where_it_is() {
    let server = Service::start().await;
    let mut peer = HandPeer::dial(&server.authority()).await;
    peer.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let answer = peer.hear_all().await;
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
    assert_still_serves(&server).await;
}

#[tokio::test]
async fn garbage_instead_of_a_preface_closes_that_connection() {
    let server = Service::start().await;
    let mut peer = HandPeer::dial(&server.authority()).await;
    peer.say(&[0x17, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3]).await;
    assert!(peer.hear_all().await.is_empty());
    assert_still_serves(&server).await;
}

#[tokio::test]
async fn a_preface_over_its_limit_is_not_read() {
    let server = Service::start().await;
    let mut peer = HandPeer::dial(&server.authority()).await;
    // More than 2,048 bytes announced: nobody waits for them, or keeps them.
    peer.say(b"LOCKKEEP\x08\x01").await;
    assert!(peer.hear_all().await.is_empty());
    let refusals = &server.transport.shared().refusals;
    let counted = async {
        while !refusals.seen().counts.contains_key("other protocol") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, counted).await.unwrap();
    assert_still_serves(&server).await;
}

#[tokio::test]
async fn a_stranger_that_says_nothing_is_closed_after_the_handshakes_time() {
    let server = Service::start_with(|it| it.settings(quick_settings())).await;
    let mut peer = HandPeer::dial(&server.authority()).await;
    let begun = Instant::now();
    assert!(peer.hear_all().await.is_empty());
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_frame_of_two_gibibytes_ends_the_connection_by_name() {
    let server = Service::start().await;
    let mut peer = HandPeer::dial(&server.authority()).await;
    peer.say_preface(&HandPeer::preface()).await;
    peer.hear_preface().await;
    peer.say(&[0x7F, 0xFF, 0xFF, 0xFF, 0x10]).await;
    let Some(Frame::Goodbye(Goodbye { reason, text })) = peer.hear().await else {
        panic!("no goodbye");
    };
    assert_eq!(reason, Farewell::ProtocolError);
    assert!(
        text.contains("2147483647") && text.contains("1048576"),
        "{text}"
    );
    assert!(peer.hear().await.is_none());
    assert_still_serves(&server).await;
}

#[tokio::test]
async fn versions_that_do_not_overlap_are_named_on_both_sides() {
    let newer = Service::start_with(|it| it.protocol_versions(7, 9)).await;
    let client = Service::start().await;
    let begun = Instant::now();
    let error = client.connect(newer.address()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::ProtocolVersionMismatch, Outcome::NotSent)
    );
    assert!(
        error.text().contains("1..=2") && error.text().contains("7..=9"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(15));
    // The acceptor answers before it judges: the other side can name it too.
    let mut peer = HandPeer::dial(&client.authority()).await;
    let preface = crate::wire::Preface {
        versions: VersionRange { min: 7, max: 9 },
        ..HandPeer::preface()
    };
    peer.say_preface(&preface).await;
    assert_eq!(peer.hear_preface().await.versions, crate::wire::VERSIONS);
    assert!(peer.hear().await.is_none());
    assert_still_serves(&client).await;
}

#[tokio::test]
async fn versions_that_overlap_talk() {
    let newer = Service::start_with(|it| it.protocol_versions(1, 9)).await;
    let client = Service::start().await;
    assert_serves(&client.connect(newer.address()).await.unwrap()).await;
}

#[tokio::test]
async fn a_server_of_another_kind_is_recognised() {
    let client = Service::start_with(|it| it.settings(quick_settings())).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority: lockkeeper_core::Authority = listener.local_addr().unwrap().into();
    let server = tokio::spawn(async move {
        let mut peer = HandPeer::new(listener.accept().await.unwrap().0);
        peer.say(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n").await;
        // Says nothing to those that come later.
        (peer, listener)
    });
    let error = client
        .connect(address(authority.clone(), "echo"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::ProtocolViolation, Outcome::NotSent)
    );
    assert!(error.text().contains("SSH-2.0-"), "{error}");
    let _kept = server.await.unwrap();
    let begun = Instant::now();
    let error = client
        .connect(address(authority, "echo"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Timeout, Outcome::NotSent)
    );
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_connect_ends_at_its_own_deadline() {
    let client = Service::start().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = silent.local_addr().unwrap().into();
    let limit = Duration::from_millis(50);
    let begun = Instant::now();
    let error = client
        .connect_within(address(authority, "echo"), limit)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Timeout, Outcome::NotSent)
    );
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn strangers_beyond_the_limit_are_closed_and_others_are_served_again() {
    let mut settings = quick_settings();
    settings.handshake_limit = 2;
    let server = Service::start_with(|it| it.settings(settings)).await;
    let mut first = HandPeer::dial(&server.authority()).await;
    let _second = HandPeer::dial(&server.authority()).await;
    // The third is closed at once: it hears nothing, long before the others' time is over.
    let mut third = HandPeer::dial(&server.authority()).await;
    assert!(third.hear_all().await.is_empty());
    assert!(first.hear_all().await.is_empty());
    assert_still_serves(&server).await;
}
