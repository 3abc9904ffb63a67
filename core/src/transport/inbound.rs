//! Calls that come in from another process.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use dashmap::{DashMap, Entry};
use futures_core::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    address::EndpointId,
    endpoint::local::LocalEndpoint,
    error::{RpcError, RpcErrorKind},
    token::FencingToken,
    trace::TraceContext,
};

/// The endpoints of one service by name. Cheap to clone; shared by the service and its transport.
#[derive(Clone)]
pub struct EndpointTable {
    endpoints: Arc<DashMap<EndpointId, Arc<dyn LocalEndpoint>>>,
    incarnation: Uuid,
}

impl EndpointTable {
    pub(crate) fn new() -> Self {
        Self {
            endpoints: Arc::new(DashMap::new()),
            incarnation: Uuid::new_v4(),
        }
    }

    /// The living endpoint of that name.
    #[must_use]
    pub fn endpoint(&self, id: &str) -> Option<Arc<dyn InboundEndpoint>> {
        self.local(id)
            .map(|endpoint| endpoint as Arc<dyn InboundEndpoint>)
    }

    pub(crate) fn local(&self, id: &str) -> Option<Arc<dyn LocalEndpoint>> {
        self.endpoints.get(id).map(|entry| Arc::clone(&entry))
    }

    /// Takes the name for an endpoint.
    pub(crate) fn insert(
        &self,
        id: &EndpointId,
        endpoint: Arc<dyn LocalEndpoint>,
    ) -> Result<(), RpcError> {
        match self.endpoints.entry(id.clone()) {
            Entry::Occupied(_) => Err(RpcError::new(
                RpcErrorKind::NameTaken,
                format!("an endpoint named {id} lives in this service: terminate it first"),
            )),
            Entry::Vacant(vacant) => {
                vacant.insert(endpoint);
                Ok(())
            }
        }
    }

    pub(crate) fn remove(&self, id: &EndpointId) {
        self.endpoints.remove(id);
    }

    pub(crate) fn living(&self) -> Vec<Arc<dyn LocalEndpoint>> {
        self.endpoints
            .iter()
            .map(|entry| Arc::clone(entry.value()))
            .collect()
    }

    /// The service's incarnation: made anew with each service, so that a restart is visible.
    #[must_use]
    pub fn incarnation(&self) -> Uuid {
        self.incarnation
    }
}

impl fmt::Debug for EndpointTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointTable")
            .field("incarnation", &self.incarnation)
            .field("endpoints", &self.endpoints.len())
            .finish()
    }
}

/// What a remote caller says when it connects to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The gateway's name.
    pub gateway: String,
    /// The gateway's version.
    pub version: u32,
    /// The names of the methods that the caller may use, in the order of its own numbers.
    pub methods: Vec<String>,
    /// The shapes of those methods at the caller, as numbers; 0, or none, is not told.
    pub shapes: Vec<u64>,
    /// The caller's token.
    pub token: Option<FencingToken>,
    /// Who connects.
    pub caller: Caller,
}

/// Who makes a call.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Caller {
    /// Somebody in this process.
    #[default]
    Local,
    /// A peer, by the address it was seen under.
    Remote(Arc<str>),
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("this process"),
            Self::Remote(peer) => f.write_str(peer),
        }
    }
}

/// An endpoint as a transport sees it.
pub trait InboundEndpoint: Send + Sync + fmt::Debug + 'static {
    /// Answers a handshake, in every state of the endpoint but TERMINATED.
    ///
    /// # Errors
    /// `WrongGateway`, `GatewayVersionMismatch` (also for shapes that differ), `UnknownMethod` (the text has its name),
    /// `MissingToken`, `Fenced`, `Stopped`.
    fn accept(&self, handshake: Handshake) -> Result<Arc<dyn InboundSession>, RpcError>;
}

/// One remote gateway's session with an endpoint; holds the token of the handshake.
/// It may be dropped at any time; calls under way go on.
pub trait InboundSession: Send + Sync + fmt::Debug + 'static {
    /// Puts a call into the endpoint's inbox. Never blocks. `reply` is answered exactly once, from
    /// any thread: with the encoded reply, or with why there is none.
    fn ask(&self, call: InboundCall, reply: ReplySink);

    /// Puts a one-way message into the endpoint's inbox. What is not handled becomes a dead letter
    /// with its reason. `deadline` and `cancellation` of the call are not looked at.
    fn tell(&self, call: InboundCall);

    /// [`ask`](Self::ask) by a caller that has told the span it calls from.
    fn ask_traced(&self, call: InboundCall, reply: ReplySink, trace: TraceContext) {
        let _ = trace;
        self.ask(call, reply);
    }

    /// [`tell`](Self::tell) by a caller that has told the span it calls from.
    fn tell_traced(&self, call: InboundCall, trace: TraceContext) {
        let _ = trace;
        self.tell(call);
    }

    /// Resolves with the cause when the endpoint has ended. Whoever holds the future does not hold
    /// the endpoint.
    fn closed(&self) -> BoxFuture<'static, RpcError> {
        Box::pin(std::future::pending())
    }
}

/// One call from another process.
#[derive(Clone, Debug)]
pub struct InboundCall {
    /// The method's place in [`Handshake::methods`].
    pub method: u16,
    /// The encoded message.
    pub payload: Bytes,
    /// When the caller stops waiting; a call that is still queued then does not run.
    pub deadline: Option<Instant>,
    /// Cancelled when the caller gave the call up (or is gone).
    pub cancellation: CancellationToken,
}

/// Takes the one answer to an inbound call. Dropped without one, it answers `NoReply`.
pub struct ReplySink(Option<Deliver>);

type Deliver = Box<dyn FnOnce(Result<Bytes, RpcError>) + Send>;

impl ReplySink {
    /// A sink that hands the answer to `deliver`. It runs on the thread that answers, often the
    /// endpoint's own: it must not block.
    pub fn new(deliver: impl FnOnce(Result<Bytes, RpcError>) + Send + 'static) -> Self {
        Self(Some(Box::new(deliver)))
    }

    /// Delivers the answer.
    pub fn reply(mut self, answer: Result<Bytes, RpcError>) {
        if let Some(deliver) = self.0.take() {
            deliver(answer);
        }
    }
}

impl Drop for ReplySink {
    fn drop(&mut self) {
        if let Some(deliver) = self.0.take() {
            deliver(Err(RpcError::new(
                RpcErrorKind::NoReply,
                "the call was dropped unanswered",
            )));
        }
    }
}

impl fmt::Debug for ReplySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplySink").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_sink_answers_no_reply() {
        let (tx, rx) = std::sync::mpsc::channel();
        drop(ReplySink::new(move |answer| tx.send(answer).unwrap()));
        assert_eq!(
            rx.recv().unwrap().unwrap_err().kind(),
            RpcErrorKind::NoReply
        );
    }
}
