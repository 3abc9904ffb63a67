//! What waits in an inbox: calls from this process, calls from others, and closures.

use std::{any::Any, task::Poll};

use actix::{Context, Message};
use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{RpcEndpoint, fence::TokenCheck, method::Method};
use crate::{
    error::{RpcError, RpcErrorKind},
    reply::Replier,
    transport::{Caller, ReplySink},
};

/// What is checked right before the entry runs.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) method: &'static str,
    pub(crate) deadline: Option<Instant>,
    pub(crate) check: TokenCheck,
    pub(crate) caller: Caller,
    /// What it counts for in the inbox: the encoded size, or the shallow size of a local message.
    pub(crate) bytes: usize,
}

pub(crate) struct Entry<A: RpcEndpoint> {
    pub(crate) header: Header,
    pub(crate) work: Work<A>,
}

pub(crate) enum Work<A: RpcEndpoint> {
    Call {
        method: &'static Method<A>,
        body: CallBody,
    },
    Job(Box<dyn Job<A>>),
}

/// A call without its actor's type.
pub(crate) enum CallBody {
    Local(Box<dyn PendingCall>),
    Encoded {
        payload: Bytes,
        reply: Option<ReplySink>,
        cancellation: Option<CancellationToken>,
    },
}

impl CallBody {
    pub(crate) fn is_ask(&self) -> bool {
        match self {
            Self::Local(call) => call.is_ask(),
            Self::Encoded { reply, .. } => reply.is_some(),
        }
    }

    /// Takes the call up; false if its caller has given up.
    pub(crate) fn claim(&self) -> bool {
        match self {
            Self::Local(call) => call.claim(),
            Self::Encoded { cancellation, .. } => !cancellation
                .as_ref()
                .is_some_and(CancellationToken::is_cancelled),
        }
    }

    pub(crate) fn refuse(self, error: RpcError) {
        match self {
            Self::Local(call) => call.refuse(error),
            Self::Encoded {
                reply: Some(reply), ..
            } => reply.reply(Err(error)),
            Self::Encoded { reply: None, .. } => {}
        }
    }
}

/// A closure for the endpoint's thread.
pub(crate) trait Job<A: RpcEndpoint>: Send {
    fn claim(&self) -> bool;
    /// Runs it; a panic is caught and answered, and comes back.
    fn run(self: Box<Self>, actor: &mut A, context: &mut Context<A>) -> Result<(), RpcError>;
    fn refuse(self: Box<Self>, error: RpcError);
}

/// A call from this process, without its message's type.
pub(crate) trait PendingCall: Any + Send {
    fn is_ask(&self) -> bool;
    fn claim(&self) -> bool;
    fn refuse(self: Box<Self>, error: RpcError);
}

pub(crate) struct LocalCall<M: Message<Result: Send>> {
    pub(crate) message: M,
    pub(crate) reply: Option<Replier<M::Result>>,
}

impl<M: Message<Result: Send> + Send + 'static> PendingCall for LocalCall<M> {
    fn is_ask(&self) -> bool {
        self.reply.is_some()
    }

    fn claim(&self) -> bool {
        self.reply.as_ref().is_none_or(Replier::claim)
    }

    fn refuse(self: Box<Self>, error: RpcError) {
        if let Some(reply) = self.reply {
            reply.answer(Err(error));
        }
    }
}

/// Where a handler's result goes.
pub(crate) enum Reply<R> {
    /// A one-way message, or an ask that was answered already.
    None,
    Local(Replier<R>),
    Encoded {
        sink: ReplySink,
        encode: fn(&R) -> Result<Bytes, String>,
    },
}

impl<R> Reply<R> {
    pub(crate) fn is_ask(&self) -> bool {
        !matches!(self, Self::None)
    }

    pub(crate) fn answer(self, method: &str, result: Result<R, RpcError>) {
        match self {
            Self::None => {}
            Self::Local(replier) => {
                replier.answer(result);
            }
            Self::Encoded { sink, encode } => sink.reply(result.and_then(|value| {
                encode(&value).map_err(|why| {
                    RpcError::new(
                        RpcErrorKind::ReplyCodec,
                        format!("the reply to {method} cannot be encoded: {why}"),
                    )
                })
            })),
        }
    }

    /// Ready when nobody in this process waits any more.
    pub(crate) fn poll_abandoned(&self, context: &mut std::task::Context<'_>) -> Poll<()> {
        match self {
            Self::Local(replier) => replier.poll_abandoned(context),
            Self::None | Self::Encoded { .. } => Poll::Pending,
        }
    }
}

/// The text of a panic.
pub(crate) fn panic_error(what: &str, payload: &(dyn Any + Send)) -> RpcError {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)");
    RpcError::new(RpcErrorKind::Panicked, format!("{what} panicked: {text}"))
}
