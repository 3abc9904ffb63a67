//! What the worker's instances report, and what the coordinator learns of it.

use std::collections::BTreeSet;

use crate::operator::control::{InstanceEvent, Report};
use crate::protocol::{InstanceId, ProgressEvent, Stamp};

use super::super::round::Round;
use super::Machine;

impl Machine {
    pub(super) fn report(&mut self, report: Report) {
        let Report {
            instance,
            launch,
            stamp,
            event,
        } = report;
        let attempt = self.stamp.attempt;
        let slot = self
            .slots
            .get_mut(&instance)
            .filter(|slot| slot.launch == launch);
        let Some(slot) = slot else {
            self.dropped.stale_reports += 1;
            return;
        };
        if let InstanceEvent::Failed { alive, .. } = &event {
            slot.alive &= *alive;
        }
        let wish = matches!(
            event,
            InstanceEvent::CutWanted | InstanceEvent::ResetWanted { .. }
        );
        if stamp.attempt != attempt && !wish && slot.alive {
            self.dropped.stale_reports += 1;
            return;
        }
        match event {
            InstanceEvent::ResetDone => {
                slot.answered = true;
                if let Some(waiting) = &mut self.resetting {
                    waiting.remove(&instance);
                }
                self.reset_done();
            }
            InstanceEvent::Failed {
                reason, permanent, ..
            } => {
                slot.answered = true;
                self.fail(Some(instance), reason, permanent);
            }
            InstanceEvent::Prepared { .. } => {
                self.begin_round(stamp.seq);
                let done = self
                    .round_at(stamp.seq)
                    .and_then(|round| round.prepared(&instance));
                self.tell_of_round(stamp.seq, done);
            }
            InstanceEvent::Durable {
                object,
                token,
                timings,
            } => {
                let round = self.round_at(stamp.seq);
                let done = round.and_then(|r| r.durable(&instance, object, token, *timings));
                self.tell_of_round(stamp.seq, done);
            }
            InstanceEvent::CutFailed { reason } => {
                if self.round_at(stamp.seq).is_some() {
                    let event = ProgressEvent::CutFailed { instance, reason };
                    self.tell_of_round(stamp.seq, Some(event));
                }
            }
            InstanceEvent::Committed { seq } => self.committed(seq, Some(&instance)),
            InstanceEvent::Ended => {
                let operators = &self.setup.operators;
                if operators
                    .get(&instance.operator)
                    .is_some_and(|facts| facts.start)
                {
                    self.ended.insert(instance.clone());
                    self.tell(Some(ProgressEvent::Ended { instance }));
                }
            }
            InstanceEvent::CutWanted => {
                self.cut_wanted = true;
                self.tell(Some(ProgressEvent::CutWanted { instance }));
            }
            InstanceEvent::ResetWanted { reason } => {
                self.tell(Some(ProgressEvent::ResetWanted { instance, reason }));
            }
        }
    }

    pub(super) fn begin_round(&mut self, seq: u64) {
        if self.round.as_ref().is_none_or(|round| round.seq < seq) {
            self.stamp.seq = self.stamp.seq.max(seq);
            let members = self.members();
            if !members.is_empty() {
                self.round = Some(Round::new(seq, members.into_iter()));
            }
        }
    }

    pub(super) fn round_at(&mut self, seq: u64) -> Option<&mut Round> {
        self.round.as_mut().filter(|round| round.seq == seq)
    }

    pub(super) fn reset_done(&mut self) {
        if !self.failed && self.resetting.as_ref().is_some_and(BTreeSet::is_empty) {
            self.resetting = None;
            self.tell(Some(ProgressEvent::ResetDone));
        }
    }

    pub(super) fn committed(&mut self, seq: u64, instance: Option<&InstanceId>) {
        let Some((committing, waiting)) = &mut self.committing else {
            return;
        };
        if *committing != seq {
            return;
        }
        if let Some(instance) = instance {
            waiting.remove(instance);
        }
        if waiting.is_empty() {
            self.committing = None;
            self.tell(Some(ProgressEvent::Committed { seq }));
        }
    }

    pub(super) fn deaf(&mut self, instance: InstanceId) {
        if let Some(slot) = self.slots.get_mut(&instance) {
            slot.alive = false;
            let reason = "it does not take its orders: its actor waits or has stopped".to_owned();
            self.fail(Some(instance), reason, false);
        }
    }

    pub(super) fn fail(&mut self, instance: Option<InstanceId>, reason: String, permanent: bool) {
        self.failed = true;
        self.round = None;
        self.tell(Some(ProgressEvent::Failed {
            instance,
            reason,
            permanent,
        }));
    }

    /// Tuples may belong to the next cut already while this one is still being written.
    pub(super) fn tell_of_round(&mut self, seq: u64, event: Option<ProgressEvent>) {
        let stamp = Stamp { seq, ..self.stamp };
        self.outbox.extend(event.map(|event| (stamp, event)));
    }

    pub(super) fn tell(&mut self, event: Option<ProgressEvent>) {
        self.outbox.extend(event.map(|event| (self.stamp, event)));
    }
}
