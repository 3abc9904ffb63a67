//! `#[rpc(serial)]`.

use crate::support::*;

#[test]
fn a_serial_endpoint_takes_the_next_call_after_the_one_before_has_resolved() {
    run(async {
        let (body, hands, mut seen) = body();
        let server = service()
            .start_server("serial", Serial(body))
            .await
            .unwrap();
        server.start().await.unwrap();
        assert_eq!(seen.recv().await, Some(Seen::Started));
        let gateway = server.gateway::<SerialGateway>();
        let first = actix::spawn(gateway.send(Wait));
        assert_eq!(seen.recv().await, Some(Seen::Waiting));
        let second = actix::spawn(gateway.send(Add(1)));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!second.is_finished());
        hands.gate.notify_one();
        assert_eq!(first.await.unwrap().unwrap(), 7);
        assert_eq!(second.await.unwrap().unwrap(), 1);
    });
}

#[test]
fn without_serial_calls_interleave() {
    run(async {
        let mut setup = started().await;
        let first = actix::spawn(setup.gateway.send(Wait));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        assert_eq!(setup.gateway.send(Add(1)).await.unwrap(), 1);
        setup.hands.gate.notify_one();
        assert_eq!(first.await.unwrap().unwrap(), 7);
    });
}

#[test]
fn a_serial_endpoint_goes_on_after_a_caller_gave_up() {
    run(async {
        let (body, hands, mut seen) = body();
        let server = service()
            .start_server("serial", Serial(body))
            .await
            .unwrap();
        server.start().await.unwrap();
        assert_eq!(seen.recv().await, Some(Seen::Started));
        let gateway = server.gateway::<SerialGateway>();
        let first = actix::spawn(gateway.send(Wait));
        assert_eq!(seen.recv().await, Some(Seen::Waiting));
        first.abort();
        assert_eq!(seen.recv().await, Some(Seen::Cancelled));
        let second = actix::spawn(gateway.send(Add(1)));
        hands.gate.notify_one();
        assert_eq!(second.await.unwrap().unwrap(), 1);
    });
}
