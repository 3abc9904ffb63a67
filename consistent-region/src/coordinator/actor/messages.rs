//! What the coordinator's actor is told, by its owner, by workers and by the store.

use actix::{Handler, Message, StreamHandler};
use lockkeeper_core::status::now_unix_ms;
use tokio::sync::oneshot;

use super::{Answer, RegionCoordinator};
use crate::coordinator::event::{CommandRefused, Event};
use crate::coordinator::handle::CoordinatorEnd;
use crate::coordinator::publisher::Mandate;
use crate::coordinator::scribe::Written;
use crate::link::local::CoordinatorRequest;

/// Begin a term.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct Lead(pub(in crate::coordinator) Mandate);

/// The leadership is over.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct Revoke;

/// The end of the last term has been dealt with.
#[cfg(feature = "remote")]
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct ForgetEnd;

/// Stop the actor.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct Halt;

#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct FromScribe {
    pub(super) term: u64,
    pub(super) written: Written,
}

/// What an operator of the system wants.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::coordinator) struct Command {
    pub(in crate::coordinator) kind: CommandKind,
    pub(in crate::coordinator) answer: oneshot::Sender<Result<(), CommandRefused>>,
}

pub(in crate::coordinator) enum CommandKind {
    Cut,
    Stop,
    PauseSources,
    ResumeSources,
    Reset { force: bool, reason: String },
    Savepoint { name: String, stop: bool },
    Restore { name: String },
    ForgetSavepoint { name: String },
}

impl StreamHandler<CoordinatorRequest> for RegionCoordinator {
    fn handle(&mut self, request: CoordinatorRequest, ctx: &mut Self::Context) {
        let event = match request {
            CoordinatorRequest::Register {
                register,
                link,
                answer,
            } => {
                let worker = register.worker.clone();
                let request = self.ask(Answer::Register(answer, worker, link));
                Event::Register { request, register }
            }
            CoordinatorRequest::Heartbeat { heartbeat, answer } => {
                let request = self.ask(Answer::Heartbeat(answer));
                Event::Heartbeat { request, heartbeat }
            }
            CoordinatorRequest::Progress { progress, answer } => {
                let request = self.ask(Answer::Progress(answer));
                Event::Progress { request, progress }
            }
        };
        self.step(event, ctx);
    }
}

impl Handler<Command> for RegionCoordinator {
    type Result = ();

    fn handle(&mut self, Command { kind, answer }: Command, ctx: &mut Self::Context) {
        let request = self.ask(Answer::Command(answer));
        let event = match kind {
            CommandKind::Cut => Event::CutRequested { request },
            CommandKind::Stop => Event::StopRequested { request },
            CommandKind::PauseSources => Event::PauseRequested {
                request,
                at_unix_ms: now_unix_ms(),
            },
            CommandKind::ResumeSources => Event::ResumeRequested { request },
            CommandKind::Reset { force, reason } => Event::ResetRequested {
                request,
                force,
                reason,
            },
            CommandKind::Savepoint { name, stop } => Event::SavepointRequested {
                request,
                name,
                stop,
            },
            CommandKind::Restore { name } => Event::RestoreRequested { request, name },
            CommandKind::ForgetSavepoint { name } => {
                Event::ForgetSavepointRequested { request, name }
            }
        };
        self.step(event, ctx);
    }
}

impl Handler<Lead> for RegionCoordinator {
    type Result = ();

    fn handle(&mut self, Lead(mandate): Lead, ctx: &mut Self::Context) {
        self.ended.send_replace(None);
        self.enter(mandate, ctx);
    }
}

impl Handler<Revoke> for RegionCoordinator {
    type Result = ();

    fn handle(&mut self, _: Revoke, _: &mut Self::Context) {
        self.refuse_everybody();
        self.leave();
    }
}

#[cfg(feature = "remote")]
impl Handler<ForgetEnd> for RegionCoordinator {
    type Result = ();

    fn handle(&mut self, _: ForgetEnd, _: &mut Self::Context) {
        self.ended.send_replace(None);
    }
}

impl Handler<Halt> for RegionCoordinator {
    type Result = ();

    fn handle(&mut self, _: Halt, ctx: &mut Self::Context) {
        self.end(CoordinatorEnd::Stopped, ctx);
    }
}

impl Handler<FromScribe> for RegionCoordinator {
    type Result = ();

    fn handle(&mut self, FromScribe { term, written }: FromScribe, ctx: &mut Self::Context) {
        if self
            .term
            .as_ref()
            .is_none_or(|current| current.number != term)
        {
            return;
        }
        match written {
            Written::Event(event) => self.step(*event, ctx),
            Written::Nothing => {}
            Written::Over(over) => self.over(over, ctx),
        }
    }
}
