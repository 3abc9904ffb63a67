//! Gateways: what can be asked of an endpoint, and the handles to ask it.
//!
//! A gateway is a marker type made by [`rpc_gateway!`](crate::rpc_gateway). It lists the messages,
//! not the actor: a caller needs the gateway and its messages only, and any actor that handles
//! them all can serve it.

use std::fmt;

use actix::Message;
use bytes::Bytes;

pub(crate) use self::handle::{GatewayInner, Link, TokenSource};
pub use self::{
    descriptor::{GatewayDescriptor, MethodDescriptor},
    handle::{FencedGateway, Gateway},
    reference::GatewayRef,
    request::Request,
};
use crate::{
    endpoint::{Method, RpcEndpoint},
    error::RpcError,
};

mod descriptor;
mod handle;
#[doc(hidden)]
pub mod macro_support;
mod patrol;
mod recipient;
mod reference;
mod request;
#[doc(hidden)]
pub mod shape;

/// A marker type that stands for a set of messages. Made by [`rpc_gateway!`](crate::rpc_gateway).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no gateway",
    note = "declare it with `rpc_gateway!`"
)]
pub trait RpcGateway: Sized + Send + Sync + 'static {
    /// [`Fenced`] if every call needs a fencing token, else [`Unfenced`].
    type Fencing: FencingMode;

    /// Name, version and methods.
    const DESCRIPTOR: &'static GatewayDescriptor;

    /// The shapes of the methods' messages and replies as numbers, in the gateway's order; 0, or none,
    /// is not known. Where both sides of a connection know one, it has to be the same.
    #[must_use]
    fn shapes() -> &'static [u64] {
        &[]
    }
}

/// Says that gateway `Self` has a method for message `M`.
#[diagnostic::on_unimplemented(
    message = "the gateway `{Self}` does not carry the message `{M}`",
    note = "add the message to its `rpc_gateway!`, or use the gateway that has it"
)]
pub trait Carries<M: Message>: RpcGateway {
    /// The method's number: its place in the gateway's list.
    const METHOD: u16;

    /// Writes a message for another process.
    ///
    /// # Errors
    /// `Encode`; `LocalOnly` for a `local` message.
    fn encode(message: &M) -> Result<Bytes, RpcError>;

    /// Reads the reply of another process.
    ///
    /// # Errors
    /// `ReplyCodec`; `LocalOnly` for a `local` message.
    fn decode_reply(reply: &[u8]) -> Result<M::Result, RpcError>;
}

/// Says how an actor handles each message of gateway `Self`.
pub trait Dispatch<A: RpcEndpoint>: RpcGateway {
    /// One entry a method, in the gateway's order.
    const METHODS: &'static [Method<A>];
}

/// [`Fenced`] or [`Unfenced`].
pub trait FencingMode: sealed::Sealed + Send + Sync + 'static {
    /// True for [`Fenced`].
    const FENCED: bool;
}

/// Every call needs the endpoint's present token.
#[derive(Clone, Copy, Debug)]
pub enum Fenced {}

/// Calls need no token.
#[derive(Clone, Copy, Debug)]
pub enum Unfenced {}

impl FencingMode for Fenced {
    const FENCED: bool = true;
}

impl FencingMode for Unfenced {
    const FENCED: bool = false;
}

mod sealed {
    pub trait Sealed: super::fmt::Debug {}
    impl Sealed for super::Fenced {}
    impl Sealed for super::Unfenced {}
}
