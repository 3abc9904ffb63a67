//! The shell around the life cycle: one task an endpoint, on the actor's own thread.
//!
//! It owns the actor's incarnations and carries out what [`Lifecycle`] says. It ends with the
//! endpoint; if its arbiter ends first, it still answers everything on its way out.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use actix::{AsyncContext, Context};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

use super::{
    RpcEndpoint,
    core::{Core, Ends, Request},
    entry::panic_error,
    incarnation::{End, Incarnation, Life},
    invocation::Invocation,
    lifecycle::{Action, Control, Event, Hook, Lifecycle},
    restart::{Escalation, Failure},
    turn::Turns,
};
use crate::error::{RpcError, RpcErrorKind, TimeoutPhase};

/// Makes incarnations.
pub(crate) type Factory<A> = Box<dyn FnMut() -> A>;

pub(crate) struct Supervisor<A: RpcEndpoint> {
    core: Arc<Core<A>>,
    machine: Lifecycle,
    factory: Option<Factory<A>>,
    escalation: Escalation,
    began: Instant,
    life: Option<JoinHandle<End>>,
    incarnation: Arc<Incarnation>,
    starting: Vec<oneshot::Sender<Result<(), RpcError>>>,
    back_off_until: Option<Instant>,
    hook: Option<(Hook, Instant)>,
    /// An incarnation that has ended and whose resources are open.
    closing: Option<Arc<Incarnation>>,
    /// How the endpoint ended, until its resources are closed.
    finished: Option<Result<(), RpcError>>,
    is_finished: bool,
}

impl<A: RpcEndpoint> Supervisor<A> {
    pub(crate) fn new(
        core: Arc<Core<A>>,
        machine: Lifecycle,
        factory: Option<Factory<A>>,
        escalation: Escalation,
    ) -> Self {
        let incarnation = core.incarnation();
        Self {
            core,
            machine,
            factory,
            escalation,
            began: Instant::now(),
            life: None,
            incarnation,
            starting: Vec::new(),
            back_off_until: None,
            hook: None,
            closing: None,
            finished: None,
            is_finished: false,
        }
    }

    /// Starts the first incarnation and runs until the endpoint has ended. Must be called on the
    /// arbiter, or in the `LocalSet`, on which the actor is to live.
    pub(crate) fn start(mut self, actor: A, ends: Ends) {
        self.begin_life(actor);
        tokio::task::spawn_local(self.run(ends));
    }

    /// Serves an actor that runs already. Called in its own context.
    pub(crate) fn attach(core: Arc<Core<A>>, ends: Ends, context: &mut Context<A>) {
        Turns::attach(&core, &core.incarnation(), context);
        let supervisor = Self::new(core, Lifecycle::new(None), None, Escalation::default());
        tokio::task::spawn_local(supervisor.run(ends));
    }

    async fn run(mut self, mut ends: Ends) {
        loop {
            if let Some(incarnation) = self.closing.take() {
                self.close(&incarnation).await;
            }
            if let Some(result) = self.finished.take() {
                self.publish_end(result);
                return;
            }
            let hook_limit = self.hook.map(|(_, limit)| limit);
            let event = tokio::select! {
                biased;
                Some(request) = ends.requests.recv() => {
                    self.request(request);
                    continue;
                }
                Some((number, event)) = ends.events.recv() => {
                    if number != self.incarnation.number {
                        continue;
                    }
                    event
                }
                end = ended(self.life.as_mut()) => {
                    self.life = None;
                    match end {
                        End::Killed => continue,
                        End::StoppedItself => Event::Failed(Failure::StoppedItself),
                        End::Panicked(error) => Event::Failed(Failure::Panic(error)),
                    }
                }
                () = at(self.back_off_until) => {
                    self.back_off_until = None;
                    Event::BackOffOver
                }
                () = at(hook_limit) => Event::HookDone(Err(self.hook_timed_out())),
            };
            if matches!(event, Event::HookDone(_)) {
                self.hook = None;
            }
            self.step(event, None);
        }
    }

    fn hook_timed_out(&self) -> RpcError {
        let name = self.hook.map_or("a hook", |(hook, _)| hook.name());
        let limit = self.core.shared.settings.hook_timeout;
        RpcError::timeout(
            &format!("{name} of {}", self.core.address),
            limit,
            TimeoutPhase::Sent,
        )
    }

    fn request(&mut self, request: Request) {
        match request {
            Request::Control {
                control: Control::Start,
                answer,
            } => {
                self.starting.push(answer);
                self.step(Event::Control(Control::Start), None);
            }
            Request::Control { control, answer } => {
                self.step(Event::Control(control), Some(answer));
            }
            Request::Abort(cause) => self.step(Event::Abort(cause), None),
        }
    }

    fn step(&mut self, event: Event, mut answer: Option<oneshot::Sender<Result<(), RpcError>>>) {
        let actions = self.machine.step(self.began.elapsed(), event);
        let state = self.machine.state();
        if self.core.state.send_replace(state) != state {
            self.core.tell(state.to_string());
        }
        for action in actions {
            match action {
                // Who asked and went away needs no answer: here and below.
                Action::AcceptControl => {
                    if let Some(answer) = answer.take() {
                        let _ = answer.send(Ok(()));
                    }
                }
                Action::RefuseControl(error) => {
                    if let Some(answer) = answer.take().or_else(|| self.starting.pop()) {
                        let _ = answer.send(Err(error));
                    }
                }
                Action::AnswerStart(result) => {
                    for answer in self.starting.drain(..) {
                        let _ = answer.send(result.clone());
                    }
                }
                Action::SetGate(gate) => {
                    if let Some((refused, error)) = self.core.inbox.set_gate(gate) {
                        for entry in refused {
                            self.core
                                .refuse(entry, error.clone().in_context(&self.core.address));
                        }
                    }
                    self.core.inbox.wake();
                }
                Action::RunHook(hook) => self.run_hook(hook),
                Action::AnswerInFlight(error) => {
                    self.incarnation.end(error.in_context(&self.core.address));
                }
                Action::EndActor => {
                    self.core.inbox.set_actor(None);
                    self.incarnation.kill();
                    // How it ends now is of no interest.
                    self.life = None;
                    self.hook = None;
                    if !self.incarnation.resources.is_empty() {
                        self.closing = Some(Arc::clone(&self.incarnation));
                    }
                }
                Action::Spawn => self.spawn(),
                Action::ArmBackOff(pause) => {
                    tracing::warn!(endpoint = %self.core.address, ?pause, "restarting");
                    self.core.tell(format!("restarting in {pause:?}"));
                    self.back_off_until = Some(Instant::now() + pause);
                }
                Action::Finish(result) => self.finished = Some(result),
            }
        }
    }

    fn run_hook(&mut self, hook: Hook) {
        let limit = self.core.shared.settings.hook_timeout;
        self.hook = Some((hook, far(limit)));
        if let Some(actor) = self.core.inbox.actor() {
            let invocation = Invocation::hook(&self.core, hook, self.incarnation.number);
            #[expect(clippy::disallowed_methods, reason = "one hook at a time")]
            actor.do_send(invocation);
        }
    }

    fn spawn(&mut self) {
        let made = match self.factory.as_mut() {
            Some(factory) => catch_unwind(AssertUnwindSafe(factory)),
            None => return,
        };
        match made {
            Ok(actor) => {
                self.incarnation = Arc::new(Incarnation::new(self.incarnation.number + 1));
                self.core.set_incarnation(Arc::clone(&self.incarnation));
                self.begin_life(actor);
            }
            Err(payload) => {
                let what = format!("the factory of {}", self.core.address);
                let error = panic_error(&what, &*payload);
                // Comes back as an event, so that steps don't nest.
                let _ = self
                    .core
                    .events
                    .send((self.incarnation.number, Event::SpawnFailed(error)));
            }
        }
    }

    fn begin_life(&mut self, actor: A) {
        let mut context = Context::new();
        Turns::begin(&self.core, &self.incarnation, &mut context);
        self.core.inbox.set_actor(Some(context.address()));
        let life = Life::new(context.into_future(actor), Arc::clone(&self.incarnation));
        self.life = Some(tokio::task::spawn_local(life));
    }

    /// Closes what an incarnation has left open, within the limit of a hook.
    async fn close(&mut self, incarnation: &Incarnation) {
        let limit = self.core.shared.settings.hook_timeout;
        let closed = timeout(limit, incarnation.resources.close()).await;
        let closed = closed.unwrap_or_else(|_| {
            let call = format!("closing the resources of {}", self.core.address);
            Err(RpcError::timeout(&call, limit, TimeoutPhase::Sent))
        });
        if let (Some(result), Err(error)) = (&mut self.finished, closed)
            && result.is_ok()
        {
            *result = Err(error);
        }
    }

    fn publish_end(&mut self, result: Result<(), RpcError>) {
        self.is_finished = true;
        if let Err(error) = &result {
            tracing::warn!(endpoint = %self.core.address, %error, "the endpoint has ended");
            self.core.tell(format!("ended: {error}"));
        }
        self.core.shared.table.remove(self.core.address.endpoint());
        let escalates = self.factory.is_some() && result.is_err();
        self.core.termination.send_replace(Some(result));
        if escalates && self.escalation == Escalation::TerminateService {
            self.core.shared.escalate();
        }
    }
}

impl<A: RpcEndpoint> Drop for Supervisor<A> {
    fn drop(&mut self) {
        if !self.is_finished {
            let text = format!("the arbiter of {} has ended", self.core.address);
            self.step(
                Event::Abort(RpcError::new(RpcErrorKind::Stopped, text)),
                None,
            );
            if let Some(incarnation) = self.closing.take() {
                let close = async move { incarnation.resources.close().await };
                self.core.shared.runtime.spawn(close);
            }
            if let Some(result) = self.finished.take() {
                self.publish_end(result);
            }
        }
    }
}

/// Resolves when the actor has ended; never, if there is none.
async fn ended(life: Option<&mut JoinHandle<End>>) -> End {
    match life {
        Some(life) => life.await.unwrap_or(End::Killed),
        None => std::future::pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// `limit` from now, or as good as never.
fn far(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit)
        .unwrap_or_else(|| now + Duration::from_secs(86_400 * 365))
}
