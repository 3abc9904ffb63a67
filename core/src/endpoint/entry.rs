//! What waits in an inbox: calls from this process, calls from others, and closures.

use std::{
    any::Any,
    sync::Arc,
    task::{Poll, Waker},
};

use actix::{Context, Message};
use bytes::Bytes;
use metrics::Counter;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{RpcEndpoint, fence::TokenCheck};
use crate::{
    context::HasHeader,
    error::{RpcError, RpcErrorKind},
    measure::count,
    reply::{Answer, Slot, dropped_unanswered},
    trace::TraceContext,
    transport::{Caller, ReplySink},
};

/// What is checked right before the entry runs.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) method: &'static str,
    /// When it was handed to the endpoint.
    pub(crate) sent: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) check: TokenCheck,
    pub(crate) caller: Caller,
    pub(crate) trace: Option<Box<TraceContext>>,
    /// What it counts for in the inbox: the encoded size, or the shallow size of a local message.
    pub(crate) bytes: usize,
}

/// Small on purpose: entries are moved several times.
pub(crate) enum Entry<A: RpcEndpoint> {
    Call {
        /// The method's place in the endpoint's table.
        method: usize,
        call: Call,
    },
    Job(Box<QueuedJob<A>>),
}

impl<A: RpcEndpoint> Entry<A> {
    pub(crate) fn header(&self) -> &Header {
        match self {
            Self::Call { call, .. } => call.header(),
            Self::Job(job) => &job.header,
        }
    }
}

impl<A: RpcEndpoint> Entry<A> {
    /// The method's place in the endpoint's table; of none, for closures.
    pub(crate) fn method(&self) -> usize {
        match self {
            Self::Call { method, .. } => *method,
            Self::Job(_) => usize::MAX - 1,
        }
    }
}

/// A call without its actor's type.
pub(crate) enum Call {
    Local(Arc<dyn PendingCall>),
    Encoded(Box<EncodedCall>),
}

impl Call {
    pub(crate) fn header(&self) -> &Header {
        match self {
            Self::Local(call) => call.header(),
            Self::Encoded(call) => &call.header,
        }
    }

    pub(crate) fn is_ask(&self) -> bool {
        match self {
            Self::Local(call) => call.is_ask(),
            Self::Encoded(call) => call.reply.is_some(),
        }
    }

    /// Answers an ask that won't run; false if its caller had given up before.
    pub(crate) fn refuse(self, error: RpcError) -> bool {
        match self {
            Self::Local(call) => call.refuse(error),
            Self::Encoded(call) => {
                let is_wanted = !call.is_abandoned();
                if let Some(reply) = call.reply {
                    reply.reply(Err(error));
                }
                is_wanted
            }
        }
    }
}

/// A call as another process sent it.
pub(crate) struct EncodedCall {
    pub(crate) header: Arc<Header>,
    pub(crate) payload: Bytes,
    pub(crate) reply: Option<ReplySink>,
    pub(crate) cancellation: Option<CancellationToken>,
}

impl EncodedCall {
    pub(crate) fn is_abandoned(&self) -> bool {
        self.cancellation
            .as_ref()
            .is_some_and(CancellationToken::is_cancelled)
    }
}

/// A closure for the endpoint's thread, with what is checked before it runs.
pub(crate) struct QueuedJob<A: RpcEndpoint> {
    pub(crate) header: Header,
    pub(crate) job: Box<dyn Job<A>>,
}

pub(crate) trait Job<A: RpcEndpoint>: Send {
    fn claim(&self) -> bool;
    /// Runs it; a panic is caught and answered, and comes back.
    fn run(self: Box<Self>, actor: &mut A, context: &mut Context<A>) -> Result<(), RpcError>;
    fn refuse(self: Box<Self>, error: RpcError);
}

/// A call from this process, without its message's type.
pub(crate) trait PendingCall: Any + HasHeader {
    fn is_ask(&self) -> bool;
    fn refuse(&self, error: RpcError) -> bool;
}

/// A call from this process: its message, and the place of its answer. One allocation a call.
pub(crate) struct LocalCall<M: Message<Result: Send>> {
    pub(crate) header: Header,
    pub(crate) is_ask: bool,
    pub(crate) slot: Slot<M, M::Result>,
}

impl<M: Message<Result: Send> + Send + 'static> LocalCall<M> {
    /// A call whose answer wakes `caller`.
    pub(crate) fn ask(header: Header, message: M, caller: &Waker) -> Arc<Self> {
        Arc::new(Self {
            header,
            is_ask: true,
            slot: Slot::new(message, Some(caller.clone())),
        })
    }

    /// A call that nobody waits for.
    pub(crate) fn tell(header: Header, message: M) -> Arc<Self> {
        Arc::new(Self {
            header,
            is_ask: false,
            slot: Slot::new(message, None),
        })
    }
}

impl<M: Message<Result: Send> + Send + 'static> HasHeader for LocalCall<M> {
    fn header(&self) -> &Header {
        &self.header
    }
}

impl<M: Message<Result: Send> + Send + 'static> PendingCall for LocalCall<M> {
    fn is_ask(&self) -> bool {
        self.is_ask
    }

    fn refuse(&self, error: RpcError) -> bool {
        self.slot.answer(Err(error))
    }
}

/// A local call that was taken up. Dropped without an answer, it answers `NoReply`.
pub(crate) struct Taken<M: Message<Result: Send>> {
    call: Arc<LocalCall<M>>,
    is_answered: bool,
}

impl<M: Message<Result: Send>> Taken<M> {
    pub(crate) fn new(call: Arc<LocalCall<M>>) -> Self {
        Self {
            is_answered: !call.is_ask,
            call,
        }
    }

    fn answer(&mut self, answer: Answer<M::Result>) {
        if !self.is_answered {
            self.is_answered = true;
            self.call.slot.answer(answer);
        }
    }
}

impl<M: Message<Result: Send>> Drop for Taken<M> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer(Err(dropped_unanswered()));
        }
    }
}

/// Where a handler's result goes, and what call it answers.
pub(crate) enum Reply<M: Message<Result: Send>> {
    Local(Taken<M>),
    Encoded {
        header: Arc<Header>,
        sink: Option<ReplySink>,
        encode: fn(&M::Result) -> Result<Bytes, String>,
        bytes: Option<Counter>,
    },
}

impl<M: Message<Result: Send> + Send + 'static> Reply<M> {
    /// The call, for its context.
    pub(crate) fn call(&self) -> Arc<dyn HasHeader> {
        match self {
            Self::Local(taken) => Arc::clone(&taken.call) as _,
            Self::Encoded { header, .. } => Arc::clone(header) as _,
        }
    }

    pub(crate) fn header(&self) -> &Header {
        match self {
            Self::Local(taken) => &taken.call.header,
            Self::Encoded { header, .. } => header,
        }
    }

    /// True while somebody waits for an answer.
    pub(crate) fn is_ask(&self) -> bool {
        match self {
            Self::Local(taken) => !taken.is_answered,
            Self::Encoded { sink, .. } => sink.is_some(),
        }
    }

    pub(crate) fn is_encoded(&self) -> bool {
        matches!(self, Self::Encoded { .. })
    }

    /// Has an encoded reply's bytes counted.
    pub(crate) fn count_bytes(&mut self, counter: Counter) {
        if let Self::Encoded { bytes, .. } = self {
            *bytes = Some(counter);
        }
    }

    /// Answers; what is answered already stays so.
    pub(crate) fn answer(&mut self, answer: Answer<M::Result>) {
        match self {
            Self::Local(taken) => taken.answer(answer),
            Self::Encoded {
                header,
                sink,
                encode,
                bytes,
            } => {
                let Some(sink) = sink.take() else { return };
                sink.reply(answer.and_then(|value| {
                    let encoded = encode(&value);
                    if let (Ok(reply), Some(bytes)) = (&encoded, bytes) {
                        bytes.increment(count(reply.len()));
                    }
                    encoded.map_err(|why| {
                        let text =
                            format!("the reply to {} cannot be encoded: {why}", header.method);
                        RpcError::new(RpcErrorKind::ReplyCodec, text)
                    })
                }));
            }
        }
    }

    /// Ready when nobody in this process waits any more.
    pub(crate) fn poll_abandoned(&self, context: &mut std::task::Context<'_>) -> Poll<()> {
        match self {
            Self::Local(taken) => taken.call.slot.poll_abandoned(context),
            Self::Encoded { .. } => Poll::Pending,
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
