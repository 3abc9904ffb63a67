//! The inbox's bounds, and turns that let others in between.

use std::time::Duration;

use lockkeeper_core::{InboxLimits, prelude::*};

use crate::support::*;

struct Blocked {
    arbiter: actix::Arbiter,
    service: RpcService,
    gateway: Gateway<TestGateway>,
    server: RpcServer<Endpoint>,
    release: std::sync::mpsc::Sender<()>,
}

/// An endpoint on an arbiter of its own that handles nothing until released.
async fn blocked(limits: InboxLimits) -> Blocked {
    let service = RpcService::builder().inbox_limits(limits).build().unwrap();
    let arbiter = actix::Arbiter::new();
    let make = || Endpoint(body().0);
    let server = service
        .start_server_in(&arbiter.handle(), "test", make)
        .await
        .unwrap();
    server.start().await.unwrap();
    let gateway = server.gateway::<TestGateway>();
    let (release, until) = std::sync::mpsc::channel();
    gateway.try_send(Block(until)).unwrap();
    // Taken out of the inbox: the handler holds the thread.
    while server.waiting().0 > 0 {
        tokio::task::yield_now().await;
    }
    Blocked {
        arbiter,
        service,
        gateway,
        server,
        release,
    }
}

#[test]
fn a_full_inbox_refuses_and_accepted_is_handled() {
    run(async {
        let setup = blocked(InboxLimits {
            messages: 100,
            bytes: 1 << 20,
        })
        .await;
        let mut accepted = 0;
        for _ in 0..10_000 {
            match setup.gateway.try_send(Add(1)) {
                Ok(()) => accepted += 1,
                Err(error) => assert_eq!(error.kind(), RpcErrorKind::Full),
            }
        }
        assert_eq!(accepted, 100);
        setup.gateway.do_send(Add(1));
        assert_eq!(setup.service.dead_letters().count(RpcErrorKind::Full), 1);
        setup.release.send(()).unwrap();
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 100);
        setup.arbiter.stop();
    });
}

#[test]
fn bytes_are_bounded_too() {
    run(async {
        let setup = blocked(InboxLimits {
            messages: 100,
            bytes: 20,
        })
        .await;
        setup.gateway.try_send(Add(1)).unwrap();
        setup.gateway.try_send(Add(1)).unwrap();
        assert_eq!(kind(setup.gateway.try_send(Add(1))), RpcErrorKind::Full);
        setup.release.send(()).unwrap();
        setup.arbiter.stop();
    });
}

#[test]
fn send_waits_for_room_within_its_limit() {
    run(async {
        let setup = blocked(InboxLimits {
            messages: 1,
            bytes: 1 << 20,
        })
        .await;
        setup.gateway.try_send(Add(1)).unwrap();
        let error = setup
            .gateway
            .send(Add(1))
            .timeout(Duration::from_millis(20))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Timeout, Outcome::NotSent)
        );
        let patient = (0..50)
            .map(|_| actix::spawn(setup.gateway.send(Add(1))))
            .collect::<Vec<_>>();
        tokio::task::yield_now().await;
        assert_eq!(setup.server.waiting().0, 1);
        setup.release.send(()).unwrap();
        for call in patient {
            call.await.unwrap().unwrap();
        }
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 51);
        setup.arbiter.stop();
    });
}

#[test]
fn an_endpoints_end_wakes_those_who_wait_for_room() {
    run(async {
        let setup = blocked(InboxLimits {
            messages: 1,
            bytes: 1 << 20,
        })
        .await;
        setup.gateway.try_send(Add(1)).unwrap();
        let patient = actix::spawn(setup.gateway.send(Add(1)));
        tokio::task::yield_now().await;
        let end = actix::spawn({
            let server = setup.server.clone();
            async move { server.stop().await }
        });
        tokio::task::yield_now().await;
        setup.release.send(()).unwrap();
        end.await.unwrap().unwrap();
        let result = patient.await.unwrap();
        assert!(result.is_ok() || kind(result) == RpcErrorKind::NotStarted);
        setup.arbiter.stop();
    });
}

/// Q10
#[test]
fn a_backlog_lets_other_work_of_the_arbiter_in_between() {
    run(async {
        let setup = started().await;
        for _ in 0..10_000 {
            setup.gateway.try_send(Add(1)).unwrap();
        }
        // One turn at a time: another task of the arbiter gets its own after each.
        let server = setup.server.clone();
        let turns = actix::spawn(async move {
            let mut turns = 0;
            while server.waiting().0 > 0 {
                // To the end of the arbiter's queue; tokio's own yield_now goes farther back.
                let mut is_back = false;
                std::future::poll_fn(|context| {
                    if std::mem::replace(&mut is_back, true) {
                        return std::task::Poll::Ready(());
                    }
                    context.waker().wake_by_ref();
                    std::task::Poll::Pending
                })
                .await;
                turns += 1;
            }
            turns
        });
        let turns = turns.await.unwrap();
        assert!(turns >= 10, "10,000 entries took {turns} turns");
    });
}

#[test]
fn limits_of_zero_are_refused() {
    run(async {
        let limits = InboxLimits {
            messages: 0,
            bytes: 1,
        };
        let built = RpcService::builder().inbox_limits(limits).build();
        assert_eq!(kind(built), RpcErrorKind::InvalidConfiguration);
    });
}
