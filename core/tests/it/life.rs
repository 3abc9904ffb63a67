//! The life cycle: hooks, states, ends, names.

use lockkeeper_core::prelude::*;

use crate::support::*;

/// L03
#[test]
fn a_call_before_start_is_refused_and_the_same_gateway_works_after() {
    run(async {
        let service = service();
        let (body, ..) = body();
        let server = service.start_server("test", Endpoint(body)).await.unwrap();
        let gateway = server.gateway::<TestGateway>();
        let error = gateway.send(Add(1)).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::NotStarted, Outcome::Refused)
        );
        assert!(error.is_retryable());
        server.start().await.unwrap();
        assert_eq!(server.state(), EndpointState::Started);
        assert_eq!(gateway.send(Add(1)).await.unwrap(), 1);
    });
}

/// E9
#[test]
fn start_after_stop_resumes_and_keeps_the_state() {
    run(async {
        let mut setup = started().await;
        setup.gateway.send(Add(5)).await.unwrap();
        setup.server.stop().await.unwrap();
        assert_eq!(setup.server.state(), EndpointState::Stopped);
        assert_eq!(
            kind(setup.gateway.send(Add(1)).await),
            RpcErrorKind::NotStarted
        );
        setup.server.start().await.unwrap();
        assert_eq!(setup.seen.recv().await, Some(Seen::Resumed));
        assert_eq!(setup.gateway.send(Add(1)).await.unwrap(), 6);
    });
}

#[test]
fn stop_does_not_wait_behind_the_data() {
    run(async {
        let setup = started().await;
        for _ in 0..10_000 {
            setup.gateway.try_send(Add(1)).unwrap();
        }
        setup.server.stop().await.unwrap();
        let unhandled = setup.service.dead_letters().count(RpcErrorKind::NotStarted);
        setup.server.start().await.unwrap();
        let handled = setup.gateway.send(Add(0)).await.unwrap();
        assert!(unhandled > 0, "all {handled} ran before the stop");
        assert_eq!(u64::try_from(handled).unwrap() + unhandled, 10_000);
    });
}

/// L04, L17
#[test]
fn the_termination_future_resolves_when_the_name_is_free() {
    run(async {
        let setup = started().await;
        let termination = setup.server.termination();
        let again = body().0;
        let taken = setup.service.start_server("test", Endpoint(again)).await;
        assert_eq!(kind(taken), RpcErrorKind::NameTaken);
        actix::spawn({
            let server = setup.server.clone();
            async move { server.terminate().await }
        });
        termination.await.unwrap();
        let again = body().0;
        let server = setup
            .service
            .start_server("test", Endpoint(again))
            .await
            .unwrap();
        server.start().await.unwrap();
        assert_eq!(server.address(), setup.server.address());
    });
}

/// L08
#[test]
fn an_error_of_on_stop_is_the_terminations() {
    run(async {
        let service = service();
        let (mut body, ..) = body();
        body.fail_stop = true;
        let server = service.start_server("test", Endpoint(body)).await.unwrap();
        server.start().await.unwrap();
        let error = server.terminate().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::LifecycleFailed);
        assert!(
            error.text().contains("no disk") && error.text().contains("on_stop"),
            "{error}"
        );
    });
}

/// L11, L12, L13, L16
#[test]
fn calls_are_served_until_on_stop_is_done_and_then_refused() {
    run(async {
        let service = service();
        let (mut body, hands, mut seen) = body();
        body.slow_stop = true;
        let server = service.start_server("test", Endpoint(body)).await.unwrap();
        server.start().await.unwrap();
        let gateway = server.gateway::<TestGateway>();
        let first = actix::spawn({
            let server = server.clone();
            async move { server.terminate().await }
        });
        let second = actix::spawn({
            let server = server.clone();
            async move { server.terminate().await }
        });
        assert_eq!(seen.recv().await, Some(Seen::Started));
        assert_eq!(seen.recv().await, Some(Seen::Stopped));
        assert_eq!(server.state(), EndpointState::Terminating);
        assert_eq!(gateway.send(Add(1)).await.unwrap(), 1);
        server
            .run_async(|actor, _| actor.0.total += 10)
            .await
            .unwrap();
        assert_eq!(kind(server.start().await), RpcErrorKind::InvalidState);
        hands.gate.notify_one();
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
        assert!(seen.try_recv().is_err(), "on_stop ran twice");
        assert_eq!(kind(gateway.send(Add(1)).await), RpcErrorKind::Stopped);
    });
}

#[test]
fn a_call_in_flight_at_the_end_is_answered() {
    run(async {
        let mut setup = started().await;
        let waiting = actix::spawn(setup.gateway.send(Wait));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        setup.server.terminate().await.unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Stopped, Outcome::Unknown)
        );
    });
}

/// L15
#[test]
fn a_failed_on_start_ends_the_endpoint_with_its_cause() {
    run(async {
        let service = service();
        let (mut body, ..) = body();
        body.fail_start = true;
        let server = service.start_server("test", Endpoint(body)).await.unwrap();
        let error = server.start().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::LifecycleFailed);
        assert!(error.text().contains("no disk"), "{error}");
        assert_eq!(
            kind(server.termination().await),
            RpcErrorKind::LifecycleFailed
        );
        assert_eq!(server.state(), EndpointState::Terminated);
    });
}

#[test]
fn a_never_started_endpoint_ends_without_on_stop() {
    run(async {
        let (body, _, mut seen) = body();
        let server = service()
            .start_server("test", Endpoint(body))
            .await
            .unwrap();
        server.terminate().await.unwrap();
        assert!(seen.try_recv().is_err());
    });
}

/// E2
#[test]
fn start_after_the_end_is_an_error_that_harms_no_sibling() {
    run(async {
        let setup = started().await;
        let (other, ..) = body();
        let other = setup
            .service
            .start_server("other", Endpoint(other))
            .await
            .unwrap();
        other.terminate().await.unwrap();
        let error = other.start().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::InvalidState);
        assert!(error.text().contains("TERMINATED"), "{error}");
        assert_eq!(kind(other.stop().await), RpcErrorKind::InvalidState);
        other.terminate().await.unwrap();
        assert_eq!(setup.gateway.send(Add(1)).await.unwrap(), 1);
    });
}

/// L18
#[test]
fn an_endpoint_can_be_started_when_another_has_ended() {
    run(async {
        let setup = started().await;
        let service = setup.service.clone();
        let termination = setup.server.termination();
        let successor = actix::spawn(async move {
            termination.await.unwrap();
            service
                .start_server("test", Endpoint(body().0))
                .await
                .unwrap()
        });
        setup.server.terminate().await.unwrap();
        successor.await.unwrap().start().await.unwrap();
    });
}

#[test]
fn an_actor_that_stops_itself_ends_the_endpoint_with_that_cause() {
    run(async {
        use actix::ActorContext;
        let setup = started().await;
        setup
            .server
            .run_async(|_, context| context.stop())
            .await
            .unwrap();
        let error = setup.server.termination().await.unwrap_err();
        assert!(error.text().contains("stopped itself"), "{error}");
        assert_eq!(
            kind(setup.gateway.send(Add(1)).await),
            RpcErrorKind::Stopped
        );
    });
}

#[test]
fn a_hook_over_its_limit_counts_as_failed() {
    run(async {
        let limit = std::time::Duration::from_millis(20);
        let service = RpcService::builder().hook_timeout(limit).build().unwrap();
        let (mut body, ..) = body();
        body.slow_stop = true;
        let server = service.start_server("test", Endpoint(body)).await.unwrap();
        server.start().await.unwrap();
        let error = server.terminate().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Timeout);
        assert!(error.text().contains("on_stop"), "{error}");
    });
}

#[test]
fn an_arbiter_that_ends_answers_all_of_its_endpoints_calls() {
    run(async {
        let arbiter = actix::Arbiter::new();
        let (seen, mut events) = tokio::sync::mpsc::unbounded_channel();
        let make = move || {
            let mut body = body().0;
            body.hands.seen = seen;
            Endpoint(body)
        };
        let service = service();
        let server = service
            .start_server_in(&arbiter.handle(), "test", make)
            .await
            .unwrap();
        server.start().await.unwrap();
        let gateway = server.gateway::<TestGateway>();
        let waiting = actix::spawn(gateway.send(Wait));
        assert_eq!(events.recv().await, Some(Seen::Started));
        assert_eq!(events.recv().await, Some(Seen::Waiting));
        arbiter.stop();
        assert!(waiting.await.unwrap().is_err());
        assert_eq!(kind(server.termination().await), RpcErrorKind::Stopped);
        assert_eq!(kind(gateway.send(Add(1)).await), RpcErrorKind::Stopped);
    });
}
