//! What a faulty network does to calls, through the proxy that users' tests can have too.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_core::{Outcome, RpcErrorKind};

use super::fixture::*;
use crate::settings::RemoteSettings;
use crate::testing::FaultProxy;

async fn through_a_proxy(settings: RemoteSettings) -> (Service, Service, FaultProxy) {
    let server = Service::start().await;
    let client = Service::start_with(|it| it.settings(settings)).await;
    let authority = server.authority();
    let proxy = FaultProxy::start(authority.host(), authority.port())
        .await
        .unwrap();
    (server, client, proxy)
}

#[tokio::test]
async fn behind_address_translation_calls_go_both_ways_on_one_connection() {
    // The service is bound to one port and says that it is reached by another.
    let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = inside.local_addr().unwrap().port();
    drop(inside);
    let proxy = FaultProxy::start("127.0.0.1", port).await.unwrap();
    let advertised = proxy.address().to_string();
    let builder = lockkeeper_core::RpcService::builder();
    let builder = crate::RemoteBuilderExt::bind(builder, format!("127.0.0.1:{port}"));
    let server = Service::start_as(builder.advertise(&advertised), uuid::Uuid::new_v4()).await;
    assert_eq!(server.authority().to_string(), advertised);
    let client = Service::start().await;
    assert_serves(&client.connect(server.address()).await.unwrap()).await;
    assert_serves(&server.connect(client.address()).await.unwrap()).await;
    assert_eq!((client.links(), server.links()), (1, 1));
}

#[tokio::test]
async fn a_cut_connection_is_made_anew_and_the_session_goes_on() {
    let (mut server, client, proxy) = through_a_proxy(RemoteSettings::default()).await;
    let session = client
        .connect(proxy.through(&server.address()))
        .await
        .unwrap();
    let ask = tokio::spawn(session.ask(call(HOLD, Bytes::new())));
    let _held = server.held().await;
    proxy.cut();
    let error = ask.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::ConnectionLost, Outcome::Unknown)
    );
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_half_open_connection_is_noticed_by_silence() {
    let (server, client, proxy) = through_a_proxy(quick_settings()).await;
    let session = client
        .connect(proxy.through(&server.address()))
        .await
        .unwrap();
    proxy.half_open(true);
    let begun = Instant::now();
    let error = session.ask(call(ECHO, Bytes::new())).await.unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::ConnectionLost);
    assert!(error.text().contains("silent"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(15));
    proxy.half_open(false);
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_lost_answer_is_a_time_out_of_that_call_alone() {
    let (server, client, proxy) = through_a_proxy(RemoteSettings::default()).await;
    let session = client
        .connect(proxy.through(&server.address()))
        .await
        .unwrap();
    proxy.drop_messages(1);
    let limit = Duration::from_millis(100);
    let lost = session.ask(call_within(ECHO, Bytes::new(), limit)).await;
    let error = lost.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Timeout, Outcome::Unknown)
    );
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_doubled_call_that_runs_ends_the_connection_and_no_call_resolves_twice() {
    let (mut server, client, proxy) = through_a_proxy(RemoteSettings::default()).await;
    let session = client
        .connect(proxy.through(&server.address()))
        .await
        .unwrap();
    proxy.duplicate_messages(1);
    let ask = tokio::spawn(session.ask(call(HOLD, Bytes::new())));
    let _held = server.held().await;
    let error = ask.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::ConnectionLost);
    assert_serves(&session).await;
}

#[tokio::test]
async fn delay_and_a_slow_reader_cost_time_and_nothing_else() {
    let (server, client, proxy) = through_a_proxy(RemoteSettings::default()).await;
    let session = client
        .connect(proxy.through(&server.address()))
        .await
        .unwrap();
    proxy.delay(Duration::from_millis(20));
    let begun = Instant::now();
    assert_serves(&session).await;
    assert!(begun.elapsed() >= Duration::from_millis(40));
    proxy.delay(Duration::ZERO);
    proxy.read_slowly(Some(100_000));
    let payload = Bytes::from(vec![3; 30_000]);
    let answer = session.ask(call(ECHO, payload.clone())).await.unwrap();
    assert_eq!(answer, payload);
}

#[tokio::test]
async fn a_proxy_that_refuses_is_an_unreachable_peer() {
    let (server, client, proxy) = through_a_proxy(RemoteSettings::default()).await;
    proxy.refuse(true);
    let refused = client.connect(proxy.through(&server.address())).await;
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::Unreachable);
    proxy.refuse(false);
    let session = client.connect(proxy.through(&server.address())).await;
    assert_serves(&session.unwrap()).await;
}
