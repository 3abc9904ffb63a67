//! The actor that carries out what the coordinator's machine decides.

mod messages;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::fut::wrap_future;
use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, SpawnHandle};
use lockkeeper_fencing::clock::{Clock, SystemClock};
use tokio::sync::{broadcast, oneshot, watch};
use tokio::task::spawn_blocking;

#[cfg(feature = "remote")]
pub(super) use self::messages::ForgetEnd;
use self::messages::FromScribe;
pub(super) use self::messages::{Command, CommandKind, Halt, Lead, Revoke};
use super::event::{Action, CommandRefused, Event, RequestId};
use super::handle::CoordinatorEnd;
use super::machine::Machine;
use super::measure::{LOOK, Measure};
use super::publisher::{EnterError, Mandate, Ours, Over, Publisher};
use super::scribe::Scribe;
use super::settings::CoordinatorSettings;
use super::status::{RegionEvent, RegionStatus};
use crate::link::WorkerLink;
use crate::link::local::LocalCoordinator;
use crate::point::Hook;
use crate::protocol::{HeartbeatAnswer, Refusal, Registered};
use crate::store::CheckpointStore;

/// How often the processes of this host are looked at.
const WATCH_PROCESSES: Duration = Duration::from_millis(100);
/// Pause before a term is begun again by itself.
const ENTER_AGAIN: Duration = Duration::from_millis(500);

/// Coordinates a region while it leads; refuses everybody while it does not.
pub struct RegionCoordinator {
    settings: CoordinatorSettings,
    store: Arc<dyn CheckpointStore>,
    hook: Hook,
    /// Requests of workers arrive by it; kept so that the way stays open.
    _way: LocalCoordinator,
    leadership: Leadership,
    term: Option<Term>,
    /// Counts attempts to begin a term: an answer to an older one is ignored.
    entering: u64,
    links: HashMap<String, Arc<dyn WorkerLink>>,
    answers: HashMap<RequestId, Answer>,
    next_request: RequestId,
    timer: Option<SpawnHandle>,
    measure: Measure,
    status: watch::Sender<RegionStatus>,
    events: broadcast::Sender<RegionEvent>,
    ended: watch::Sender<Option<CoordinatorEnd>>,
}

/// Who decides whether this coordinator leads.
#[derive(Clone)]
pub(super) enum Leadership {
    /// Nobody else coordinates: after a term ends a new one begins.
    Alone,
    /// Terms begin and end by [`Lead`] and [`Revoke`]; `may_act` is asked right before every step.
    Elected {
        may_act: Arc<dyn Fn() -> bool + Send + Sync>,
    },
}

struct Term {
    number: u64,
    machine: Machine,
    scribe: Scribe,
}

enum Answer {
    Register(
        oneshot::Sender<Result<Registered, Refusal>>,
        String,
        Arc<dyn WorkerLink>,
    ),
    Heartbeat(oneshot::Sender<Result<HeartbeatAnswer, Refusal>>),
    Progress(oneshot::Sender<Result<(), Refusal>>),
    Command(oneshot::Sender<Result<(), CommandRefused>>),
}

/// What a coordinator is made of.
pub(super) struct Parts {
    pub(super) settings: CoordinatorSettings,
    pub(super) store: Arc<dyn CheckpointStore>,
    pub(super) hook: Hook,
    pub(super) way: LocalCoordinator,
    pub(super) leadership: Leadership,
    pub(super) status: watch::Sender<RegionStatus>,
    pub(super) events: broadcast::Sender<RegionEvent>,
    pub(super) ended: watch::Sender<Option<CoordinatorEnd>>,
}

impl fmt::Debug for RegionCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionCoordinator")
            .field("region", &self.settings.region)
            .field("term", &self.term.as_ref().map(|term| term.number))
            .finish_non_exhaustive()
    }
}

impl RegionCoordinator {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts {
            settings,
            store,
            hook,
            way,
            leadership,
            status,
            events,
            ended,
        } = parts;
        Self {
            measure: Measure::new(&settings.region),
            settings,
            store,
            hook,
            _way: way,
            leadership,
            term: None,
            entering: 0,
            links: HashMap::new(),
            answers: HashMap::new(),
            next_request: 0,
            timer: None,
            status,
            events,
            ended,
        }
    }

    fn enter(&mut self, mandate: Mandate, ctx: &mut Context<Self>) {
        self.leave();
        self.entering += 1;
        let entering = self.entering;
        let ours = Ours {
            region: self.settings.region.clone(),
            graph: self.settings.shape.fingerprint,
            structure: self.settings.shape.structure,
        };
        let (store, hook) = (Arc::clone(&self.store), self.hook.clone());
        let enter = spawn_blocking(move || Publisher::enter(store, mandate, &ours, hook));
        ctx.spawn(
            wrap_future(enter).map(move |entered, actor: &mut Self, ctx| {
                if actor.entering != entering {
                    return;
                }
                match entered {
                    Ok(Ok((publisher, number, beginning))) => {
                        let settings = actor.settings.clone();
                        let (machine, actions) = Machine::open(now(), settings, number, beginning);
                        actor.begin(number, machine, publisher, ctx);
                        actor.carry_out(actions, ctx);
                    }
                    Ok(Err(error)) => actor.not_entered(&error, ctx),
                    Err(error) => {
                        tracing::error!(%error, "beginning a term failed");
                        actor.over(Over::Unknown(error.to_string()), ctx);
                    }
                }
            }),
        );
    }

    fn begin(
        &mut self,
        number: u64,
        machine: Machine,
        publisher: Publisher,
        ctx: &mut Context<Self>,
    ) {
        tracing::info!(region = self.settings.region, term = number, "coordinating");
        let address = ctx.address();
        let (scribe, work) = Scribe::new(publisher, move |written| {
            let address = address.clone();
            async move {
                // An actor that has stopped has no use for it.
                let _ = address
                    .send(FromScribe {
                        term: number,
                        written,
                    })
                    .await;
            }
        });
        ctx.spawn(wrap_future(work));
        self.measure.leads(number);
        self.term = Some(Term {
            number,
            machine,
            scribe,
        });
    }

    fn not_entered(&mut self, error: &EnterError, ctx: &mut Context<Self>) {
        tracing::warn!(%error, region = self.settings.region, "can't coordinate");
        let _ = self.events.send(RegionEvent::StoreFailed {
            reason: error.to_string(),
        });
        match error {
            EnterError::SteppedDown { highest } => {
                self.over(Over::SteppedDown { highest: *highest }, ctx);
            }
            error if error.is_retryable() => self.over(Over::Unknown(error.to_string()), ctx),
            error => self.end(CoordinatorEnd::Unusable(error.to_string()), ctx),
        }
    }

    /// The term is over, and it was not this coordinator that wanted it.
    fn over(&mut self, over: Over, ctx: &mut Context<Self>) {
        tracing::warn!(
            region = self.settings.region,
            ?over,
            "no longer coordinating"
        );
        self.leave();
        match &self.leadership {
            Leadership::Alone => {
                ctx.run_later(ENTER_AGAIN, |actor, ctx| {
                    if actor.term.is_none() {
                        actor.enter(Mandate::Alone, ctx);
                    }
                });
            }
            Leadership::Elected { .. } => {
                let end = match over {
                    Over::SteppedDown { highest } => CoordinatorEnd::SteppedDown { highest },
                    Over::Unknown(reason) => CoordinatorEnd::StoreFailed(reason),
                };
                self.ended.send_replace(Some(end));
            }
        }
    }

    fn leave(&mut self) {
        self.term = None;
        self.measure.left();
        self.entering += 1;
        self.answers.clear();
        self.links.clear();
    }

    fn end(&mut self, end: CoordinatorEnd, ctx: &mut Context<Self>) {
        self.leave();
        self.ended.send_replace(Some(end));
        ctx.stop();
    }

    /// A leader may act only until its own deadline, which is looked at right here.
    fn may_act(&self) -> bool {
        match &self.leadership {
            Leadership::Alone => true,
            Leadership::Elected { may_act } => may_act(),
        }
    }

    fn step(&mut self, event: Event, ctx: &mut Context<Self>) {
        if self.term.is_some() && !self.may_act() {
            self.refuse_everybody();
            self.leave();
            self.ended
                .send_replace(Some(CoordinatorEnd::DeadlinePassed));
            return;
        }
        let Some(term) = &mut self.term else {
            return self.refuse_everybody();
        };
        let actions = term.machine.step(now(), event);
        self.carry_out(actions, ctx);
    }

    /// Whoever waits for an answer is told that this is no leader.
    fn refuse_everybody(&mut self) {
        for (_, answer) in self.answers.drain() {
            answer.refuse();
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>, ctx: &mut Context<Self>) {
        for action in actions {
            match action {
                Action::AnswerRegister { request, answer } => {
                    let waiting = self.answers.remove(&request);
                    if let Some(Answer::Register(waiting, worker, link)) = waiting {
                        if answer.is_ok() {
                            self.links.insert(worker, link);
                        }
                        let _ = waiting.send(answer);
                    }
                }
                Action::AnswerHeartbeat { request, answer } => {
                    if let Some(Answer::Heartbeat(waiting)) = self.answers.remove(&request) {
                        let _ = waiting.send(answer);
                    }
                }
                Action::AnswerProgress { request, answer } => {
                    if let Some(Answer::Progress(waiting)) = self.answers.remove(&request) {
                        let _ = waiting.send(answer);
                    }
                }
                Action::AnswerCommand { request, answer } => {
                    if let Some(Answer::Command(waiting)) = self.answers.remove(&request) {
                        let _ = waiting.send(answer);
                    }
                }
                Action::Push { worker, notice } => {
                    if let Some(link) = self.links.get(&worker) {
                        link.push(notice);
                    }
                }
                Action::Tell(event) => self.tell(event),
                Action::Append(_)
                | Action::ChooseRestorePoint { .. }
                | Action::KeepSavepoint { .. }
                | Action::FindSavepoint { .. }
                | Action::RemoveSavepoint { .. }
                | Action::Tidy { .. } => {
                    let taken = self
                        .term
                        .as_ref()
                        .is_some_and(|term| term.scribe.wish(action));
                    if !taken {
                        let reason = "the store takes no more wishes".to_owned();
                        return self.over(Over::Unknown(reason), ctx);
                    }
                }
            }
        }
        self.show();
        self.set_timer(ctx);
    }

    fn tell(&mut self, event: RegionEvent) {
        self.measure.told(&event);
        let region = &self.settings.region;
        match &event {
            RegionEvent::State { from, to, reason } => {
                tracing::info!(region, ?from, ?to, reason, "state");
            }
            RegionEvent::CutCompleted(cut) => {
                tracing::info!(region, seq = cut.seq, took = ?cut.took, "cut completed");
            }
            RegionEvent::NoCut { since, state } => {
                tracing::warn!(region, ?since, ?state, "no cut has completed for long");
            }
            other => tracing::info!(region, ?other, "event"),
        }
        // Nobody listens: nobody is told.
        let _ = self.events.send(event);
    }

    fn show(&mut self) {
        let Some(term) = &self.term else { return };
        let status = term.machine.status();
        self.measure.show(&status);
        self.status.send_if_modified(|shown| {
            let news = *shown != status;
            *shown = status;
            news
        });
    }

    fn set_timer(&mut self, ctx: &mut Context<Self>) {
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        let deadline = self
            .term
            .as_ref()
            .and_then(|term| term.machine.next_deadline());
        if let Some(deadline) = deadline {
            let wait = deadline.saturating_sub(now());
            self.timer = Some(ctx.run_later(wait, |actor, ctx| {
                actor.timer = None;
                actor.step(Event::Tick, ctx);
            }));
        }
    }

    fn watch_processes(&mut self, ctx: &mut Context<Self>) {
        let Some(term) = &self.term else { return };
        let gone = term
            .machine
            .processes()
            .into_iter()
            .filter(|(.., process)| process.is_gone());
        for (worker, worker_epoch, _) in gone.collect::<Vec<_>>() {
            self.step(
                Event::ProcessGone {
                    worker,
                    worker_epoch,
                },
                ctx,
            );
        }
    }

    fn ask(&mut self, answer: Answer) -> RequestId {
        self.next_request += 1;
        self.answers.insert(self.next_request, answer);
        self.next_request
    }
}

impl Answer {
    fn refuse(self) {
        match self {
            Self::Register(waiting, ..) => drop(waiting.send(Err(Refusal::NotLeading))),
            Self::Heartbeat(waiting) => drop(waiting.send(Err(Refusal::NotLeading))),
            Self::Progress(waiting) => drop(waiting.send(Err(Refusal::NotLeading))),
            Self::Command(waiting) => drop(waiting.send(Err(CommandRefused::NotLeading))),
        }
    }
}

fn now() -> Duration {
    SystemClock.now().elapsed()
}

impl Actor for RegionCoordinator {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(WATCH_PROCESSES, Self::watch_processes);
        ctx.run_interval(LOOK, |actor, _| actor.measure.look());
        if matches!(self.leadership, Leadership::Alone) {
            self.enter(Mandate::Alone, ctx);
        }
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.leave();
        self.ended.send_if_modified(|ended| {
            let news = ended.is_none();
            ended.get_or_insert(CoordinatorEnd::Stopped);
            news
        });
    }
}
