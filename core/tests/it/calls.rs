//! Asks and one-way messages: values, errors, panics, time-outs.

use std::{sync::Arc, time::Duration};

use lockkeeper_core::prelude::*;

use crate::support::*;

#[test]
fn a_call_brings_the_handlers_value() {
    run(async {
        let setup = started().await;
        assert_eq!(setup.gateway.send(Add(2)).await.unwrap(), 2);
        assert_eq!(setup.gateway.send(Add(3)).await.unwrap(), 5);
    });
}

/// L20, L21
#[test]
fn none_and_unit_are_legal_replies() {
    run(async {
        let setup = started().await;
        assert_eq!(setup.gateway.send(Nothing).await.unwrap(), None);
    });
}

/// L05
#[test]
fn a_handlers_own_error_is_an_ordinary_reply() {
    run(async {
        let setup = started().await;
        let reply = setup.gateway.send(Divide(0)).await.unwrap();
        assert_eq!(reply, Err("divided by zero".to_owned()));
    });
}

/// S07
#[test]
fn a_local_message_arrives_as_the_same_value() {
    run(async {
        let setup = started().await;
        let value: Arc<str> = "same".into();
        let back = setup.gateway.send(Same(Arc::clone(&value))).await.unwrap();
        assert!(Arc::ptr_eq(&value, &back));
    });
}

/// S13
#[test]
fn forced_serialization_encodes_all_but_local_messages() {
    run(async {
        let service = RpcService::builder()
            .force_serialization(true)
            .build()
            .unwrap();
        let setup = started_on(service).await;
        assert_eq!(setup.gateway.send(Add(2)).await.unwrap(), 2);
        assert_eq!(
            setup.gateway.send(Divide(0)).await.unwrap(),
            Err("divided by zero".into())
        );
        assert_eq!(
            kind(setup.gateway.send(Panic).await),
            RpcErrorKind::Panicked
        );
        let value: Arc<str> = "same".into();
        let back = setup.gateway.send(Same(Arc::clone(&value))).await.unwrap();
        assert!(Arc::ptr_eq(&value, &back));
        setup.gateway.do_send(Add(1));
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 3);
    });
}

/// E3
#[test]
fn a_panicking_handler_fails_that_call_only() {
    run(async {
        let setup = started().await;
        let error = setup.gateway.send(Panic).await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Panicked);
        assert!(
            error.text().contains("told to") && error.text().contains("Panic"),
            "{error}"
        );
        assert_eq!(setup.gateway.send(Add(1)).await.unwrap(), 1);
        assert_eq!(
            setup.service.dead_letters().refused(RpcErrorKind::Panicked),
            1
        );
    });
}

#[test]
fn a_panic_in_a_future_ends_the_endpoint_and_answers_every_call_in_flight() {
    run(async {
        let mut setup = started().await;
        let (sibling, ..) = body();
        let sibling = setup
            .service
            .start_server("sibling", Endpoint(sibling))
            .await
            .unwrap();
        sibling.start().await.unwrap();
        let waiting = actix::spawn(setup.gateway.send(Wait));
        let detached = actix::spawn(setup.gateway.send(WaitDetached));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        assert_eq!(
            kind(setup.gateway.send(PanicLater).await),
            RpcErrorKind::Panicked
        );
        for call in [waiting, detached] {
            let error = call.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), RpcErrorKind::Panicked);
            assert_eq!(error.outcome(), Outcome::Unknown);
            assert!(error.text().contains("told to, later"), "{error}");
        }
        assert_eq!(
            kind(setup.server.termination().await),
            RpcErrorKind::Panicked
        );
        let error = setup.gateway.send(Add(1)).await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Stopped);
        assert!(error.text().contains("told to, later"), "{error}");
        assert_eq!(
            sibling.gateway::<TestGateway>().send(Add(1)).await.unwrap(),
            1
        );
    });
}

/// T01, P3
#[test]
fn a_time_out_names_method_target_limit_phase_and_place() {
    run(async {
        let setup = started().await;
        let error = setup
            .gateway
            .send(Wait)
            .timeout(Duration::from_millis(20))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Timeout);
        assert_eq!(error.outcome(), Outcome::Unknown);
        for part in [
            "test.Test.Wait",
            "lockkeeper-local:///test",
            "calls.rs",
            "it may have run",
        ] {
            assert!(error.text().contains(part), "{part:?} is not in {error}");
        }
    });
}

#[test]
fn a_call_that_times_out_in_the_queue_is_refused_and_never_runs() {
    run(async {
        let arbiter = actix::Arbiter::new();
        let service = service();
        let make = || Endpoint(body().0);
        let server = service
            .start_server_in(&arbiter.handle(), "test", make)
            .await
            .unwrap();
        server.start().await.unwrap();
        let gateway = server.gateway::<TestGateway>();
        let (release, until) = std::sync::mpsc::channel();
        gateway.try_send(Block(until)).unwrap();
        let error = gateway
            .send(Add(1))
            .timeout(Duration::from_millis(20))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Timeout, Outcome::Refused)
        );
        release.send(()).unwrap();
        assert_eq!(gateway.send(Add(0)).await.unwrap(), 0);
        arbiter.stop();
    });
}

/// E14
#[test]
fn a_handler_sees_that_its_caller_gave_up() {
    run(async {
        let mut setup = started().await;
        let call = actix::spawn(setup.gateway.send(Wait));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        call.abort();
        assert_eq!(setup.seen.recv().await, Some(Seen::Cancelled));
        setup.hands.gate.notify_one();
        assert_eq!(setup.seen.recv().await, Some(Seen::Dropped));
    });
}

#[test]
fn a_request_that_is_never_polled_sends_nothing() {
    run(async {
        let setup = started().await;
        drop(setup.gateway.send(Add(1)));
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 0);
    });
}

#[test]
fn one_way_messages_arrive_in_order_before_a_later_ask() {
    run(async {
        let setup = started().await;
        for _ in 0..500 {
            setup.gateway.do_send(Add(1));
            setup.gateway.try_send(Add(1)).unwrap();
        }
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 1000);
    });
}

/// E13
#[test]
fn a_one_way_message_to_a_stopped_endpoint_is_a_dead_letter() {
    run(async {
        let setup = started().await;
        setup.server.stop().await.unwrap();
        setup.gateway.do_send(Add(1));
        assert_eq!(
            kind(setup.gateway.try_send(Add(1))),
            RpcErrorKind::NotStarted
        );
        assert_eq!(
            setup.service.dead_letters().count(RpcErrorKind::NotStarted),
            1
        );
    });
}

#[test]
fn gateways_work_from_a_runtime_without_an_actix_system() {
    let (send, receive) = std::sync::mpsc::channel();
    let (done, until) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        run(async {
            let setup = started().await;
            send.send(setup.gateway.clone()).unwrap();
            let _ = until.await;
        });
    });
    let gateway = receive.recv_timeout(LIMIT).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let total = runtime.block_on(async move { tokio::spawn(gateway.send(Add(4))).await });
    assert_eq!(total.unwrap().unwrap(), 4);
    drop(done);
    server.join().unwrap();
}

#[test]
fn after_many_calls_nothing_waits() {
    run(async {
        let setup = started().await;
        for _ in 0..100_000 {
            setup.gateway.send(Add(1)).await.unwrap();
        }
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 100_000);
        assert_eq!(setup.server.waiting(), (0, 0));
    });
}

#[test]
fn calls_stand_still_while_the_actors_context_waits() {
    run(async {
        use actix::{AsyncContext, WrapFuture};
        let setup = started().await;
        let gate = Arc::clone(&setup.hands.gate);
        let waits = setup.server.run_async(move |_, context| {
            context.wait(async move { gate.notified().await }.into_actor(&Endpoint(body().0)));
        });
        let call = actix::spawn(setup.gateway.send(Add(1)));
        waits.await.unwrap();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!call.is_finished());
        setup.hands.gate.notify_one();
        assert_eq!(call.await.unwrap().unwrap(), 1);
    });
}

#[test]
fn an_endpoint_whose_context_waits_can_be_ended() {
    run(async {
        use actix::{AsyncContext, WrapFuture};
        let limit = Duration::from_millis(50);
        let service = RpcService::builder().hook_timeout(limit).build().unwrap();
        let setup = started_on(service).await;
        let waits = setup.server.run_async(move |_, context| {
            context.wait(std::future::pending::<()>().into_actor(&Endpoint(body().0)));
        });
        waits.await.unwrap();
        let call = actix::spawn(setup.gateway.send(Add(1)));
        let error = setup.server.terminate().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Timeout);
        assert_eq!(kind(call.await.unwrap()), RpcErrorKind::Stopped);
    });
}

/// Q6
#[test]
fn a_gateway_can_be_sent_inside_a_message() {
    run(async {
        let service = RpcService::builder()
            .force_serialization(true)
            .build()
            .unwrap();
        let setup = started_on(service).await;
        let other = setup
            .service
            .start_server("other", Endpoint(body().0))
            .await
            .unwrap();
        other.start().await.unwrap();
        let other = other.gateway::<AddGateway>();
        setup
            .gateway
            .send(ReplyTo(other.to_ref(), 5))
            .await
            .unwrap();
        assert_eq!(other.send(Add(0)).await.unwrap(), 5);
    });
}
