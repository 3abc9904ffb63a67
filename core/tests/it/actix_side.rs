//! Where actix' own types and ours meet: actors that run already, recipients.

use actix::prelude::*;
use lockkeeper_core::prelude::*;

use crate::support::*;

#[test]
fn an_actor_that_runs_already_is_served_and_lives_on() {
    run(async {
        let service = service();
        let (body, ..) = body();
        let addr = Endpoint(body).start();
        let server = service.serve("test", &addr).await.unwrap();
        let gateway = server.gateway::<TestGateway>();
        assert_eq!(kind(gateway.send(Add(1)).await), RpcErrorKind::NotStarted);
        server.start().await.unwrap();
        assert_eq!(gateway.send(Add(1)).await.unwrap(), 1);
        assert_eq!(addr.send(Add(1)).await.unwrap(), 2);
        for _ in 0..5_000 {
            gateway.try_send(Add(1)).unwrap();
        }
        assert_eq!(gateway.send(Add(0)).await.unwrap(), 5_002);
        assert_eq!(kind(gateway.send(Panic).await), RpcErrorKind::Panicked);
        server.terminate().await.unwrap();
        assert_eq!(kind(gateway.send(Add(1)).await), RpcErrorKind::Stopped);
        assert_eq!(addr.send(Add(1)).await.unwrap(), 5_003);
        let again = service.serve("test", &addr).await.unwrap();
        again.start().await.unwrap();
        let gateway = again.gateway::<TestGateway>();
        assert_eq!(gateway.send(Add(1)).await.unwrap(), 5_004);
    });
}

#[test]
fn an_endpoint_ends_with_the_actor_that_it_serves() {
    run(async {
        let service = service();
        let (body, ..) = body();
        let arbiter = Arbiter::new();
        let addr = Endpoint::start_in_arbiter(&arbiter.handle(), |_| Endpoint(body));
        let server = service.serve("test", &addr).await.unwrap();
        server.start().await.unwrap();
        let termination = server.termination();
        let gateway = server.gateway::<TestGateway>();
        // A panic in a future of the actor, which nobody of ours catches.
        let error = gateway.send(PanicLater).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert!(termination.await.is_err());
        assert_eq!(kind(gateway.send(Add(1)).await), RpcErrorKind::Stopped);
        assert_eq!(
            kind(service.serve("test", &addr).await),
            RpcErrorKind::Stopped
        );
        let (fresh, ..) = crate::support::body();
        service.start_server("test", Endpoint(fresh)).await.unwrap();
        arbiter.stop();
    });
}

#[test]
fn a_gateway_is_an_actix_recipient() {
    run(async {
        let setup = started().await;
        let recipient: Recipient<Add> = setup.gateway.recipient().unwrap();
        assert_eq!(recipient.send(Add(5)).await.unwrap(), 5);
        recipient.try_send(Add(1)).unwrap();
        assert_eq!(recipient.send(Add(0)).await.unwrap(), 6);
        // More than it has under way at once.
        let many = (0..3_000).map(|_| recipient.send(Add(1)));
        for asked in many.map(actix::spawn).collect::<Vec<_>>() {
            asked.await.unwrap().unwrap();
        }
        assert_eq!(recipient.send(Add(0)).await.unwrap(), 3_006);
        setup.server.terminate().await.unwrap();
        assert_eq!(recipient.send(Add(1)).await, Err(MailboxError::Closed));
        recipient.try_send(Add(1)).unwrap();
        while setup.service.dead_letters().total() == 0 {
            tokio::task::yield_now().await;
        }
    });
}
