//! The test kit.
#![cfg(feature = "testing")]

use std::time::Duration;

use lockkeeper_core::{
    prelude::*,
    testing::{Test, advance, run_paused},
};

use crate::support::*;

#[test]
fn a_day_of_time_outs_takes_no_time() {
    run_paused(async {
        let day = Duration::from_secs(86_400);
        let test = Test::with(|builder| builder.default_timeout(day).hook_timeout(day));
        let (body, _hands, mut seen) = body();
        let server = test.start(Endpoint(body)).await;
        let gateway = server.gateway::<TestGateway>();
        let late = actix::spawn(gateway.send(Wait));
        assert_eq!(seen.recv().await, Some(Seen::Started));
        assert_eq!(seen.recv().await, Some(Seen::Waiting));
        advance(day / 2).await;
        assert!(!late.is_finished());
        let error = late.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Timeout);
        let begin = tokio::time::Instant::now();
        let ran = server.schedule_run_async(day, |_, _| ());
        ran.await.unwrap();
        assert!(begin.elapsed() >= day);
    });
}

/// E13
#[test]
fn dead_letters_are_recorded_in_order_with_their_reasons() {
    run(async {
        let test = Test::new();
        let server = test.start(Endpoint(body().0)).await;
        let gateway = server.gateway::<TestGateway>();
        server.stop().await.unwrap();
        gateway.do_send(Add(1));
        gateway.do_send(Panic);
        let letter = test.dead_letters().next().await;
        assert_eq!(
            (letter.method, letter.reason.kind()),
            ("Add", RpcErrorKind::NotStarted)
        );
        assert_eq!(
            letter.endpoint.as_str(),
            server.address().endpoint().as_str()
        );
        let methods = test.dead_letters().take();
        assert_eq!(
            methods.iter().map(|l| l.method).collect::<Vec<_>>(),
            ["Panic"]
        );
    });
}
