//! Calls of actors in another service.

use std::time::Duration;

use lockkeeper_core::{Outcome, RpcErrorKind};

use crate::support::*;

#[actix::test]
async fn an_actor_of_another_service_is_called() {
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    assert_eq!(counter.send(Add(5)).await.unwrap(), 5);
    counter.try_send(Add(2)).unwrap();
    counter.do_send(Add(3));
    assert_eq!(counter.send(Add(0)).await.unwrap(), 10);
}

#[actix::test]
async fn calls_run_both_ways() {
    let (one, server, two) = pair().await;
    let back = two
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    back.start().await.unwrap();
    assert_answers(&two.connect(&server.address()).await.unwrap()).await;
    assert_answers(&one.connect(&back.address()).await.unwrap()).await;
}

#[actix::test]
async fn a_gateway_works_from_a_thread_without_actix() {
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let total = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async { counter.send(Add(4)).await.unwrap() })
    });
    assert_eq!(soon(total).await.unwrap(), 4);
}

#[actix::test]
async fn call_after_stop() {
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    assert_answers(&counter).await;
    server.stop().await.unwrap();
    let error = counter.send(Add(1)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::NotStarted, Outcome::Refused)
    );
    server.start().await.unwrap();
    assert_answers(&counter).await;
}

#[actix::test]
async fn call_after_the_endpoints_end() {
    let (one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    assert_answers(&counter).await;
    soon(server.terminate()).await.unwrap();
    let error = counter.send(Add(1)).await.unwrap_err();
    // Refused there, or not even sent if the endpoint's end is known here already.
    assert_eq!(error.kind(), RpcErrorKind::Stopped);
    assert_ne!(error.outcome(), Outcome::Unknown);
    // The name is free, and the process serves on.
    let again = one
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    again.start().await.unwrap();
    assert_answers(&two.connect(&again.address()).await.unwrap()).await;
}

#[actix::test]
async fn an_oversized_message_is_refused_before_it_is_sent() {
    let (one, two) = (
        builder().frame_limit(65_536).start().await.unwrap(),
        service().await,
    );
    let server = one
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    server.start().await.unwrap();
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let error = counter.send(Echo(vec![1; 70_000])).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::TooLarge, Outcome::NotSent)
    );
    for part in ["Echo", "65536"] {
        assert!(error.text().contains(part), "{error}");
    }
    assert_answers(&counter).await;
}

#[actix::test]
async fn an_oversized_reply_is_an_error_with_both_sizes() {
    let (one, two) = (
        builder().frame_limit(65_536).start().await.unwrap(),
        service().await,
    );
    let server = one
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    server.start().await.unwrap();
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let error = counter.send(Grow(70_000)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::TooLarge, Outcome::Unknown)
    );
    assert!(error.text().contains("65536"), "{error}");
    assert_answers(&counter).await;
}

#[actix::test]
async fn a_local_message_stays_in_its_process() {
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let error = counter.send(Here).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::LocalOnly, Outcome::NotSent)
    );
    assert_answers(&counter).await;
}

#[actix::test]
async fn a_handlers_panic_is_answered_and_the_process_serves_on() {
    let (one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let error = counter.send(Explode).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::Panicked, Outcome::Unknown)
    );
    let other = one.start_server("other", Counter::default()).await.unwrap();
    other.start().await.unwrap();
    assert_answers(&two.connect(&other.address()).await.unwrap()).await;
}

#[actix::test]
async fn a_timed_out_call_is_cancelled_at_its_handler() {
    let (one, two) = (service().await, service().await);
    let (counter, arrived, cancelled) = Counter::watched();
    let server = one.start_server("counter", counter).await.unwrap();
    server.start().await.unwrap();
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let mut limit = Duration::from_millis(100);
    let error = loop {
        let error = counter.send(Hold).timeout(limit).await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Timeout);
        if error.outcome() == Outcome::Unknown {
            break error;
        }
        // A busy machine did not get to sending it.
        limit *= 10;
    };
    let limit = limit.as_millis().to_string();
    for part in ["Hold", "counter", &limit[..1]] {
        assert!(error.text().contains(part), "{error}");
    }
    soon(arrived).await.unwrap();
    soon(cancelled).await.unwrap();
    assert_answers(&counter).await;
}

#[actix::test]
async fn a_dropped_call_is_cancelled_at_its_handler() {
    let (one, two) = (service().await, service().await);
    let (counter, arrived, cancelled) = Counter::watched();
    let server = one.start_server("counter", counter).await.unwrap();
    server.start().await.unwrap();
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let call = tokio::task::spawn_local({
        let counter = counter.clone();
        async move { counter.send(Hold).await }
    });
    soon(arrived).await.unwrap();
    call.abort();
    soon(cancelled).await.unwrap();
    assert_answers(&counter).await;
}

/// The thread is the arbiter's: calls run both ways, and the end frees the port and answers what
/// is under way.
#[actix::test]
async fn sockets_may_live_on_the_arbiter_that_starts_the_service() {
    let start = || async {
        let service = builder().io_on_this_thread();
        service.start().await.unwrap()
    };
    let (one, two) = (start().await, start().await);
    let server = one
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    server.start().await.unwrap();
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    assert_answers(&counter).await;
    let held = counter.clone();
    let held = actix::spawn(async move { held.send(Hold).await });
    assert_answers(&counter).await;
    soon(two.terminate()).await.unwrap();
    let error = soon(held).await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    let port = one.port().unwrap();
    soon(one.terminate()).await.unwrap();
    std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
}
