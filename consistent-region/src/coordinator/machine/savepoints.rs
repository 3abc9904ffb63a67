//! Cuts that are kept under a name, and the way back to them.

use super::{Action, Machine, Moment, RequestId, State};
use crate::coordinator::event::CommandRefused;
use crate::coordinator::record::Retained;
use crate::coordinator::status::RegionEvent;
use crate::graph::topology::check_name;

/// A savepoint that is asked for.
#[derive(Debug)]
pub(super) struct Savepoint {
    request: RequestId,
    name: String,
}

impl Machine {
    pub(super) fn savepoint_requested(
        &mut self,
        now: Moment,
        request: RequestId,
        name: String,
        stop: bool,
    ) {
        let allowed = self.may_command().and_then(|()| match check_name(&name) {
            Err(_) => Err(CommandRefused::BadName { name: name.clone() }),
            Ok(()) => match self.savepoint_under_way() {
                Some(Savepoint { name, .. }) => Err(CommandRefused::Busy { name: name.clone() }),
                None => Ok(()),
            },
        });
        if let Err(refused) = allowed {
            return self.answer(request, Err(refused));
        }
        self.wishes.savepoint = Some(Savepoint { request, name });
        self.wishes.stop |= stop;
        self.grant_wishes(now);
    }

    fn savepoint_under_way(&self) -> Option<&Savepoint> {
        let of_round = match &self.state {
            State::Round(round) => round.savepoint.as_ref(),
            _ => None,
        };
        self.wishes.savepoint.as_ref().or(of_round)
    }

    /// The cut of a round that was to be kept is complete: in the log, before anything is tidied.
    pub(super) fn keep_savepoint(&mut self, savepoint: Option<Savepoint>, cut: Retained) {
        if let Some(Savepoint { request, name }) = savepoint {
            self.actions
                .push(Action::KeepSavepoint { request, name, cut });
        }
    }

    /// The region has failed: nobody waits any longer.
    pub(super) fn refuse_savepoint(&mut self, reason: &str) {
        if let Some(Savepoint { request, .. }) = self.wishes.savepoint.take() {
            let reason = reason.to_owned();
            self.answer(request, Err(CommandRefused::Failed { reason }));
        }
    }

    pub(super) fn restore_requested(&mut self, request: RequestId, name: String) {
        match self.may_restore() {
            Ok(()) => self.actions.push(Action::FindSavepoint { request, name }),
            Err(refused) => self.answer(request, Err(refused)),
        }
    }

    /// A failed region may be taken back to a savepoint.
    fn may_restore(&self) -> Result<(), CommandRefused> {
        match self.may_command() {
            Err(CommandRefused::Failed { .. }) => Ok(()),
            other => other,
        }
    }

    pub(super) fn savepoint_found(
        &mut self,
        now: Moment,
        request: RequestId,
        name: String,
        outcome: Result<u64, CommandRefused>,
    ) {
        let answer = self.may_restore().and(outcome).and_then(|savepoint| {
            let committed = self.record.completed;
            if self.record.irrevocable && savepoint < committed {
                return Err(CommandRefused::CannotTakeBack {
                    savepoint,
                    committed,
                });
            }
            let acknowledged = self.record.acked_through;
            if savepoint < acknowledged {
                return Err(CommandRefused::SourceMovedOn {
                    savepoint,
                    acknowledged,
                });
            }
            let reason = format!("back to savepoint {name}");
            self.wishes.restore = Some(name);
            self.reset_requested(now, true, reason)
        });
        self.answer(request, answer);
    }

    pub(super) fn answer(&mut self, request: RequestId, answer: Result<(), CommandRefused>) {
        self.actions.push(Action::AnswerCommand { request, answer });
    }

    /// What a savepoint holds becomes the newest cut: its manifest is written to the log anew.
    pub(super) fn take_up(&mut self, manifest: crate::manifest::Manifest) -> u64 {
        let seq = manifest.seq;
        let number = self.record.number + 1;
        self.wishes.restore = None;
        self.record.completed = seq;
        self.record.highest = self.record.highest.max(seq + 1);
        self.record.next_cut = self.record.highest;
        self.seq = self.record.highest;
        self.record.initial_state_retained = false;
        if self.settings.shape.acknowledges() {
            self.record.acked_through = self.record.acked_through.max(seq);
        }
        self.record.retained = vec![Retained {
            seq,
            entry: number,
            term: self.term,
        }];
        self.tell(RegionEvent::SavepointRestored { seq });
        self.append_entry(Some(manifest));
        number
    }
}
