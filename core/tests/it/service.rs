//! The service: its end, its executor, and where endpoints can be started.

use std::time::{Duration, Instant};

use lockkeeper_core::prelude::*;

use crate::support::*;

/// V09, L10
#[test]
fn terminating_the_service_ends_every_endpoint() {
    run(async {
        let service = service();
        let mut servers = Vec::new();
        for number in 0..10 {
            let name = format!("test-{number}");
            let server = service
                .start_server(&name, Endpoint(body().0))
                .await
                .unwrap();
            server.start().await.unwrap();
            servers.push(server);
        }
        service.terminate().await.unwrap();
        assert!(
            servers
                .iter()
                .all(|server| server.state() == EndpointState::Terminated)
        );
        let late = service.start_server("late", Endpoint(body().0)).await;
        assert_eq!(kind(late), RpcErrorKind::ServiceStopped);
        let connect = service.connect::<TestGateway>(&servers[0].address()).await;
        assert_eq!(kind(connect), RpcErrorKind::ServiceStopped);
        service.terminate().await.unwrap();
    });
}

/// V10
#[test]
fn one_failing_endpoint_is_reported_and_everything_is_down() {
    run(async {
        let setup = started().await;
        let (mut failing, ..) = body();
        failing.fail_stop = true;
        let failing = setup
            .service
            .start_server("failing", Endpoint(failing))
            .await
            .unwrap();
        failing.start().await.unwrap();
        let error = setup.service.terminate().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::LifecycleFailed);
        assert_eq!(setup.server.state(), EndpointState::Terminated);
    });
}

/// V01, V02, V08
#[test]
fn the_executor_runs_now_later_or_not_at_all() {
    run(async {
        let service = service();
        assert_eq!(service.execute(async { 1 }).await.unwrap(), 1);
        let (delay, begin) = (Duration::from_millis(20), Instant::now());
        assert_eq!(service.schedule(delay, async { 2 }).await.unwrap(), 2);
        assert!(begin.elapsed() >= delay);
        let never = service.schedule(Duration::MAX, async { 3 });
        never.cancel();
        assert_eq!(kind(never.await), RpcErrorKind::Cancelled);
    });
}

#[test]
fn starting_off_an_arbiter_is_an_error_and_no_panic() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let service = service();
        let error = service
            .start_server("test", Endpoint(body().0))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::InvalidState);
        assert!(error.text().contains("start_server_in"), "{error}");
    });
}

#[test]
fn an_endpoint_lives_in_a_local_set_without_a_system() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let setup = started().await;
        assert_eq!(setup.gateway.send(Add(1)).await.unwrap(), 1);
        setup.service.terminate().await.unwrap();
    });
}

#[test]
fn two_services_know_nothing_of_each_other() {
    run(async {
        let setup = started().await;
        let connect = service()
            .connect::<TestGateway>(&setup.server.address())
            .await;
        assert_eq!(kind(connect), RpcErrorKind::NoSuchEndpoint);
    });
}

#[test]
fn a_name_that_is_none_is_refused() {
    run(async {
        let error = service()
            .start_server("a b", Endpoint(body().0))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::InvalidAddress);
    });
}
