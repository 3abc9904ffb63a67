//! The future of one ask, from its first poll to its one answer.

use std::{
    fmt,
    panic::Location,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use actix::Message;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::Span;

use super::{
    Carries, GatewayInner, Link,
    handle::encoded_ask,
    patrol::{self, Ticket},
};
use crate::{
    context::CallContext,
    endpoint::{
        entry::{Call, Header, LocalCall},
        local::LocalEndpoint,
    },
    error::{RpcError, RpcErrorKind, TimeoutPhase},
    reply::Waiter,
    trace,
    transport::{Caller, OutboundCall},
};

/// An ask under way. Resolves exactly once, at its time limit at the latest.
#[must_use = "nothing is sent before the request is awaited"]
pub struct Request<G: Carries<M>, M: Message<Result: Send>> {
    gateway: Arc<GatewayInner>,
    limit: Duration,
    /// The limit of the call whose handler asks.
    outer_deadline: Option<Instant>,
    began: Option<Instant>,
    /// Counts from the first poll on.
    deadline: Option<Instant>,
    /// The time to the deadline was so short that a timer is armed at once.
    is_urgent: bool,
    timer: Timer,
    place: &'static Location<'static>,
    step: Step<M>,
    /// Open until the request ends.
    span: Span,
    marker: std::marker::PhantomData<fn() -> G>,
}

enum Step<M: Message<Result: Send>> {
    Unsent(M),
    WaitingForRoom {
        call: Call,
        answer: Answer<M>,
        room: BoxFuture<'static, ()>,
    },
    Local(Answer<M>),
    Remote(BoxFuture<'static, Result<Bytes, RpcError>>),
    Over,
}

/// The time limit's own state.
enum Timer {
    Idle,
    /// Polled once without an answer.
    Yielded,
    /// Polled twice.
    Watched(Ticket),
    Armed(Pin<Box<Sleep>>),
}

enum Answer<M: Message<Result: Send>> {
    Value(Arc<LocalCall<M>>),
    Encoded(Waiter<Bytes>),
}

impl<G: Carries<M>, M: Message<Result: Send>> Unpin for Request<G, M> {}

impl<G, M> Request<G, M>
where
    G: Carries<M>,
    M: Message<Result: Send> + Send + 'static,
{
    #[track_caller]
    pub(crate) fn new(gateway: Arc<GatewayInner>, message: M) -> Self {
        Self {
            limit: gateway.shared.settings.default_timeout,
            gateway,
            outer_deadline: CallContext::current_deadline(),
            began: None,
            deadline: None,
            is_urgent: false,
            timer: Timer::Idle,
            place: Location::caller(),
            step: Step::Unsent(message),
            span: Span::none(),
            marker: std::marker::PhantomData,
        }
    }

    /// Sets the limit, counted from the first poll.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Ends the request at `deadline` at the latest, such as that of the call for which it is made:
    /// a handler that asks after an await hands its [`CallContext::deadline`] on with this.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.outer_deadline = Some(match self.outer_deadline {
            Some(outer) if outer < deadline => outer,
            _ => deadline,
        });
        self
    }

    fn begin(&mut self, now: Instant) -> Instant {
        self.began = Some(now);
        let own = now.checked_add(self.limit).unwrap_or_else(|| now + FAR);
        let (deadline, left) = match self.outer_deadline {
            Some(outer) if outer < own => (outer, outer.saturating_duration_since(now)),
            _ => (own, self.limit),
        };
        self.deadline = Some(deadline);
        self.is_urgent = left < patrol::SHORT_LIMIT;
        deadline
    }

    /// Ready when the time is over.
    ///
    /// A timer is armed only if there is no answer after one round of this thread's tasks, nor some
    /// milliseconds later: see [`patrol`].
    fn poll_limit(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else {
            return Poll::Pending;
        };
        match &mut self.timer {
            Timer::Idle => {
                self.timer = Timer::Yielded;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Timer::Yielded if !self.is_urgent => {
                self.timer = Timer::Watched(patrol::watch(context.waker()));
                Poll::Pending
            }
            Timer::Watched(ticket) if !ticket.is_due(context.waker()) => Poll::Pending,
            Timer::Yielded | Timer::Watched(_) => {
                let mut sleep = Box::pin(sleep_until(deadline));
                let over = sleep.as_mut().poll(context);
                self.timer = Timer::Armed(sleep);
                over
            }
            Timer::Armed(sleep) => sleep.as_mut().poll(context),
        }
    }

    /// Sends the message; the next step, or why there is none.
    fn send(
        &mut self,
        message: M,
        sent: Instant,
        deadline: Instant,
        caller: &Waker,
    ) -> Result<Step<M>, RpcError> {
        let method = G::DESCRIPTOR.method_name(G::METHOD);
        let (trace, span) = trace::outgoing(method, self.gateway.address.endpoint().as_str());
        self.span = span;
        match &self.gateway.link {
            Link::Remote(session) => {
                let payload = G::encode(&message)?;
                let call = OutboundCall {
                    method: G::METHOD,
                    payload,
                    deadline,
                };
                Ok(Step::Remote(match trace {
                    Some(trace) => session.ask_traced(call, *trace),
                    None => session.ask(call),
                }))
            }
            Link::Local { endpoint, gateway } => {
                let check = self.gateway.check(&**endpoint)?;
                let header = move |bytes| Header {
                    method,
                    sent,
                    deadline: Some(deadline),
                    check,
                    caller: Caller::Local,
                    trace,
                    bytes,
                };
                let (call, answer) = if self.gateway.shared.serializes(G::DESCRIPTOR, G::METHOD) {
                    let payload = G::encode(&message)?;
                    let (call, waiter) = encoded_ask(header(payload.len()), payload);
                    (call, Answer::Encoded(waiter))
                } else {
                    let call = LocalCall::ask(header(size_of::<M>()), message, caller);
                    (Call::Local(Arc::clone(&call) as _), Answer::Value(call))
                };
                submit::<G, M>(&**endpoint, *gateway, call, answer)
            }
        }
    }

    fn timed_out(&mut self, now: Instant) -> Result<M::Result, RpcError> {
        let step = std::mem::replace(&mut self.step, Step::Over);
        let phase = match step {
            Step::Unsent(_) | Step::WaitingForRoom { .. } => TimeoutPhase::WaitingForRoom,
            Step::Local(answer) => match answer.give_up::<G>() {
                Ok(answered) => return answered,
                Err(true) => TimeoutPhase::Sent,
                Err(false) => TimeoutPhase::Queued,
            },
            Step::Remote(_) | Step::Over => TimeoutPhase::Sent,
        };
        let began = self.began.unwrap_or(now);
        let elapsed = now.duration_since(began);
        let call = format!(
            "{}.{} to {}, sent at {}, waited {elapsed:?},",
            G::DESCRIPTOR.name,
            G::DESCRIPTOR.method_name(G::METHOD),
            self.gateway.address,
            self.place
        );
        let limit = self.deadline.unwrap_or(now).duration_since(began);
        Err(RpcError::timeout(&call, limit, phase)
            .in_context("raise .timeout(..) or the service's default_timeout if it is only slow"))
    }
}

/// As good as never, without overflow.
const FAR: Duration = Duration::from_secs(86_400 * 365);

fn submit<G, M>(
    endpoint: &dyn LocalEndpoint,
    gateway: usize,
    call: Call,
    answer: Answer<M>,
) -> Result<Step<M>, RpcError>
where
    G: Carries<M>,
    M: Message<Result: Send>,
{
    match endpoint.submit(gateway, G::METHOD, call) {
        Ok(()) => Ok(Step::Local(answer)),
        Err(rejected) => {
            let (call, error) = *rejected;
            if error.kind() == RpcErrorKind::Full {
                return Ok(Step::WaitingForRoom {
                    call,
                    answer,
                    room: endpoint.room(),
                });
            }
            endpoint.refuse(call, error.clone());
            Err(error)
        }
    }
}

impl<M: Message<Result: Send>> Answer<M> {
    fn poll<G: Carries<M>>(&self, context: &mut Context<'_>) -> Poll<Result<M::Result, RpcError>> {
        match self {
            Self::Value(call) => call.slot.poll_answer(context),
            Self::Encoded(waiter) => waiter
                .poll_answer(context)
                .map(|answer| answer.and_then(|reply| G::decode_reply(&reply))),
        }
    }

    fn give_up<G: Carries<M>>(&self) -> Result<Result<M::Result, RpcError>, bool> {
        match self {
            Self::Value(call) => call.slot.give_up(),
            Self::Encoded(waiter) => waiter
                .give_up()
                .map(|answer| answer.and_then(|reply| G::decode_reply(&reply)))
                // An encoded call is not claimed: it may have begun.
                .map_err(|_| true),
        }
    }
}

impl<G, M> Future for Request<G, M>
where
    G: Carries<M>,
    M: Message<Result: Send> + Send + 'static,
{
    type Output = Result<M::Result, RpcError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            match std::mem::replace(&mut this.step, Step::Over) {
                Step::Unsent(message) => {
                    let now = Instant::now();
                    let deadline = this.begin(now);
                    if deadline <= now {
                        this.step = Step::Unsent(message);
                        return Poll::Ready(this.timed_out(now));
                    }
                    this.step = this.send(message, now, deadline, context.waker())?;
                    if matches!(this.step, Step::Local(Answer::Value(_))) {
                        // The call knows whom to wake: no need to look for an answer now.
                        break;
                    }
                }
                Step::WaitingForRoom {
                    call,
                    answer,
                    mut room,
                } => {
                    let Link::Local { endpoint, gateway } = &this.gateway.link else {
                        return Poll::Ready(Err(over()));
                    };
                    // Registers for room first, then tries, so that none is missed.
                    let woken = room.as_mut().poll(context).is_ready();
                    let next = submit::<G, M>(&**endpoint, *gateway, call, answer)?;
                    if let Step::WaitingForRoom {
                        call,
                        answer,
                        room: fresh,
                    } = next
                    {
                        let room = if woken { fresh } else { room };
                        this.step = Step::WaitingForRoom { call, answer, room };
                        if woken {
                            continue;
                        }
                        break;
                    }
                    this.step = next;
                }
                Step::Local(answer) => {
                    if let Poll::Ready(result) = answer.poll::<G>(context) {
                        return Poll::Ready(result);
                    }
                    this.step = Step::Local(answer);
                    break;
                }
                Step::Remote(mut reply) => {
                    if let Poll::Ready(result) = reply.as_mut().poll(context) {
                        return Poll::Ready(result.and_then(|reply| G::decode_reply(&reply)));
                    }
                    this.step = Step::Remote(reply);
                    break;
                }
                Step::Over => return Poll::Ready(Err(over())),
            }
        }
        if this.poll_limit(context).is_ready() {
            return Poll::Ready(this.timed_out(Instant::now()));
        }
        Poll::Pending
    }
}

impl<G: Carries<M>, M: Message<Result: Send>> Drop for Request<G, M> {
    fn drop(&mut self) {
        // Gives the call up. An encoded call's waiter does so itself.
        if let Step::Local(Answer::Value(call))
        | Step::WaitingForRoom {
            answer: Answer::Value(call),
            ..
        } = &self.step
        {
            drop(call.slot.give_up());
        }
    }
}

fn over() -> RpcError {
    RpcError::new(
        RpcErrorKind::InvalidState,
        "a request was polled after its answer",
    )
}

impl<G: Carries<M>, M: Message<Result: Send>> fmt::Debug for Request<G, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &G::DESCRIPTOR.method_name(G::METHOD))
            .field("address", &self.gateway.address)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
