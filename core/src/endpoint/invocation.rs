//! The one message that the derive adds to an actor: its turn to look into the inbox.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use actix::{
    ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, dev::MessageResponse,
};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    RpcEndpoint,
    core::Core,
    entry::{CallBody, Entry, Header, Job, Reply, Work, panic_error},
    fence::{Begun, TokenCheck},
    forward::forward,
    lifecycle::{Event, Hook},
    restart::Failure,
};
use crate::{
    context::CallContext,
    error::{RpcError, RpcErrorKind, TimeoutPhase},
    gateway::FencingMode,
    transport::ReplySink,
};

/// A turn is over after so many entries, or so long, so that timers and other actors get theirs.
const TURN_ENTRIES: usize = 64;
const TURN_TIME: Duration = Duration::from_micros(200);

/// Brings calls, closures and hooks from an endpoint's inbox to its actor.
///
/// `#[derive(RpcEndpoint)]` writes the handler; nobody else makes or sends one.
pub struct Invocation<A: RpcEndpoint> {
    core: Arc<Core<A>>,
    what: What,
}

enum What {
    Turn,
    Hook { hook: Hook, incarnation: u64 },
}

impl<A: RpcEndpoint> Message for Invocation<A> {
    type Result = ();
}

impl<A: RpcEndpoint> std::fmt::Debug for Invocation<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invocation")
            .field("endpoint", &self.core.address)
            .finish_non_exhaustive()
    }
}

impl<A: RpcEndpoint> Invocation<A> {
    pub(crate) fn turn(core: &Arc<Core<A>>) -> Self {
        Self {
            core: Arc::clone(core),
            what: What::Turn,
        }
    }

    pub(crate) fn hook(core: &Arc<Core<A>>, hook: Hook, incarnation: u64) -> Self {
        Self {
            core: Arc::clone(core),
            what: What::Hook { hook, incarnation },
        }
    }

    /// Does what the inbox holds. For the handler that the derive writes.
    pub fn run(self, actor: &mut A, context: &mut Context<A>) {
        match self.what {
            What::Turn => self.take_turn(actor, context),
            What::Hook { hook, incarnation } => self.run_hook(hook, incarnation, actor, context),
        }
    }

    fn take_turn(self, actor: &mut A, context: &mut Context<A>) {
        let core = &self.core;
        let mut begin = None;
        for _ in 0..TURN_ENTRIES {
            if context.waiting() {
                break;
            }
            let Some(entry) = core.inbox.next(core.is_busy()) else {
                return;
            };
            let now = Instant::now();
            let is_over = now.duration_since(*begin.get_or_insert(now)) >= TURN_TIME;
            if let Ran::Panicked(error) = run_entry(core, entry, now, actor, context)
                && core.restart_after_panic
            {
                let incarnation = core.incarnation();
                incarnation.mark_over();
                // Without a supervisor the endpoint has ended already.
                let _ = core
                    .events
                    .send((incarnation.number, Event::Failed(Failure::Panic(error))));
                context.terminate();
                return;
            }
            if is_over {
                break;
            }
        }
        // Not by `notify`: actix would take the message in the same poll, up to 256 times over, and
        // neither timers nor control messages would get between.
        let actor = context.address();
        tokio::task::spawn_local(async move {
            #[expect(clippy::disallowed_methods, reason = "one wake-up at a time")]
            actor.do_send(self);
        });
    }

    fn run_hook(self, hook: Hook, incarnation: u64, actor: &mut A, context: &mut Context<A>) {
        let begun = catch_unwind(AssertUnwindSafe(|| match hook {
            Hook::Start => actor.on_start(context),
            Hook::Resume => actor.on_resume(context),
            Hook::Stop => actor.on_stop(context),
        }));
        let events = self.core.events.clone();
        let address = self.core.address.clone();
        match begun {
            Ok(future) => {
                context.spawn(future.map(move |result, _, _| {
                    let result = result.map_err(|error| {
                        let text = format!("{} of {address} failed: {error}", hook.name());
                        RpcError::new(RpcErrorKind::LifecycleFailed, text)
                    });
                    let _ = events.send((incarnation, Event::HookDone(result)));
                }));
            }
            Err(payload) => {
                let what = format!("{} of {address}", hook.name());
                let error = panic_error(&what, &*payload);
                let _ = events.send((incarnation, Event::HookDone(Err(error))));
            }
        }
    }
}

/// What became of an entry.
pub(crate) enum Ran {
    Done,
    Panicked(RpcError),
}

/// Checks an entry and runs it: deadline, whether it is still wanted, token, in this order.
fn run_entry<A: RpcEndpoint>(
    core: &Arc<Core<A>>,
    entry: Entry<A>,
    now: Instant,
    actor: &mut A,
    context: &mut Context<A>,
) -> Ran {
    let is_wanted = match &entry.work {
        Work::Call { body, .. } => body.claim(),
        Work::Job(job) => job.claim(),
    };
    if !is_wanted {
        core.shared.dead_letters.refusal(RpcErrorKind::Cancelled);
        return Ran::Done;
    }
    if entry
        .header
        .deadline
        .is_some_and(|deadline| deadline <= now)
    {
        let call = format!("{} of {}", entry.header.method, core.address);
        let error = RpcError::timeout(&call, Duration::ZERO, TimeoutPhase::Queued);
        core.refuse(entry, error);
        return Ran::Done;
    }
    let begun = match core.fence.begin(entry.header.check) {
        Ok(begun) => begun,
        Err(error) => {
            core.refuse(entry, error.in_context(&core.address));
            return Ran::Done;
        }
    };
    core.note_handled();
    let Entry { header, work } = entry;
    match work {
        Work::Job(job) => run_job(core, job, &begun, actor, context),
        Work::Call { method, body } => run_call(core, method, body, header, begun, actor, context),
    }
}

fn run_job<A: RpcEndpoint>(
    core: &Core<A>,
    job: Box<dyn Job<A>>,
    begun: &Begun,
    actor: &mut A,
    context: &mut Context<A>,
) -> Ran {
    let result = job.run(actor, context);
    core.fence.end(begun);
    match result {
        Ok(()) => Ran::Done,
        Err(error) => Ran::Panicked(error),
    }
}

fn run_call<A: RpcEndpoint>(
    core: &Arc<Core<A>>,
    method: &'static super::Method<A>,
    body: CallBody,
    header: Header,
    begun: Begun,
    actor: &mut A,
    context: &mut Context<A>,
) -> Ran {
    match body {
        CallBody::Local(call) => {
            let scope = CallScope {
                core,
                actor,
                context,
                header,
                begun,
                cancellation: None,
            };
            (method.run_local)(call, scope)
        }
        CallBody::Encoded {
            payload,
            reply,
            cancellation,
        } => {
            let scope = CallScope {
                core,
                actor,
                context,
                header,
                begun,
                cancellation,
            };
            match method.run_encoded {
                Some(run) => run(&payload, reply, scope),
                None => {
                    let text = format!("{} is `local`", method.name);
                    scope.refuse_encoded(reply, RpcError::new(RpcErrorKind::LocalOnly, text))
                }
            }
        }
    }
}

/// A call about to be handled, and all that is around it.
pub(crate) struct CallScope<'a, A: RpcEndpoint> {
    core: &'a Arc<Core<A>>,
    actor: &'a mut A,
    context: &'a mut Context<A>,
    header: Header,
    begun: Begun,
    /// The caller's, if it is in another process.
    cancellation: Option<CancellationToken>,
}

impl<A: RpcEndpoint> CallScope<'_, A> {
    /// Hands the message to the actor and the answer, now or later, to the caller.
    pub(crate) fn invoke<M>(self, message: M, reply: Reply<M::Result>) -> Ran
    where
        A: Handler<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        let Self {
            core,
            actor,
            context,
            header,
            begun,
            cancellation,
        } = self;
        let is_followed = reply.is_ask() || A::SERIAL || <A::Fencing as FencingMode>::FENCED;
        let (sender, receiver) = if is_followed {
            let (sender, receiver) = oneshot::channel();
            (Some(sender), Some(receiver))
        } else {
            (None, None)
        };
        let token = match header.check {
            TokenCheck::Token(token) => Some(token),
            TokenCheck::None => None,
        };
        let call_context = CallContext::new(
            header.method,
            header.caller.clone(),
            header.deadline,
            token,
            cancellation.clone(),
        );
        let (result, asked) = call_context.scope(|| {
            catch_unwind(AssertUnwindSafe(|| {
                let response = <A as Handler<M>>::handle(actor, message, context);
                response.handle(context, sender);
            }))
        });
        if let Err(payload) = result {
            let what = format!("the handler of {} in {}", header.method, core.address);
            let error = panic_error(&what, &*payload);
            core.shared.dead_letters.refusal(RpcErrorKind::Panicked);
            if reply.is_ask() {
                reply.answer(header.method, Err(error.clone()));
            } else {
                core.dead_letter(header, error.clone());
            }
            core.fence.end(&begun);
            return Ran::Panicked(error);
        }
        let Some(mut receiver) = receiver else {
            core.fence.end(&begun);
            return Ran::Done;
        };
        match receiver.try_recv() {
            Ok(value) => {
                let answer = core.fence.refuse_reply(&begun).map(|()| value);
                reply.answer(header.method, answer);
                core.fence.end(&begun);
            }
            Err(oneshot::error::TryRecvError::Closed) => {
                // Reply answers NoReply as it is dropped.
                drop(reply);
                core.fence.end(&begun);
            }
            Err(oneshot::error::TryRecvError::Empty) => {
                let pending = core.note_pending(header.method, begun);
                let cancellation = asked.or(cancellation);
                tokio::task::spawn_local(forward(receiver, reply, header, cancellation, pending));
            }
        }
        Ran::Done
    }

    /// Ends without having run anything.
    pub(crate) fn skip(self) -> Ran {
        self.core.fence.end(&self.begun);
        Ran::Done
    }

    /// Answers a call that can't be handed to the actor.
    pub(crate) fn refuse_encoded(self, reply: Option<ReplySink>, error: RpcError) -> Ran {
        let error = error.in_context(format_args!(
            "{} of {}",
            self.header.method, self.core.address
        ));
        self.core.fence.end(&self.begun);
        let body = CallBody::Encoded {
            payload: bytes::Bytes::new(),
            reply,
            cancellation: None,
        };
        self.core.refuse_call(self.header, body, error);
        Ran::Done
    }
}
