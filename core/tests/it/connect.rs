//! Connecting: what is refused, and by which name.

use lockkeeper_core::prelude::*;

use crate::support::*;

/// L01
#[test]
fn a_gateway_has_the_endpoints_address() {
    run(async {
        let setup = started().await;
        assert_eq!(*setup.gateway.address(), setup.server.address());
        assert_eq!(setup.gateway.hostname(), "");
    });
}

/// L02
#[test]
fn an_unknown_endpoint_is_refused_by_name() {
    run(async {
        let address: RpcAddress = "lockkeeper-local:///nobody".parse().unwrap();
        let error = service()
            .connect::<TestGateway>(&address)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::NoSuchEndpoint);
        assert!(error.text().contains("nobody"));
    });
}

#[test]
fn another_process_is_unreachable_without_a_transport() {
    run(async {
        let address: RpcAddress = "lockkeeper://127.0.0.1:1/test".parse().unwrap();
        let error = service()
            .connect::<TestGateway>(&address)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Unreachable);
    });
}

/// H03
#[test]
fn a_gateway_that_is_not_served_is_refused_by_name() {
    run(async {
        let setup = started().await;
        let error = setup
            .service
            .connect::<OtherGateway>(&setup.server.address())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::WrongGateway);
        assert!(error.text().contains("test.Other"), "{error}");
    });
}

/// H02
#[test]
fn another_version_of_the_gateway_is_refused_with_both() {
    run(async {
        let setup = started().await;
        let error = setup
            .service
            .connect::<NewerGateway>(&setup.server.address())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::GatewayVersionMismatch);
        assert!(
            error.text().contains('1') && error.text().contains('2'),
            "{error}"
        );
    });
}

/// H04
#[test]
fn an_endpoint_that_is_not_started_can_be_connected_to() {
    run(async {
        let service = service();
        let (body, ..) = body();
        let server = service.start_server("test", Endpoint(body)).await.unwrap();
        let gateway = service
            .connect::<TestGateway>(&server.address())
            .await
            .unwrap();
        assert_eq!(kind(gateway.send(Add(1)).await), RpcErrorKind::NotStarted);
        server.start().await.unwrap();
        assert_eq!(gateway.send(Add(1)).await.unwrap(), 1);
    });
}

#[test]
fn one_endpoint_serves_several_gateways() {
    run(async {
        let setup = started().await;
        let other = setup
            .service
            .connect::<AddGateway>(&setup.server.address())
            .await
            .unwrap();
        assert_eq!(other.send(Add(2)).await.unwrap(), 2);
        assert_eq!(
            setup
                .server
                .gateway::<AddGateway>()
                .send(Add(2))
                .await
                .unwrap(),
            4
        );
    });
}

/// Q3
#[test]
fn a_gateway_learns_the_cause_of_its_endpoints_end() {
    run(async {
        let setup = started().await;
        let closed = setup.gateway.closed();
        setup.server.terminate().await.unwrap();
        assert_eq!(closed.await.kind(), RpcErrorKind::Stopped);
        assert!(!setup.gateway.is_connected());
        assert_eq!(
            kind(setup.gateway.send(Add(1)).await),
            RpcErrorKind::Stopped
        );
    });
}

/// A gateway that has all of another one and more, as Flink's gateways extend each other.
mod extended {
    use actix::prelude::*;
    use lockkeeper_core::prelude::*;
    use serde::{Deserialize, Serialize};

    use crate::support::{Add, AddGateway};

    #[derive(Message, Serialize, Deserialize)]
    #[rtype(result = "i64")]
    pub struct Double;

    rpc_gateway! {
        /// All of `AddGateway`, and `Double`.
        pub DoubleGateway("test.Double", version = 1) { Add, Double }
    }

    #[derive(RpcEndpoint, Default)]
    #[rpc(gateways(AddGateway, DoubleGateway))]
    pub struct Doubler(i64);

    impl Actor for Doubler {
        type Context = Context<Self>;
    }

    impl Handler<Add> for Doubler {
        type Result = i64;

        fn handle(&mut self, Add(n): Add, _: &mut Context<Self>) -> i64 {
            self.0 += n;
            self.0
        }
    }

    impl Handler<Double> for Doubler {
        type Result = i64;

        fn handle(&mut self, _: Double, _: &mut Context<Self>) -> i64 {
            self.0 *= 2;
            self.0
        }
    }
}

#[test]
fn an_endpoint_that_extends_anothers_gateway_serves_both() {
    use extended::{Double, DoubleGateway, Doubler};
    run(async {
        let service = service();
        let server = service
            .start_server("double", Doubler::default())
            .await
            .unwrap();
        server.start().await.unwrap();
        let base = service
            .connect::<AddGateway>(&server.address())
            .await
            .unwrap();
        let extended = service
            .connect::<DoubleGateway>(&server.address())
            .await
            .unwrap();
        assert_eq!(base.send(Add(2)).await.unwrap(), 2);
        assert_eq!(extended.send(Add(1)).await.unwrap(), 3);
        assert_eq!(extended.send(Double).await.unwrap(), 6);
        let other = service.connect::<TestGateway>(&server.address()).await;
        assert_eq!(kind(other), RpcErrorKind::WrongGateway);
    });
}

/// A message before and after somebody changed it.
mod versions {
    use actix::prelude::*;
    use lockkeeper_core::prelude::*;

    pub mod first {
        use serde::{Deserialize, Serialize};

        #[derive(actix::Message, Serialize, Deserialize)]
        #[rtype(result = "i64")]
        pub struct Count(pub i64);

        lockkeeper_core::rpc_gateway! {
            pub Counts("test.Counts", version = 1) { Count }
        }
    }

    pub mod second {
        use serde::{Deserialize, Serialize};

        #[derive(actix::Message, Serialize, Deserialize)]
        #[rtype(result = "i64")]
        pub struct Count {
            pub times: i64,
            pub number: i64,
        }

        lockkeeper_core::rpc_gateway! {
            pub Counts("test.Counts", version = 2) { Count }
        }
    }

    #[derive(RpcEndpoint, Default)]
    #[rpc(gateways(first::Counts, second::Counts))]
    pub struct Counter(i64);

    impl Actor for Counter {
        type Context = Context<Self>;
    }

    impl Handler<first::Count> for Counter {
        type Result = i64;

        fn handle(&mut self, first::Count(number): first::Count, _: &mut Context<Self>) -> i64 {
            self.0 += number;
            self.0
        }
    }

    impl Handler<second::Count> for Counter {
        type Result = i64;

        fn handle(&mut self, count: second::Count, _: &mut Context<Self>) -> i64 {
            self.0 += count.times * count.number;
            self.0
        }
    }
}

#[test]
fn one_endpoint_serves_two_versions_of_a_gateway_side_by_side() {
    use lockkeeper_core::transport::{Caller, Handshake};
    use versions::{Counter, first, second};
    run(async {
        let service = service();
        let server = service
            .start_server("counts", Counter::default())
            .await
            .unwrap();
        server.start().await.unwrap();
        let older = server.gateway::<first::Counts>();
        let newer = server.gateway::<second::Counts>();
        assert_eq!(older.send(first::Count(1)).await.unwrap(), 1);
        let count = second::Count {
            times: 2,
            number: 3,
        };
        assert_eq!(newer.send(count).await.unwrap(), 7);
        let endpoint = service.endpoint("counts").unwrap();
        let accept = |version, shapes: &[u64]| {
            endpoint.accept(Handshake {
                gateway: "test.Counts".into(),
                version,
                methods: vec!["Count".into()],
                shapes: shapes.to_vec(),
                token: None,
                caller: Caller::Remote("peer".into()),
            })
        };
        accept(1, first::Counts::shapes()).unwrap();
        accept(2, second::Counts::shapes()).unwrap();
        // The message of one version under the number of the other.
        let mixed = accept(1, second::Counts::shapes()).unwrap_err();
        assert_eq!(mixed.kind(), RpcErrorKind::GatewayVersionMismatch);
        assert!(mixed.text().contains("Count of test.Counts"), "{mixed}");
        // Who does not tell is believed.
        accept(1, &[0]).unwrap();
        accept(1, &[]).unwrap();
    });
}
