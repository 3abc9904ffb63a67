//! What the worker's instances report, and what the coordinator learns of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::operator::control::{InstanceEvent, Report};
use crate::protocol::{InstanceId, ProgressEvent, Stamp};

use super::super::round::Round;
use super::Machine;

impl Machine {
    pub(super) fn report(&mut self, report: Report) {
        let Report {
            launch,
            stamp,
            event,
        } = report;
        let attempt = self.stamp.attempt;
        let Some(slot) = self.slots.get_mut(&launch) else {
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
                    waiting.remove(&launch);
                }
                self.reset_done();
            }
            InstanceEvent::Failed {
                reason, permanent, ..
            } => {
                slot.answered = true;
                let instance = (*slot.instance).clone();
                self.fail(Some(instance), reason, permanent);
            }
            InstanceEvent::Prepared => self.prepared(launch, stamp.seq),
            InstanceEvent::NothingToWrite { timings } => {
                let instance = Arc::clone(&slot.instance);
                self.prepared(launch, stamp.seq);
                let round = self.round_at(stamp.seq);
                let done = round.and_then(|r| r.durable(launch, &instance, None, None, *timings));
                self.tell_of_round(stamp.seq, done);
            }
            InstanceEvent::Durable {
                object,
                token,
                timings,
            } => {
                // Only what is prepared may begin a round: a cut that was given up stays so.
                let instance = Arc::clone(&slot.instance);
                let round = self.round_at(stamp.seq);
                let done =
                    round.and_then(|r| r.durable(launch, &instance, object, token, *timings));
                self.tell_of_round(stamp.seq, done);
            }
            InstanceEvent::CutFailed { reason } => {
                let instance = (*slot.instance).clone();
                if self.round_at(stamp.seq).is_some() {
                    let event = ProgressEvent::CutFailed { instance, reason };
                    self.tell_of_round(stamp.seq, Some(event));
                }
            }
            InstanceEvent::Committed { seq } => self.committed(seq, Some(launch)),
            InstanceEvent::Ended => {
                if slot.facts.start {
                    let instance = (*slot.instance).clone();
                    self.ended.insert(launch);
                    self.tell(Some(ProgressEvent::Ended { instance }));
                }
            }
            InstanceEvent::CutWanted => {
                let instance = (*slot.instance).clone();
                self.cut_wanted = true;
                self.tell(Some(ProgressEvent::CutWanted { instance }));
            }
            InstanceEvent::ResetWanted { reason } => {
                let instance = (*slot.instance).clone();
                self.tell(Some(ProgressEvent::ResetWanted { instance, reason }));
            }
        }
    }

    pub(super) fn begin_round(&mut self, seq: u64) {
        if self.round.as_ref().is_none_or(|round| round.seq < seq) {
            self.stamp.seq = self.stamp.seq.max(seq);
            let members = self.members();
            if !members.is_empty() {
                self.round = Some(Round::new(seq, members));
            }
        }
    }

    fn prepared(&mut self, launch: u64, seq: u64) {
        self.begin_round(seq);
        let done = self.round_at(seq).and_then(|round| round.prepared(launch));
        self.tell_of_round(seq, done);
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

    pub(super) fn committed(&mut self, seq: u64, launch: Option<u64>) {
        let Some((committing, waiting)) = &mut self.committing else {
            return;
        };
        if *committing != seq {
            return;
        }
        if let Some(launch) = launch {
            waiting.remove(&launch);
        }
        if waiting.is_empty() {
            self.committing = None;
            self.tell(Some(ProgressEvent::Committed { seq }));
        }
    }

    pub(super) fn deaf(&mut self, launch: u64) {
        if let Some(slot) = self.slots.get_mut(&launch) {
            slot.alive = false;
            let instance = (*slot.instance).clone();
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
