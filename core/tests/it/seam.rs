//! The seam to a network, with a transport that is none: it hands encoded calls to the endpoints of
//! another service of the same process.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use lockkeeper_core::{
    Authority, FencingToken, codec,
    prelude::*,
    trace::TraceContext,
    transport::{
        Caller, ConnectRequest, EndpointTable, Handshake, InboundCall, InboundSession,
        OutboundCall, RemoteSession, ReplySink, Transport,
    },
};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::support::*;

#[derive(Debug)]
struct Wire {
    authority: Authority,
    peer: EndpointTable,
}

impl Transport for Wire {
    fn authority(&self) -> Authority {
        self.authority.clone()
    }

    fn connect(
        &self,
        request: ConnectRequest,
    ) -> BoxFuture<'static, Result<Arc<dyn RemoteSession>, RpcError>> {
        let peer = self.peer.clone();
        Box::pin(async move {
            let id = request.address.endpoint().as_str();
            let endpoint = peer.endpoint(id).ok_or_else(|| {
                RpcError::new(RpcErrorKind::NoSuchEndpoint, request.address.to_string())
            })?;
            let named = request.gateway.remote_methods().collect::<Vec<_>>();
            let session = endpoint.accept(handshake(
                request.gateway.name,
                request.gateway.version,
                &named.iter().map(|(_, name)| *name).collect::<Vec<_>>(),
                request.token,
            ))?;
            let numbers = named.into_iter().map(|(number, _)| number).collect();
            Ok(Arc::new(Session { session, numbers }) as Arc<dyn RemoteSession>)
        })
    }

    fn shutdown(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

#[derive(Debug)]
struct Session {
    session: Arc<dyn InboundSession>,
    numbers: Vec<u16>,
}

impl Session {
    fn call(&self, method: u16, payload: Bytes, deadline: Option<Instant>) -> InboundCall {
        let place = self
            .numbers
            .iter()
            .position(|number| *number == method)
            .unwrap();
        let method = u16::try_from(place).unwrap();
        InboundCall {
            method,
            payload,
            deadline,
            cancellation: CancellationToken::new(),
        }
    }
}

impl RemoteSession for Session {
    fn ask(&self, call: OutboundCall) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let call = self.call(call.method, call.payload, Some(call.deadline));
        let cancelled = call.cancellation.clone().drop_guard();
        let answer = ask(&*self.session, call);
        Box::pin(async move {
            let answer = answer.await.unwrap();
            drop(cancelled);
            answer
        })
    }

    fn ask_traced(
        &self,
        call: OutboundCall,
        trace: TraceContext,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let call = self.call(call.method, call.payload, Some(call.deadline));
        let (sender, receiver) = oneshot::channel();
        let reply = ReplySink::new(move |answer| {
            let _ = sender.send(answer);
        });
        self.session.ask_traced(call, reply, trace);
        Box::pin(async move { receiver.await.unwrap() })
    }

    fn tell(&self, method: u16, payload: Bytes) -> Result<(), RpcError> {
        self.session.tell(self.call(method, payload, None));
        Ok(())
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn closed(&self) -> BoxFuture<'static, RpcError> {
        Box::pin(std::future::pending())
    }
}

fn ask(
    session: &dyn InboundSession,
    call: InboundCall,
) -> oneshot::Receiver<Result<Bytes, RpcError>> {
    let (sender, receiver) = oneshot::channel();
    session.ask(
        call,
        ReplySink::new(move |answer| {
            let _ = sender.send(answer);
        }),
    );
    receiver
}

fn handshake(
    gateway: &str,
    version: u32,
    methods: &[&str],
    token: Option<FencingToken>,
) -> Handshake {
    Handshake {
        gateway: gateway.into(),
        version,
        methods: methods.iter().map(|&name| name.into()).collect(),
        shapes: Vec::new(),
        token,
        caller: Caller::Remote("peer".into()),
    }
}

fn call(payload: Bytes) -> InboundCall {
    InboundCall {
        method: 0,
        payload,
        deadline: None,
        cancellation: CancellationToken::new(),
    }
}

/// A caller's service whose calls go to `setup`'s, and the endpoint's address for it.
pub fn wired(setup: &Setup) -> (RpcService, RpcAddress) {
    let peer = setup.service.table().clone();
    let authority: Authority = "127.0.0.1:7000".parse().unwrap();
    let wire = Arc::new(Wire { authority, peer });
    let service = RpcService::builder().build_with(|_| Ok(wire)).unwrap();
    (service, "lockkeeper://peer:1/test".parse().unwrap())
}

#[test]
fn calls_over_a_transport_are_like_local_ones() {
    run(async {
        let setup = started().await;
        let (caller, address) = wired(&setup);
        assert_eq!(caller.port(), Some(7000));
        let gateway = caller.connect::<TestGateway>(&address).await.unwrap();
        assert_eq!(gateway.send(Add(2)).await.unwrap(), 2);
        assert_eq!(gateway.send(Nothing).await.unwrap(), None);
        assert_eq!(
            gateway.send(Divide(0)).await.unwrap(),
            Err("divided by zero".into())
        );
        gateway.try_send(Add(1)).unwrap();
        assert_eq!(gateway.send(Add(0)).await.unwrap(), 3);
        assert_eq!(kind(gateway.send(Panic).await), RpcErrorKind::Panicked);
        let nobody: RpcAddress = "lockkeeper://peer:1/nobody".parse().unwrap();
        let error = caller.connect::<TestGateway>(&nobody).await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::NoSuchEndpoint);
    });
}

#[test]
fn a_local_message_to_another_process_is_not_sent() {
    run(async {
        let setup = started().await;
        let (caller, address) = wired(&setup);
        let gateway = caller.connect::<TestGateway>(&address).await.unwrap();
        let error = gateway.send(Same("x".into())).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::LocalOnly, Outcome::NotSent)
        );
        let endpoint = setup.service.endpoint("test").unwrap();
        let refused = endpoint.accept(handshake("test.Test", 1, &["Same"], None));
        assert_eq!(kind(refused), RpcErrorKind::UnknownMethod);
    });
}

#[test]
fn a_handshake_is_refused_by_what_is_wrong_with_it() {
    run(async {
        let setup = started().await;
        let endpoint = setup.service.endpoint("test").unwrap();
        let refused = |gateway, version, method| {
            endpoint
                .accept(handshake(gateway, version, &[method], None))
                .unwrap_err()
        };
        assert_eq!(
            refused("test.Other", 1, "Add").kind(),
            RpcErrorKind::WrongGateway
        );
        assert_eq!(
            refused("test.Test", 9, "Add").kind(),
            RpcErrorKind::GatewayVersionMismatch
        );
        let unknown = refused("test.Test", 1, "Subtract");
        assert_eq!(unknown.kind(), RpcErrorKind::UnknownMethod);
        assert!(unknown.text().contains("Subtract"), "{unknown}");
    });
}

/// P10
#[test]
fn an_undecodable_message_harms_that_call_only() {
    run(async {
        let setup = started().await;
        let endpoint = setup.service.endpoint("test").unwrap();
        let session = endpoint
            .accept(handshake("test.Test", 1, &["Add"], None))
            .unwrap();
        let answer = ask(&*session, call(Bytes::from_static(b"\xc1garbage")))
            .await
            .unwrap();
        let error = answer.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Decode, Outcome::Refused)
        );
        assert!(error.text().contains("Add"), "{error}");
        session.tell(call(Bytes::from_static(b"\xc1garbage")));
        let reply = ask(&*session, call(codec::encode(&Add(1)).unwrap()))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(codec::decode::<i64>(&reply), Ok(1));
        assert_eq!(setup.service.dead_letters().count(RpcErrorKind::Decode), 1);
    });
}

#[test]
fn a_method_number_out_of_range_is_refused() {
    run(async {
        let setup = started().await;
        let endpoint = setup.service.endpoint("test").unwrap();
        let session = endpoint
            .accept(handshake("test.Test", 1, &["Add"], None))
            .unwrap();
        let call = InboundCall {
            method: 1,
            ..call(Bytes::new())
        };
        assert_eq!(
            kind(ask(&*session, call).await.unwrap()),
            RpcErrorKind::UnknownMethod
        );
    });
}

/// Q22
#[test]
fn the_callers_deadline_is_enforced_at_the_endpoint() {
    run(async {
        let mut setup = started().await;
        let endpoint = setup.service.endpoint("test").unwrap();
        let session = endpoint
            .accept(handshake("test.Test", 1, &["Wait", "Add"], None))
            .unwrap();
        let payload = codec::encode(&Wait).unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        let call = InboundCall {
            deadline: Some(soon),
            ..call(payload)
        };
        let error = ask(&*session, call).await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Timeout, Outcome::Unknown)
        );
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        assert_eq!(setup.seen.recv().await, Some(Seen::Cancelled));
        let payload = codec::encode(&Add(1)).unwrap();
        let late = InboundCall {
            method: 1,
            payload,
            deadline: Some(Instant::now()),
            cancellation: CancellationToken::new(),
        };
        let error = ask(&*session, late).await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Timeout, Outcome::Refused)
        );
        assert_eq!(setup.gateway.send(Add(0)).await.unwrap(), 0);
    });
}

/// Q20
#[test]
fn a_handler_is_told_when_its_remote_caller_gives_up() {
    run(async {
        let mut setup = started().await;
        let (caller, address) = wired(&setup);
        let gateway = caller.connect::<TestGateway>(&address).await.unwrap();
        let call = actix::spawn(gateway.send(Wait));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        call.abort();
        assert_eq!(setup.seen.recv().await, Some(Seen::Cancelled));
    });
}

#[test]
fn every_inbound_call_is_answered_when_the_endpoint_ends() {
    run(async {
        let mut setup = started().await;
        let endpoint = setup.service.endpoint("test").unwrap();
        let session = endpoint
            .accept(handshake("test.Test", 1, &["Wait"], None))
            .unwrap();
        let waiting = ask(&*session, call(codec::encode(&Wait).unwrap()));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        setup.server.terminate().await.unwrap();
        assert_eq!(kind(waiting.await.unwrap()), RpcErrorKind::Stopped);
        let late = ask(&*session, call(codec::encode(&Wait).unwrap()));
        assert_eq!(kind(late.await.unwrap()), RpcErrorKind::Stopped);
        let accepted = endpoint.accept(handshake("test.Test", 1, &["Wait"], None));
        assert_eq!(kind(accepted), RpcErrorKind::Stopped);
    });
}
