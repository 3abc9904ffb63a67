//! The method tables: how an actor handles each message of a gateway.

use std::{
    any::{Any, TypeId},
    sync::Arc,
};

use actix::{Handler, Message};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    RpcEndpoint,
    call::{CallScope, Ran},
    entry::{EncodedCall, LocalCall, PendingCall, Reply, Taken},
};
use crate::{
    codec,
    error::{RpcError, RpcErrorKind},
    gateway::{Dispatch, GatewayDescriptor, RpcGateway, Unfenced},
};

/// How actor `A` handles one message. Made by [`rpc_gateway!`](crate::rpc_gateway).
pub struct Method<A: RpcEndpoint> {
    pub(crate) name: &'static str,
    pub(crate) run_local: RunLocal<A>,
    /// `None` for local methods.
    pub(crate) run_encoded: Option<RunEncoded<A>>,
}

type RunLocal<A> = fn(Arc<dyn PendingCall>, CallScope<'_, A>) -> Ran;
type RunEncoded<A> = fn(Box<EncodedCall>, CallScope<'_, A>) -> Ran;

impl<A: RpcEndpoint> std::fmt::Debug for Method<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Method")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<A: RpcEndpoint> Method<A> {
    /// A method whose message can come from another process.
    #[must_use]
    pub const fn remote<M>(path: &'static str) -> Self
    where
        A: Handler<M>,
        M: Message<Result: Send + Serialize> + DeserializeOwned + Send + 'static,
    {
        Self {
            name: crate::gateway::MethodDescriptor::remote(path).name,
            run_local: run_local::<A, M>,
            run_encoded: Some(run_encoded::<A, M>),
        }
    }

    /// A method whose message stays in the process.
    #[must_use]
    pub const fn local<M>(path: &'static str) -> Self
    where
        A: Handler<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        Self {
            name: crate::gateway::MethodDescriptor::local(path).name,
            run_local: run_local::<A, M>,
            run_encoded: None,
        }
    }
}

fn run_local<A, M>(call: Arc<dyn PendingCall>, scope: CallScope<'_, A>) -> Ran
where
    A: RpcEndpoint + Handler<M>,
    M: Message<Result: Send> + Send + 'static,
{
    let call: Arc<dyn Any + Send + Sync> = call;
    let Ok(call) = call.downcast::<LocalCall<M>>() else {
        // Connect compares the gateways' types: one type has one table.
        return scope.skip(RpcErrorKind::WrongGateway);
    };
    match call.slot.claim() {
        Some(message) => scope.invoke(message, Reply::Local(Taken::new(call))),
        None => scope.skip(RpcErrorKind::Cancelled),
    }
}

fn run_encoded<A, M>(call: Box<EncodedCall>, scope: CallScope<'_, A>) -> Ran
where
    A: RpcEndpoint + Handler<M>,
    M: Message<Result: Send + Serialize> + DeserializeOwned + Send + 'static,
{
    match codec::decode::<M>(&call.payload) {
        Ok(message) => {
            let reply = Reply::Encoded {
                header: call.header,
                sink: call.reply,
                encode: codec::encode,
                bytes: None,
            };
            scope.invoke(message, reply)
        }
        Err(why) => {
            let text = format!("the message cannot be decoded: {why}");
            scope.refuse_encoded(call, RpcError::new(RpcErrorKind::Decode, text))
        }
    }
}

/// A gateway that endpoint `A` serves, with the table of its methods.
#[derive(Debug)]
pub struct ServedGateway<A: RpcEndpoint> {
    pub(crate) descriptor: &'static GatewayDescriptor,
    pub(crate) gateway: TypeId,
    pub(crate) methods: &'static [Method<A>],
    pub(crate) shapes: fn() -> &'static [u64],
}

impl<A: RpcEndpoint> ServedGateway<A> {
    /// A gateway that is fenced exactly if the endpoint is.
    #[must_use]
    pub fn of<G>() -> Self
    where
        G: Dispatch<A> + RpcGateway<Fencing = A::Fencing>,
    {
        Self {
            descriptor: G::DESCRIPTOR,
            gateway: TypeId::of::<G>(),
            methods: G::METHODS,
            shapes: G::shapes,
        }
    }

    /// A gateway that needs no token, whatever the endpoint.
    #[must_use]
    pub fn unfenced<G>() -> Self
    where
        G: Dispatch<A> + RpcGateway<Fencing = Unfenced>,
    {
        Self {
            descriptor: G::DESCRIPTOR,
            gateway: TypeId::of::<G>(),
            methods: G::METHODS,
            shapes: G::shapes,
        }
    }
}
