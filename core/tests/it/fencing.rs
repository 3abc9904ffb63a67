//! Tokens: who may call, and what a revocation guarantees.

use lockkeeper_core::{FencingToken, prelude::*};
use uuid::Uuid;

use crate::support::*;

fn token(epoch: u64) -> FencingToken {
    FencingToken::new(1_u64, epoch, Uuid::from_u128(u128::from(epoch)))
}

struct Fenced {
    service: RpcService,
    server: RpcServer<Leader>,
    hands: Hands,
    seen: tokio::sync::mpsc::UnboundedReceiver<Seen>,
}

async fn fenced(token: Option<FencingToken>) -> Fenced {
    let service = service();
    let (body, hands, mut seen) = body();
    let server = service
        .start_fenced_server("leader", Leader(body), token)
        .await
        .unwrap();
    server.start().await.unwrap();
    assert_eq!(seen.recv().await, Some(Seen::Started));
    Fenced {
        service,
        server,
        hands,
        seen,
    }
}

/// F01, E7
#[test]
fn the_right_token_works_and_a_wrong_one_says_who_is_stale() {
    run(async {
        let setup = fenced(Some(token(5))).await;
        let address = setup.server.address();
        let connect = |token| {
            setup
                .service
                .connect_fenced::<LeaderGateway>(&address, token)
        };
        let gateway = connect(token(5)).await.unwrap();
        assert_eq!(gateway.token(), Some(token(5)));
        assert_eq!(gateway.send(Add(1)).await.unwrap(), 1);
        let violation = |kind| RpcErrorKind::Fenced(kind);
        assert_eq!(
            kind(connect(token(4)).await),
            violation(FencingViolation::CallerIsStale)
        );
        assert_eq!(
            kind(connect(token(6)).await),
            violation(FencingViolation::EndpointIsStale)
        );
        let other = FencingToken::new(2_u64, 5, Uuid::from_u128(5));
        assert_eq!(
            kind(connect(other).await),
            violation(FencingViolation::OtherLineage)
        );
        let other = FencingToken::new(1_u64, 5, Uuid::from_u128(6));
        assert_eq!(
            kind(connect(other).await),
            violation(FencingViolation::Mismatch)
        );
    });
}

/// F02, F03
#[test]
fn after_a_change_the_old_gateway_fails_and_the_self_gateway_follows() {
    run(async {
        let setup = fenced(Some(token(1))).await;
        let address = setup.server.address();
        let old = setup
            .service
            .connect_fenced::<LeaderGateway>(&address, token(1))
            .await
            .unwrap();
        let own = setup.server.gateway::<LeaderGateway>();
        setup.server.set_token(token(2));
        assert_eq!(
            kind(old.send(Add(1)).await),
            RpcErrorKind::Fenced(FencingViolation::CallerIsStale)
        );
        assert_eq!(own.token(), Some(token(2)));
        assert_eq!(own.send(Add(1)).await.unwrap(), 1);
    });
}

/// F07, E15
#[test]
fn without_a_token_the_endpoint_is_not_the_leader() {
    run(async {
        let setup = fenced(None).await;
        let not_leader = RpcErrorKind::Fenced(FencingViolation::NotLeader);
        let error = setup
            .service
            .connect_fenced::<LeaderGateway>(&setup.server.address(), token(1))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), not_leader);
        assert!(error.is_retryable());
        let own = setup.server.gateway::<LeaderGateway>();
        assert_eq!(kind(own.send(Add(1)).await), not_leader);
        assert_eq!(kind(setup.server.run_async(|_, _| ()).await), not_leader);
    });
}

#[test]
fn an_unfenced_gateway_of_a_fenced_endpoint_needs_no_token() {
    run(async {
        let setup = fenced(None).await;
        let status = setup
            .service
            .connect::<AddGateway>(&setup.server.address())
            .await
            .unwrap();
        assert_eq!(status.send(Add(1)).await.unwrap(), 1);
    });
}

/// F06: what a peer without the compiler's help would do.
#[test]
fn a_handshake_without_token_is_refused_as_missing() {
    run(async {
        let setup = fenced(Some(token(1))).await;
        let handshake = lockkeeper_core::transport::Handshake {
            gateway: "test.Leader".into(),
            version: 1,
            methods: vec!["Add".into()],
            shapes: Vec::new(),
            token: None,
            caller: lockkeeper_core::transport::Caller::Local,
        };
        let endpoint = setup.service.endpoint("leader").unwrap();
        assert_eq!(kind(endpoint.accept(handshake)), RpcErrorKind::MissingToken);
    });
}

/// F05
#[test]
fn a_closure_queued_under_the_old_token_does_not_run() {
    run(async {
        let setup = fenced(Some(token(1))).await;
        let handle = setup.server.run_async(|actor, _| actor.0.total += 1);
        setup.server.set_token(token(2));
        assert!(handle.await.unwrap_err().is_fenced());
        let total = setup
            .server
            .call_async(LIMIT, |actor, _| actor.0.total)
            .await
            .unwrap();
        assert_eq!(total, 0);
    });
}

/// P5, invariant 2
#[test]
fn revoke_resolves_only_when_no_call_of_the_old_token_runs() {
    run(async {
        let mut setup = fenced(Some(token(1))).await;
        let gateway = setup.server.gateway::<LeaderGateway>();
        let call = actix::spawn(gateway.send(Wait));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        let revoked = actix::spawn({
            let server = setup.server.clone();
            async move { server.revoke().await }
        });
        assert_eq!(setup.seen.recv().await, Some(Seen::Cancelled));
        assert!(!revoked.is_finished());
        assert!(
            kind(gateway.send(Add(1)).await) == RpcErrorKind::Fenced(FencingViolation::NotLeader)
        );
        setup.hands.gate.notify_one();
        revoked.await.unwrap().unwrap();
        assert_eq!(call.await.unwrap().unwrap(), 7);
        setup.server.set_token(token(2));
        assert_eq!(gateway.send(Add(1)).await.unwrap(), 1);
    });
}

#[test]
fn what_outlives_the_revoke_timeout_is_named_and_its_caller_answered() {
    run(async {
        let limit = std::time::Duration::from_millis(30);
        let service = RpcService::builder().revoke_timeout(limit).build().unwrap();
        let (body, _, mut seen) = body();
        let server = service
            .start_fenced_server("leader", Leader(body), token(1))
            .await
            .unwrap();
        server.start().await.unwrap();
        let call = actix::spawn(server.gateway::<LeaderGateway>().send(WaitDetached));
        assert_eq!(seen.recv().await, Some(Seen::Started));
        assert_eq!(seen.recv().await, Some(Seen::Waiting));
        let error = server.revoke().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Timeout);
        assert!(error.text().contains("WaitDetached"), "{error}");
        assert_eq!(call.await.unwrap().unwrap_err().outcome(), Outcome::Unknown);
        assert_eq!(server.state(), EndpointState::Terminated);
    });
}

/// P18
#[test]
fn a_hundred_rounds_of_grant_and_revoke_leave_a_working_endpoint() {
    run(async {
        let setup = fenced(None).await;
        let own = setup.server.gateway::<LeaderGateway>();
        for epoch in 1..=100 {
            setup.server.set_token(token(epoch));
            own.send(Add(1)).await.unwrap();
            setup.server.revoke().await.unwrap();
            assert!(own.send(Add(1)).await.unwrap_err().is_fenced());
        }
        setup.server.set_token(token(101));
        assert_eq!(own.send(Add(0)).await.unwrap(), 100);
    });
}

#[test]
fn a_handler_that_holds_its_thread_over_a_revocation_cannot_reply() {
    run(async {
        let limit = std::time::Duration::from_millis(30);
        let service = RpcService::builder().revoke_timeout(limit).build().unwrap();
        let arbiter = actix::Arbiter::new();
        let make = || Leader(body().0);
        let handle = arbiter.handle();
        let started = service.start_fenced_server_in(&handle, "leader", token(1), make);
        let server = started.await.unwrap();
        server.start().await.unwrap();
        let (release, until) = std::sync::mpsc::channel();
        let call = actix::spawn(server.gateway::<LeaderGateway>().send(Block(until)));
        while server.waiting().0 > 0 || !call_has_begun(&server) {
            tokio::task::yield_now().await;
        }
        let error = server.revoke().await.unwrap_err();
        assert!(error.text().contains("holds its thread"), "{error}");
        release.send(()).unwrap();
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert!(error.is_fenced(), "{error}");
        arbiter.stop();
    });
}

fn call_has_begun(server: &RpcServer<Leader>) -> bool {
    server.handled() > 0
}
