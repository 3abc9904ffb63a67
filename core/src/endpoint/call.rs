//! What happens to one entry of the inbox on the actor's thread: the checks, the handler, the answer.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use actix::{Context, Handler, Message, MessageResult, dev::MessageResponse};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    RpcEndpoint,
    core::Core,
    entry::{Call, EncodedCall, Entry, QueuedJob, Reply, panic_error},
    fence::Begun,
    forward::forward,
};
use crate::{
    context::CallContext,
    error::{RpcError, RpcErrorKind, TimeoutPhase},
    gateway::FencingMode,
    trace,
};

/// What became of an entry.
pub(crate) enum Ran {
    Done,
    /// A handler ran, and its answer is out.
    Answered,
    Panicked(RpcError),
}

/// Checks an entry and runs it: deadline, token, and whether it is still wanted, in this order.
pub(crate) fn run_entry<A: RpcEndpoint>(
    core: &Arc<Core<A>>,
    entry: Entry<A>,
    now: Instant,
    actor: &mut A,
    context: &mut Context<A>,
) -> Ran {
    let header = entry.header();
    if header.deadline.is_some_and(|deadline| deadline <= now) {
        let call = format!("{} of {}", header.method, core.address);
        let error = RpcError::timeout(&call, Duration::ZERO, TimeoutPhase::Queued);
        core.refuse(entry, error);
        return Ran::Done;
    }
    let begun = match core.fence.begin(&header.check) {
        Ok(begun) => begun,
        Err(error) => {
            core.refuse(entry, error.in_context(&core.address));
            return Ran::Done;
        }
    };
    match entry {
        Entry::Job(job) => run_job(core, *job, &begun, actor, context),
        Entry::Call { method, call } => {
            let scope = CallScope {
                core,
                method,
                now,
                actor,
                context,
                begun,
                cancellation: None,
            };
            run_call(method, call, scope)
        }
    }
}

fn run_job<A: RpcEndpoint>(
    core: &Core<A>,
    queued: QueuedJob<A>,
    begun: &Begun,
    actor: &mut A,
    context: &mut Context<A>,
) -> Ran {
    if !queued.job.claim() {
        core.fence.end(begun);
        core.shared.dead_letters.refusal(RpcErrorKind::Cancelled);
        return Ran::Done;
    }
    core.note_handled();
    let result = queued.job.run(actor, context);
    core.fence.end(begun);
    match result {
        Ok(()) => Ran::Done,
        Err(error) => Ran::Panicked(error),
    }
}

fn run_call<A: RpcEndpoint>(method: usize, call: Call, mut scope: CallScope<'_, A>) -> Ran {
    let Some(method) = scope.core.methods.get(method).copied() else {
        return scope.skip(RpcErrorKind::UnknownMethod);
    };
    match call {
        Call::Local(call) => (method.run_local)(call, scope),
        Call::Encoded(call) if call.is_abandoned() => scope.skip(RpcErrorKind::Cancelled),
        Call::Encoded(mut call) => {
            scope.cancellation = call.cancellation.take();
            match method.run_encoded {
                Some(run) => run(call, scope),
                None => {
                    let text = format!("{} is `local`", method.name);
                    scope.refuse_encoded(call, RpcError::new(RpcErrorKind::LocalOnly, text))
                }
            }
        }
    }
}

/// A call about to be handled, and all that is around it.
pub(crate) struct CallScope<'a, A: RpcEndpoint> {
    core: &'a Arc<Core<A>>,
    /// Its place in the endpoint's table.
    method: usize,
    now: Instant,
    actor: &'a mut A,
    context: &'a mut Context<A>,
    begun: Begun,
    /// The caller's, if it is in another process.
    cancellation: Option<CancellationToken>,
}

impl<A: RpcEndpoint> CallScope<'_, A> {
    /// Hands the message to the actor and the answer, now or later, to the caller.
    pub(crate) fn invoke<M>(self, message: M, mut reply: Reply<M>) -> Ran
    where
        A: Handler<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        let Self {
            core,
            method,
            now,
            actor,
            context,
            begun,
            cancellation,
        } = self;
        core.note_handled();
        if let Some(metrics) = core.metrics.get(method) {
            metrics.begun(now.saturating_duration_since(reply.header().sent));
            if reply.is_encoded() {
                metrics.message(reply.header().bytes);
                reply.count_bytes(metrics.reply_bytes());
            }
        }
        let header = reply.header();
        let caller = header.trace.as_deref();
        let name = core.address.endpoint().as_str();
        let (trace, span) = trace::incoming(header.method, name, caller);
        let call_context = CallContext::new(reply.call(), trace, cancellation.clone());
        let is_followed = reply.is_ask() || A::SERIAL || <A::Fencing as FencingMode>::FENCED;
        let (result, asked) = call_context.scope(|| {
            let _entered = span.enter();
            catch_unwind(AssertUnwindSafe(|| {
                let response = <A as Handler<M>>::handle(actor, message, context);
                respond::<A, M>(response, is_followed, context)
            }))
        });
        let response = match result {
            Ok(response) => response,
            Err(payload) => {
                let what = format!(
                    "the handler of {} in {}",
                    reply.header().method,
                    core.address
                );
                let error = panic_error(&what, &*payload);
                core.shared.dead_letters.refusal(RpcErrorKind::Panicked);
                if reply.is_ask() {
                    reply.answer(Err(error.clone()));
                } else {
                    core.dead_letter(reply.header(), error.clone());
                }
                core.fence.end(&begun);
                return Ran::Panicked(error);
            }
        };
        match response {
            Response::Value(value) => {
                reply.answer(core.fence.refuse_reply(&begun).map(|()| value));
                core.fence.end(&begun);
            }
            // The reply answers NoReply as it is dropped.
            Response::Nothing => core.fence.end(&begun),
            Response::Later(receiver) => {
                let pending = core.note_pending(reply.header().method, begun, (method, now));
                let cancellation = asked.or(cancellation);
                tokio::task::spawn_local(forward(receiver, reply, cancellation, pending, span));
                return Ran::Done;
            }
        }
        Ran::Answered
    }

    /// Ends without having run anything; nobody waits for an answer.
    pub(crate) fn skip(self, reason: RpcErrorKind) -> Ran {
        self.core.fence.end(&self.begun);
        self.core.shared.dead_letters.refusal(reason);
        Ran::Done
    }

    /// Answers a call that can't be handed to the actor.
    pub(crate) fn refuse_encoded(self, call: Box<EncodedCall>, error: RpcError) -> Ran {
        self.core.fence.end(&self.begun);
        let error = error.in_context(format_args!(
            "{} of {}",
            call.header.method, self.core.address
        ));
        self.core.refuse_call(Call::Encoded(call), error);
        Ran::Done
    }
}

/// What a handler has returned.
enum Response<R> {
    Value(R),
    /// A future that will send it.
    Later(oneshot::Receiver<R>),
    /// Nobody listens, or there is none.
    Nothing,
}

/// Takes the result out of a handler's response. Most responses are the result itself: they need no
/// channel, which would cost an allocation a call.
fn respond<A, M>(
    response: <A as Handler<M>>::Result,
    is_followed: bool,
    context: &mut Context<A>,
) -> Response<M::Result>
where
    A: RpcEndpoint + Handler<M>,
    M: Message<Result: Send> + Send + 'static,
{
    let mut response = Some(response);
    let any: &mut dyn Any = &mut response;
    if let Some(value) = any.downcast_mut::<Option<M::Result>>() {
        return value.take().map_or(Response::Nothing, Response::Value);
    }
    if let Some(value) = any.downcast_mut::<Option<MessageResult<M>>>() {
        return value
            .take()
            .map_or(Response::Nothing, |MessageResult(value)| {
                Response::Value(value)
            });
    }
    let Some(response) = response else {
        return Response::Nothing;
    };
    if !is_followed {
        response.handle(context, None);
        return Response::Nothing;
    }
    let (sender, mut receiver) = oneshot::channel();
    response.handle(context, Some(sender));
    match receiver.try_recv() {
        Ok(value) => Response::Value(value),
        Err(oneshot::error::TryRecvError::Closed) => Response::Nothing,
        Err(oneshot::error::TryRecvError::Empty) => Response::Later(receiver),
    }
}
