//! What a handler can know about the call that it handles.

use std::{cell::RefCell, fmt, sync::Arc};

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::{endpoint::entry::Header, token::FencingToken, trace::TraceContext, transport::Caller};

thread_local! {
    static CURRENT: RefCell<Option<CallContext>> = const { RefCell::new(None) };
}

/// The call that is being handled: its deadline, caller, token, and whether it is still wanted.
///
/// [`CallContext::current`] is set while `handle` runs; a handler that returns a future takes it
/// before the first await.
#[derive(Clone)]
pub struct CallContext {
    call: Arc<dyn HasHeader>,
    /// Of the span in which the call is handled.
    trace: Option<Box<TraceContext>>,
    cancellation: Option<CancellationToken>,
}

/// A call whose header outlives its handler's start: contexts are made without copying it.
pub(crate) trait HasHeader: Send + Sync {
    fn header(&self) -> &Header;
}

impl HasHeader for Header {
    fn header(&self) -> &Header {
        self
    }
}

impl CallContext {
    pub(crate) fn new(
        call: Arc<dyn HasHeader>,
        trace: Option<Box<TraceContext>>,
        cancellation: Option<CancellationToken>,
    ) -> Self {
        Self {
            call,
            trace,
            cancellation,
        }
    }

    /// The call that this thread handles right now; `None` outside `handle`, and for messages that
    /// came to the actor's own mailbox.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow_mut(|current| {
            let current = current.as_mut()?;
            current
                .cancellation
                .get_or_insert_with(CancellationToken::new);
            Some(current.clone())
        })
    }

    /// The present call's deadline, without the cost of a whole context.
    pub(crate) fn current_deadline() -> Option<Instant> {
        CURRENT.with_borrow(|current| current.as_ref().and_then(Self::deadline))
    }

    pub(crate) fn current_trace() -> Option<TraceContext> {
        CURRENT.with_borrow(|current| current.as_ref().and_then(Self::trace))
    }

    /// The trace that the call belongs to, if its caller, or this process, traces calls.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.trace.as_deref().copied()
    }

    /// The message type's name.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.call.header().method
    }

    /// Who calls.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.call.header().caller
    }

    /// When the caller stops waiting; `None` for one-way messages.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.call.header().deadline
    }

    /// The token under which the call was accepted; `None` for gateways that are not fenced.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.call.header().check.token()
    }

    /// True once nobody wants the answer any more, or the token it ran under was revoked.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation
            .as_ref()
            .is_some_and(CancellationToken::is_cancelled)
    }

    /// Resolves when the caller gives up, its deadline passes, the token is revoked or the endpoint
    /// ends: whatever comes first. Never, if nothing of that happens before the handler is done.
    pub fn cancelled(&self) -> WaitForCancellationFutureOwned {
        self.cancellation
            .clone()
            .unwrap_or_default()
            .cancelled_owned()
    }

    /// Runs `body` with this context in place and gives back the cancellation that it asked for.
    pub(crate) fn scope<T>(self, body: impl FnOnce() -> T) -> (T, Option<CancellationToken>) {
        let outer = CURRENT.replace(Some(self));
        let result = body();
        let context = CURRENT.replace(outer);
        (result, context.and_then(|context| context.cancellation))
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("method", &self.method())
            .field("caller", self.caller())
            .field("deadline", &self.deadline())
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
