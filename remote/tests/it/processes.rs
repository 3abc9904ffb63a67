//! Peers that are killed, stopped, restarted, or no peers at all.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use lockkeeper_core::{Outcome, RpcErrorKind};

use crate::peer::Peer;
use crate::support::*;

#[actix::test]
async fn a_peer_killed_in_mid_call_fails_the_call_within_a_second() {
    let mut peer = Peer::start();
    let service = service().await;
    let counter = service
        .connect::<CounterGateway>(&peer.address)
        .await
        .unwrap();
    let mut held = counter.send(Hold);
    // On one connection calls arrive in order: when the second is answered, the first is there.
    tokio::select! {
        biased;
        ended = &mut held => panic!("the held call ended: {ended:?}"),
        () = assert_answers(&counter) => {}
    }
    let begun = Instant::now();
    peer.kill();
    let error = soon(held).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::ConnectionLost, Outcome::Unknown)
    );
    // Five times what is promised.
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    let error = counter.send(Add(1)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Unreachable, Outcome::NotSent)
    );
}

#[actix::test]
async fn a_restarted_peer_is_told_from_the_one_before() {
    let mut peer = Peer::start();
    let service = service().await;
    let counter = service
        .connect::<CounterGateway>(&peer.address)
        .await
        .unwrap();
    assert_eq!(counter.send(Add(5)).await.unwrap(), 5);
    peer.kill();
    let authority = peer.address.authority().unwrap().to_string();
    let again = Peer::start_at(&authority, "1-2");
    assert_eq!(again.address, peer.address);
    let error = counter.send(Add(1)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Restarted, Outcome::NotSent)
    );
    let counter = service
        .connect::<CounterGateway>(&again.address)
        .await
        .unwrap();
    assert_eq!(counter.send(Add(1)).await.unwrap(), 1);
}

#[actix::test]
async fn a_stopped_peer_is_noticed_by_deadlines_and_by_pings() {
    let peer = Peer::start();
    // Its pings wait longer than a busy machine needs to come to the deadline.
    let patient = service().await;
    let patient = patient.connect::<CounterGateway>(&peer.address);
    let patient = patient.await.unwrap();
    let service = builder().settings(quick_settings()).start().await.unwrap();
    let counter = service
        .connect::<CounterGateway>(&peer.address)
        .await
        .unwrap();
    // Under way before the silence begins.
    let mut held = counter.send(Hold);
    tokio::select! {
        biased;
        ended = &mut held => panic!("the held call ended: {ended:?}"),
        () = assert_answers(&counter) => {}
    }
    peer.stop();
    let begun = Instant::now();
    let short = patient
        .send(Add(1))
        .timeout(Duration::from_millis(50))
        .await
        .unwrap_err();
    assert_eq!(
        (short.kind(), short.outcome()),
        (RpcErrorKind::Timeout, Outcome::Unknown)
    );
    let long = soon(held).await.unwrap_err();
    assert_eq!(
        (long.kind(), long.outcome()),
        (RpcErrorKind::ConnectionLost, Outcome::Unknown)
    );
    // Its kernel still takes connections; the introduction has a deadline of its own.
    let connect = service
        .connect::<CounterGateway>(&peer.address)
        .await
        .unwrap_err();
    assert_eq!(
        (connect.kind(), connect.outcome()),
        (RpcErrorKind::Timeout, Outcome::NotSent)
    );
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    // No quarantine: it is the same run, and the same gateway goes on.
    peer.go_on();
    soon(async {
        // It may take a busy machine longer than an introduction may.
        while let Err(error) = counter.send(Echo(vec![1])).await {
            assert_eq!(error.kind(), RpcErrorKind::Timeout, "{error}");
        }
    })
    .await;
}

#[actix::test]
async fn an_http_client_and_a_huge_length_harm_nobody() {
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let address = server.address();
    let authority = address.authority().unwrap().to_string();
    let answer = tokio::task::spawn_blocking(move || {
        let mut http = std::net::TcpStream::connect(&authority).unwrap();
        http.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        http.read_to_string(&mut answer).unwrap();
        // A preface that announces more than one may be long.
        let mut huge = std::net::TcpStream::connect(&authority).unwrap();
        huge.write_all(b"LOCKKEEP\xFF\xFF").unwrap();
        let mut nothing = Vec::new();
        assert_eq!(huge.read_to_end(&mut nothing).unwrap_or(0), 0);
        answer
    });
    let answer = soon(answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_answers(&counter).await;
}
