//! The method tables: how an actor handles each message of a gateway.

use std::any::{Any, TypeId};

use actix::{Handler, Message};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    RpcEndpoint,
    entry::{LocalCall, PendingCall, Reply},
    invocation::{CallScope, Ran},
};
use crate::{
    codec,
    error::{RpcError, RpcErrorKind},
    gateway::{Dispatch, GatewayDescriptor, RpcGateway, Unfenced},
    transport::ReplySink,
};

/// How actor `A` handles one message. Made by [`rpc_gateway!`](crate::rpc_gateway).
pub struct Method<A: RpcEndpoint> {
    pub(crate) name: &'static str,
    pub(crate) run_local: RunLocal<A>,
    /// `None` for local methods.
    pub(crate) run_encoded: Option<RunEncoded<A>>,
}

type RunLocal<A> = fn(Box<dyn PendingCall>, CallScope<'_, A>) -> Ran;
type RunEncoded<A> = fn(&Bytes, Option<ReplySink>, CallScope<'_, A>) -> Ran;

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

fn run_local<A, M>(call: Box<dyn PendingCall>, scope: CallScope<'_, A>) -> Ran
where
    A: RpcEndpoint + Handler<M>,
    M: Message<Result: Send> + Send + 'static,
{
    let call: Box<dyn Any> = call;
    match call.downcast::<LocalCall<M>>() {
        Ok(call) => {
            let LocalCall { message, reply } = *call;
            scope.invoke(message, reply.map_or(Reply::None, Reply::Local))
        }
        // Connect compares the gateways' types: one type has one table.
        Err(_) => scope.skip(),
    }
}

fn run_encoded<A, M>(payload: &Bytes, reply: Option<ReplySink>, scope: CallScope<'_, A>) -> Ran
where
    A: RpcEndpoint + Handler<M>,
    M: Message<Result: Send + Serialize> + DeserializeOwned + Send + 'static,
{
    match codec::decode::<M>(payload) {
        Ok(message) => scope.invoke(
            message,
            reply.map_or(Reply::None, |sink| Reply::Encoded {
                sink,
                encode: codec::encode,
            }),
        ),
        Err(why) => scope.refuse_encoded(
            reply,
            RpcError::new(
                RpcErrorKind::Decode,
                format!("the message cannot be decoded: {why}"),
            ),
        ),
    }
}

/// A gateway that endpoint `A` serves, with the table of its methods.
#[derive(Debug)]
pub struct ServedGateway<A: RpcEndpoint> {
    pub(crate) descriptor: &'static GatewayDescriptor,
    pub(crate) gateway: TypeId,
    pub(crate) methods: &'static [Method<A>],
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
        }
    }
}
