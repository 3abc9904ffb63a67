//! What `connect` refuses.

use std::time::{Duration, Instant};

use lockkeeper_core::{Outcome, RpcAddress, RpcErrorKind, RpcService};
use lockkeeper_remote::RemoteBuilderExt;

use crate::peer::Peer;
use crate::support::*;

#[actix::test]
async fn unknown_endpoint() {
    let (one, server, two) = pair().await;
    let nobody = server.address().to_string().replace("/counter", "/nobody");
    let nobody: RpcAddress = nobody.parse().unwrap();
    let error = two.connect::<CounterGateway>(&nobody).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::NoSuchEndpoint, Outcome::Refused)
    );
    assert!(error.text().contains("nobody"), "{error}");
    assert_answers(&two.connect(&server.address()).await.unwrap()).await;
    soon(one.terminate()).await.unwrap();
}

#[actix::test]
async fn wrong_gateway() {
    let (_one, server, two) = pair().await;
    let error = two
        .connect::<OtherGateway>(&server.address())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::WrongGateway, Outcome::Refused)
    );
    assert!(error.text().contains("test.Other"), "{error}");
    assert_answers(&two.connect(&server.address()).await.unwrap()).await;
}

#[actix::test]
async fn gateway_version_mismatch() {
    let (_one, server, two) = pair().await;
    let error = two
        .connect::<newer::CounterGateway>(&server.address())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::GatewayVersionMismatch, Outcome::Refused)
    );
    assert!(
        error.text().contains('1') && error.text().contains('2'),
        "{error}"
    );
    assert_answers(&two.connect(&server.address()).await.unwrap()).await;
}

#[actix::test]
async fn protocol_version_mismatch() {
    let newer = Peer::start_at("127.0.0.1:0", "7-9");
    let (_one, server, two) = pair().await;
    let begun = Instant::now();
    let error = two
        .connect::<CounterGateway>(&newer.address)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::ProtocolVersionMismatch, Outcome::NotSent)
    );
    assert!(error.text().contains("7..=9"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_answers(&two.connect(&server.address()).await.unwrap()).await;
}

#[actix::test]
async fn protocol_versions_that_overlap_talk() {
    let newer = Peer::start_at("127.0.0.1:0", "1-9");
    let service = service().await;
    assert_answers(&service.connect(&newer.address).await.unwrap()).await;
}

#[actix::test]
async fn a_handshake_is_answered_before_the_endpoint_is_started() {
    let (one, two) = (service().await, service().await);
    let server = one
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let error = counter.send(Add(1)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::NotStarted, Outcome::Refused)
    );
    server.start().await.unwrap();
    assert_answers(&counter).await;
}

#[actix::test]
async fn a_message_of_another_shape_is_refused_by_name_at_connect() {
    let (_one, server, two) = pair().await;
    let error = two
        .connect::<changed::CounterGateway>(&server.address())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::GatewayVersionMismatch, Outcome::Refused)
    );
    for part in ["Add", "test.Counter version 1", "shape", "check_shapes"] {
        assert!(error.text().contains(part), "{error}");
    }
    assert_answers(&two.connect(&server.address()).await.unwrap()).await;
}

#[actix::test]
async fn shapes_are_not_checked_where_that_is_switched_off_or_not_spoken() {
    let lenient = RpcService::builder()
        .check_shapes(false)
        .bind("127.0.0.1:0")
        .start()
        .await
        .unwrap();
    let server = lenient
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    server.start().await.unwrap();
    let service = service().await;
    let older = Peer::start_at("127.0.0.1:0", "1-1");
    for address in [server.address(), older.address.clone()] {
        let counter = service
            .connect::<changed::CounterGateway>(&address)
            .await
            .unwrap();
        // What a handshake would have spared the caller.
        let message = changed::Add {
            number: 1,
            times: 2,
        };
        let error = counter.send(message).await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Decode);
    }
}
