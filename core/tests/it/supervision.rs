//! Restarts: what is kept, what is answered, when it is given up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_core::prelude::*;

use crate::support::*;

struct Supervised {
    service: RpcService,
    server: RpcServer<Endpoint>,
    gateway: Gateway<TestGateway>,
    hands: Hands,
    seen: tokio::sync::mpsc::UnboundedReceiver<Seen>,
    made: Arc<AtomicU64>,
}

fn policy() -> RestartPolicy {
    RestartPolicy::default()
        .back_off(Duration::from_millis(1), Duration::from_millis(1))
        .seed(1)
}

async fn supervised(policy: RestartPolicy) -> Supervised {
    let service = service();
    let made = Arc::new(AtomicU64::new(0));
    let (first, hands, mut seen) = body();
    drop(first);
    let factory = {
        let (made, hands) = (Arc::clone(&made), hands.clone());
        move || {
            made.fetch_add(1, Ordering::SeqCst);
            let mut body = body().0;
            body.hands = hands.clone();
            Endpoint(body)
        }
    };
    let server = service
        .start_supervised_server("test", policy, factory)
        .await
        .unwrap();
    server.start().await.unwrap();
    assert_eq!(seen.recv().await, Some(Seen::Started));
    let gateway = server.gateway();
    Supervised {
        service,
        server,
        gateway,
        hands,
        seen,
        made,
    }
}

/// Q16
#[test]
fn after_a_panic_calls_that_wait_are_kept_and_served_by_the_new_actor() {
    run(async {
        let setup = supervised(policy()).await;
        setup.gateway.send(Add(5)).await.unwrap();
        let panicking = actix::spawn(setup.gateway.send(Panic));
        let waiting = (0..100)
            .map(|_| actix::spawn(setup.gateway.send(Add(1))))
            .collect::<Vec<_>>();
        assert_eq!(kind(panicking.await.unwrap()), RpcErrorKind::Panicked);
        for call in waiting {
            call.await.unwrap().unwrap();
        }
        // A new actor: its total began at zero.
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 100);
        assert_eq!(setup.made.load(Ordering::SeqCst), 2);
        assert_eq!(setup.server.state(), EndpointState::Started);
    });
}

#[test]
fn calls_in_flight_at_a_restart_are_answered_restarted() {
    run(async {
        let mut setup = supervised(policy()).await;
        let attached = actix::spawn(setup.gateway.send(Wait));
        let detached = actix::spawn(setup.gateway.send(WaitDetached));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        setup.gateway.do_send(PanicLater);
        for call in [attached, detached] {
            let error = call.await.unwrap().unwrap_err();
            assert_eq!(
                (error.kind(), error.outcome()),
                (RpcErrorKind::Restarted, Outcome::Unknown)
            );
        }
        assert_eq!(setup.gateway.send(Add(1)).await.unwrap(), 1);
        assert_eq!(setup.made.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn keep_leaves_the_actor_as_the_panic_left_it() {
    run(async {
        let setup = supervised(policy().after_panic(AfterPanic::Keep)).await;
        setup.gateway.send(Add(5)).await.unwrap();
        assert_eq!(
            kind(setup.gateway.send(Panic).await),
            RpcErrorKind::Panicked
        );
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 5);
        assert_eq!(setup.made.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn over_the_limit_the_endpoint_ends_with_the_last_cause() {
    run(async {
        let setup = supervised(policy().max_restarts(2)).await;
        for _ in 0..3 {
            assert_eq!(
                kind(setup.gateway.send(Panic).await),
                RpcErrorKind::Panicked
            );
        }
        let error = setup.server.termination().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Panicked);
        assert!(
            error.text().contains("2 restarts") && error.text().contains("told to"),
            "{error}"
        );
        assert_eq!(
            kind(setup.gateway.send(Add(1)).await),
            RpcErrorKind::Stopped
        );
        assert!(!setup.service.is_terminated());
    });
}

#[test]
fn escalation_ends_the_service() {
    run(async {
        let policy = policy()
            .max_restarts(0)
            .escalation(Escalation::TerminateService);
        let setup = supervised(policy).await;
        let (sibling, ..) = body();
        let sibling = setup
            .service
            .start_server("sibling", Endpoint(sibling))
            .await
            .unwrap();
        sibling.start().await.unwrap();
        setup.gateway.do_send(Panic);
        sibling.termination().await.unwrap();
        assert!(setup.service.is_terminated());
    });
}

#[test]
fn a_stopped_endpoint_is_restarted_stopped() {
    run(async {
        let mut setup = supervised(policy()).await;
        let waiting = actix::spawn(setup.gateway.send(Wait));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        setup.gateway.do_send(PanicLater);
        setup.server.stop().await.unwrap();
        assert_eq!(kind(waiting.await.unwrap()), RpcErrorKind::Restarted);
        setup.server.start().await.unwrap();
        assert_eq!(setup.gateway.send(Add(1)).await.unwrap(), 1);
        drop(setup.hands);
    });
}

#[test]
fn terminate_during_the_back_off_ends_the_endpoint() {
    run(async {
        let hour = Duration::from_secs(3600);
        let setup = supervised(RestartPolicy::default().back_off(hour, hour)).await;
        assert_eq!(
            kind(setup.gateway.send(Panic).await),
            RpcErrorKind::Panicked
        );
        let waiting = actix::spawn(setup.gateway.send(Add(1)));
        tokio::task::yield_now().await;
        setup.server.terminate().await.unwrap();
        assert_eq!(kind(waiting.await.unwrap()), RpcErrorKind::Stopped);
    });
}

#[test]
fn a_factory_that_panics_counts_as_a_failure() {
    run(async {
        let service = service();
        let mut made = 0;
        let factory = move || {
            made += 1;
            assert!(made == 1, "no second one");
            Endpoint(body().0)
        };
        let policy = policy().max_restarts(2);
        let server = service
            .start_supervised_server("test", policy, factory)
            .await
            .unwrap();
        server.start().await.unwrap();
        server.gateway::<TestGateway>().do_send(Panic);
        let error = server.termination().await.unwrap_err();
        assert!(error.text().contains("the factory of"), "{error}");
    });
}
