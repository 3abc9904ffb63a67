//! The life cycle of an endpoint as a pure state machine: no actor, clock or thread.
//!
//! | | Start | Stop | Terminate |
//! |---|---|---|---|
//! | STOPPED, never started | `on_start` → STARTED | nothing | → TERMINATED, `on_stop` is not called |
//! | STOPPED, started before | `on_resume` → STARTED | nothing | `on_stop` → TERMINATED |
//! | STARTED | nothing | → STOPPED | `on_stop` → TERMINATED |
//! | TERMINATING | refused | refused | nothing |
//! | TERMINATED | refused | refused | nothing |
//!
//! What calls get is said by the [`Gate`]: refused with `NotStarted` while STOPPED, held while
//! `on_start` or `on_resume` runs and between two incarnations, served while STARTED and,
//! if it was STARTED before, while TERMINATING, refused with `Stopped` when TERMINATED.
//!
//! Differences from Flink, on purpose: an invalid transition is an error for the one who asked and
//! harms nobody else (E2); START after STOP calls `on_resume`, not `on_start` (E9); `on_stop` runs
//! exactly if `on_start` did.

use std::time::Duration;

use super::restart::{Failure, RestartBudget, RestartVerdict};
use crate::error::{RpcError, RpcErrorKind};

/// The four states that users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointState {
    /// Not started, or stopped; also while `on_start` or `on_resume` runs.
    Stopped,
    /// Serves calls.
    Started,
    /// `on_stop` runs; calls are still served.
    Terminating,
    /// Ended, for good.
    Terminated,
}

impl std::fmt::Display for EndpointState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stopped => "STOPPED",
            Self::Started => "STARTED",
            Self::Terminating => "TERMINATING",
            Self::Terminated => "TERMINATED",
        })
    }
}

/// What an endpoint can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Begin, or go on, to serve calls.
    Start,
    /// Serve no calls until started again.
    Stop,
    /// End.
    Terminate,
}

/// The user's hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Start,
    Resume,
    Stop,
}

impl Hook {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Start => "on_start",
            Self::Resume => "on_resume",
            Self::Stop => "on_stop",
        }
    }
}

/// What happens to calls that arrive and calls that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Refuse with `NotStarted`.
    Refuse,
    /// Let them wait.
    Hold,
    /// Serve them.
    Open,
    /// Refuse with this error, for good.
    Closed(RpcError),
}

/// What the machine is told.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Control(Control),
    /// The running hook ended.
    HookDone(Result<(), RpcError>),
    /// This incarnation of the actor is over, or must be.
    Failed(Failure),
    /// The pause before a restart is over.
    BackOffOver,
    /// The new incarnation could not be made.
    SpawnFailed(RpcError),
    /// End at once, without `on_stop`.
    Abort(RpcError),
}

/// What the shell has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    SetGate(Gate),
    RunHook(Hook),
    /// Answers those who asked to start.
    AnswerStart(Result<(), RpcError>),
    /// Refuses the control message in hand.
    RefuseControl(RpcError),
    /// Accepts the control message in hand.
    AcceptControl,
    /// Answers every call that has begun.
    AnswerInFlight(RpcError),
    /// Ends the actor, if it lives.
    EndActor,
    /// Makes a new incarnation.
    Spawn,
    ArmBackOff(Duration),
    /// Frees the name and resolves the termination future. The last action ever.
    Finish(Result<(), RpcError>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Stopped,
    /// `on_start` or `on_resume` runs. `then` is what was asked meanwhile.
    Starting {
        first: bool,
        then: Option<Control>,
    },
    Started,
    Terminating,
    /// Between two incarnations.
    BackingOff {
        serve: bool,
    },
    Terminated,
}

/// The machine. Feed it events, carry out its actions.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: Phase,
    /// `on_start` succeeded on the present incarnation and `on_stop` is owed.
    was_started: bool,
    /// There for supervised endpoints: how many failures may still lead to a restart.
    budget: Option<RestartBudget>,
}

impl Lifecycle {
    /// A machine in STOPPED; `budget` is there for supervised endpoints.
    pub(crate) fn new(budget: Option<RestartBudget>) -> Self {
        Self {
            phase: Phase::Stopped,
            was_started: false,
            budget,
        }
    }

    /// The state that users see.
    pub(crate) fn state(&self) -> EndpointState {
        match self.phase {
            Phase::Stopped | Phase::Starting { .. } => EndpointState::Stopped,
            Phase::BackingOff { serve: false } => EndpointState::Stopped,
            Phase::Started | Phase::BackingOff { serve: true } => EndpointState::Started,
            Phase::Terminating => EndpointState::Terminating,
            Phase::Terminated => EndpointState::Terminated,
        }
    }

    /// Takes an event at `now` (time since any fixed point).
    pub(crate) fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        match event {
            Event::Control(control) => self.control(control),
            Event::HookDone(result) => self.hook_done(now, result),
            Event::Failed(failure) => self.failed(now, failure),
            Event::BackOffOver => self.back_off_over(),
            Event::SpawnFailed(error) => self.failed(now, Failure::Panic(error)),
            Event::Abort(cause) => match self.phase {
                Phase::Terminated => Vec::new(),
                _ => self.end(Err(cause)),
            },
        }
    }

    fn control(&mut self, control: Control) -> Vec<Action> {
        match (&mut self.phase, control) {
            (Phase::Stopped, Control::Start) => {
                let hook = if self.was_started {
                    Hook::Resume
                } else {
                    Hook::Start
                };
                self.phase = Phase::Starting {
                    first: true,
                    then: None,
                };
                vec![Action::SetGate(Gate::Hold), Action::RunHook(hook)]
            }
            (Phase::Starting { then, .. }, Control::Start) => {
                if *then == Some(Control::Stop) {
                    *then = None;
                }
                Vec::new()
            }
            (Phase::Starting { then, .. }, Control::Stop) => {
                if then.is_none() {
                    *then = Some(Control::Stop);
                }
                vec![Action::AcceptControl]
            }
            (Phase::Starting { then, .. }, Control::Terminate) => {
                *then = Some(Control::Terminate);
                vec![Action::AcceptControl]
            }
            (Phase::Started, Control::Start) => vec![Action::AnswerStart(Ok(()))],
            (Phase::Stopped, Control::Stop) => vec![Action::AcceptControl],
            (Phase::Started, Control::Stop) => {
                self.phase = Phase::Stopped;
                vec![Action::SetGate(Gate::Refuse), Action::AcceptControl]
            }
            (Phase::Stopped | Phase::Started, Control::Terminate) => {
                let mut actions = vec![Action::AcceptControl];
                actions.extend(self.begin_stop());
                actions
            }
            (Phase::BackingOff { serve }, Control::Start) => {
                *serve = true;
                vec![Action::SetGate(Gate::Hold)]
            }
            (Phase::BackingOff { serve }, Control::Stop) => {
                *serve = false;
                vec![Action::SetGate(Gate::Refuse), Action::AcceptControl]
            }
            (Phase::BackingOff { .. }, Control::Terminate) => {
                let mut actions = vec![Action::AcceptControl];
                actions.extend(self.end(Ok(())));
                actions
            }
            (Phase::Terminating | Phase::Terminated, Control::Terminate) => {
                vec![Action::AcceptControl]
            }
            (Phase::Terminating | Phase::Terminated, Control::Start | Control::Stop) => {
                vec![Action::RefuseControl(RpcError::new(
                    RpcErrorKind::InvalidState,
                    format!("an endpoint that is {} takes no {control:?}", self.state()),
                ))]
            }
        }
    }

    /// `on_stop` if it is owed, else the end.
    fn begin_stop(&mut self) -> Vec<Action> {
        if self.was_started {
            self.phase = Phase::Terminating;
            // The gate stays as it is: a started endpoint goes on to serve, a stopped to refuse.
            vec![Action::RunHook(Hook::Stop)]
        } else {
            self.end(Ok(()))
        }
    }

    fn hook_done(&mut self, now: Duration, result: Result<(), RpcError>) -> Vec<Action> {
        match (self.phase.clone(), result) {
            (Phase::Starting { then, .. }, Ok(())) => {
                self.was_started = true;
                let mut actions = vec![Action::AnswerStart(Ok(()))];
                match then {
                    Some(Control::Stop) => {
                        self.phase = Phase::Stopped;
                        actions.push(Action::SetGate(Gate::Refuse));
                    }
                    Some(Control::Terminate) => actions.extend(self.begin_stop()),
                    Some(Control::Start) | None => {
                        self.phase = Phase::Started;
                        actions.insert(0, Action::SetGate(Gate::Open));
                    }
                }
                actions
            }
            // The first start fails fast: its cause is rarely one that time heals.
            (Phase::Starting { first: true, .. }, Err(error)) => self.end(Err(error)),
            (Phase::Starting { first: false, .. }, Err(error)) => {
                self.failed(now, Failure::Panic(error))
            }
            (Phase::Terminating, result) => self.end(result),
            (Phase::Stopped | Phase::Started | Phase::BackingOff { .. } | Phase::Terminated, _) => {
                Vec::new()
            }
        }
    }

    fn failed(&mut self, now: Duration, failure: Failure) -> Vec<Action> {
        let serve = match self.phase {
            Phase::Terminated => return Vec::new(),
            Phase::Terminating
            | Phase::Starting { first: true, .. }
            | Phase::Starting {
                then: Some(Control::Terminate),
                ..
            } => {
                return self.end(Err(failure.into_cause()));
            }
            Phase::Stopped
            | Phase::Starting {
                then: Some(Control::Stop),
                ..
            } => false,
            Phase::BackingOff { serve } => serve,
            Phase::Started | Phase::Starting { .. } => true,
        };
        let verdict = self.budget.as_mut().map(|budget| match failure {
            Failure::StoppedItself => RestartVerdict::GiveUp("not restarted".into()),
            Failure::Panic(_) => budget.failed(now),
        });
        match verdict {
            Some(RestartVerdict::RestartAfter(pause)) => {
                self.was_started = false;
                self.phase = Phase::BackingOff { serve };
                let cause = failure.into_cause();
                let gate = if serve { Gate::Hold } else { Gate::Refuse };
                vec![
                    Action::SetGate(gate),
                    Action::EndActor,
                    Action::AnswerInFlight(RpcError::new(
                        RpcErrorKind::Restarted,
                        format!("the endpoint was restarted with the call in flight: {cause}"),
                    )),
                    Action::ArmBackOff(pause),
                ]
            }
            Some(RestartVerdict::GiveUp(text)) => {
                let cause = failure.into_cause();
                self.end(Err(cause.in_context(text)))
            }
            None => self.end(Err(failure.into_cause())),
        }
    }

    fn back_off_over(&mut self) -> Vec<Action> {
        match self.phase {
            Phase::BackingOff { serve: true } => {
                self.phase = Phase::Starting {
                    first: false,
                    then: None,
                };
                vec![Action::Spawn, Action::RunHook(Hook::Start)]
            }
            Phase::BackingOff { serve: false } => {
                self.phase = Phase::Stopped;
                vec![Action::Spawn]
            }
            _ => Vec::new(),
        }
    }

    fn end(&mut self, result: Result<(), RpcError>) -> Vec<Action> {
        self.phase = Phase::Terminated;
        self.was_started = false;
        let closed = RpcError::new(
            RpcErrorKind::Stopped,
            match &result {
                Ok(()) => "the endpoint was terminated".to_owned(),
                Err(cause) => format!("the endpoint has ended: {cause}"),
            },
        );
        let in_flight = match &result {
            Err(cause) if cause.kind() == RpcErrorKind::Panicked => cause.clone(),
            _ => closed.clone(),
        };
        let start = result.clone().and_then(|()| Err(closed.clone()));
        vec![
            Action::SetGate(Gate::Closed(closed)),
            Action::EndActor,
            Action::AnswerInFlight(in_flight.with_outcome(crate::error::Outcome::Unknown)),
            Action::AnswerStart(start),
            Action::Finish(result),
        ]
    }
}

#[cfg(test)]
mod tests;
