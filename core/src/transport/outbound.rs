//! Calls that leave the process.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio::time::Instant;

use crate::{
    address::{Authority, RpcAddress},
    error::RpcError,
    gateway::GatewayDescriptor,
    token::FencingToken,
    trace::TraceContext,
};

/// Carries calls to other processes. One a service; see
/// [`RpcServiceBuilder::build_with`](crate::RpcServiceBuilder::build_with).
pub trait Transport: Send + Sync + fmt::Debug + 'static {
    /// Where other processes reach this one.
    fn authority(&self) -> Authority;

    /// Makes, or reuses, a connection to the address' process and a session with its endpoint.
    ///
    /// # Errors
    /// `Unreachable`, `Timeout`, `ProtocolVersionMismatch`, `Unauthorized`, or what the endpoint's
    /// [`InboundEndpoint::accept`](super::InboundEndpoint::accept) answered.
    fn connect(
        &self,
        request: ConnectRequest,
    ) -> BoxFuture<'static, Result<Arc<dyn RemoteSession>, RpcError>>;

    /// Closes all connections, within a limit of the transport's own. Calls under way resolve.
    fn shutdown(&self) -> BoxFuture<'static, ()>;
}

/// What a caller wants to be connected to.
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// The endpoint; its authority is always there.
    pub address: RpcAddress,
    /// The gateway to be served. Only its [`remote_methods`](GatewayDescriptor::remote_methods)
    /// may be named to the other side.
    pub gateway: &'static GatewayDescriptor,
    /// [`RpcGateway::shapes`](crate::RpcGateway::shapes) of it.
    pub shapes: &'static [u64],
    /// The caller's token, for a fenced gateway.
    pub token: Option<FencingToken>,
    /// When the attempt must have ended.
    pub deadline: Instant,
}

/// One call to another process.
#[derive(Clone, Debug)]
pub struct OutboundCall {
    /// The method's number in the [`ConnectRequest::gateway`].
    pub method: u16,
    /// The encoded message.
    pub payload: Bytes,
    /// When the call must have resolved. Travels with the call.
    pub deadline: Instant,
}

/// A gateway's connection to one endpoint in another process. Reconnects by itself, if the
/// transport does so, as long as the peer is the same incarnation.
pub trait RemoteSession: Send + Sync + fmt::Debug + 'static {
    /// Sends a call and awaits its encoded reply. Waits for credit within the deadline. Dropping
    /// the future cancels the call. Resolves at the deadline at the latest.
    ///
    /// # Errors
    /// Any kind that says what became of the call; the outcome must be honest.
    fn ask(&self, call: OutboundCall) -> BoxFuture<'static, Result<Bytes, RpcError>>;

    /// Sends a one-way message without waiting.
    ///
    /// # Errors
    /// `Full` without credit, `Unreachable` without connection, `TooLarge`: in each case nothing
    /// was sent.
    fn tell(&self, method: u16, payload: Bytes) -> Result<(), RpcError>;

    /// [`ask`](Self::ask) with the span that the call is made from, for
    /// [`InboundSession::ask_traced`](super::InboundSession::ask_traced) at the other side. A
    /// transport that has no place for it leaves it out.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    fn ask_traced(
        &self,
        call: OutboundCall,
        trace: TraceContext,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let _ = trace;
        self.ask(call)
    }

    /// [`tell`](Self::tell) with the span that the message is sent from.
    ///
    /// # Errors
    /// As [`tell`](Self::tell).
    fn tell_traced(
        &self,
        method: u16,
        payload: Bytes,
        trace: TraceContext,
    ) -> Result<(), RpcError> {
        let _ = trace;
        self.tell(method, payload)
    }

    /// True while calls can be sent.
    fn is_connected(&self) -> bool;

    /// Resolves with the cause when the session has ended for good: the endpoint has stopped, its
    /// process was restarted or is gone, or the transport was shut down.
    fn closed(&self) -> BoxFuture<'static, RpcError>;
}
