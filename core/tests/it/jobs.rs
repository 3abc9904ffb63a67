//! Closures on the endpoint's thread.

use std::time::{Duration, Instant};

use lockkeeper_core::prelude::*;

use crate::support::*;

#[test]
fn a_closure_runs_on_the_endpoints_thread_with_its_state() {
    run(async {
        let setup = started().await;
        let here = std::thread::current().id();
        let (thread, total) = setup
            .server
            .call_async(LIMIT, |actor, _| {
                actor.0.total += 3;
                (std::thread::current().id(), actor.0.total)
            })
            .await
            .unwrap();
        assert_eq!((thread, total), (here, 3));
    });
}

/// E5
#[test]
fn a_closure_for_a_stopped_endpoint_resolves_to_not_started() {
    run(async {
        let setup = started().await;
        setup.server.stop().await.unwrap();
        assert_eq!(
            kind(setup.server.run_async(|_, _| ()).await),
            RpcErrorKind::NotStarted
        );
        setup.server.terminate().await.unwrap();
        assert_eq!(
            kind(setup.server.run_async(|_, _| ()).await),
            RpcErrorKind::Stopped
        );
    });
}

/// P17
#[test]
fn a_panic_in_a_closure_is_answered() {
    run(async {
        let setup = started().await;
        let error = setup
            .server
            .run_async(|_, _| panic!("told to"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Panicked);
        assert!(error.text().contains("told to"));
        assert_eq!(setup.gateway.send(Add(1)).await.unwrap(), 1);
    });
}

/// L23
#[test]
fn a_scheduled_closure_never_runs_before_its_delay() {
    run(async {
        let setup = started().await;
        let (delay, begin) = (Duration::from_millis(30), Instant::now());
        setup
            .server
            .schedule_run_async(delay, |_, _| ())
            .await
            .unwrap();
        assert!(begin.elapsed() >= delay);
    });
}

/// E4, E17
#[test]
fn a_delay_of_ever_is_accepted_and_resolves_with_the_endpoints_end() {
    run(async {
        let setup = started().await;
        let never = setup.server.schedule_run_async(Duration::MAX, |_, _| ());
        setup.server.terminate().await.unwrap();
        assert_eq!(kind(never.await), RpcErrorKind::Stopped);
        let late = setup.server.schedule_run_async(Duration::ZERO, |_, _| ());
        assert_eq!(kind(late.await), RpcErrorKind::Stopped);
    });
}

#[test]
fn a_cancelled_closure_does_not_run() {
    run(async {
        let setup = started().await;
        let handle = setup.server.schedule_run_async(Duration::MAX, |_, _| ());
        handle.cancel();
        assert_eq!(kind(handle.await), RpcErrorKind::Cancelled);
        let handle = setup.server.run_async(|actor, _| actor.0.total = 100);
        handle.cancel();
        assert!(handle.await.is_err());
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 0);
    });
}

#[test]
fn call_async_over_its_limit_is_refused_and_never_runs() {
    run(async {
        let arbiter = actix::Arbiter::new();
        let make = || Endpoint(body().0);
        let service = service();
        let server = service
            .start_server_in(&arbiter.handle(), "test", make)
            .await
            .unwrap();
        server.start().await.unwrap();
        let (release, until) = std::sync::mpsc::channel();
        server
            .gateway::<TestGateway>()
            .try_send(Block(until))
            .unwrap();
        let late = server.call_async(Duration::from_millis(20), |actor, _| actor.0.total = 100);
        let error = late.await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Timeout, Outcome::Refused)
        );
        release.send(()).unwrap();
        assert_eq!(
            server.gateway::<TestGateway>().send(Add(0)).await.unwrap(),
            0
        );
        arbiter.stop();
    });
}
