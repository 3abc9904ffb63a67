//! What the coordinator tells the worker to do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::manifest::RestorePoint;
use crate::operator::control::Restore;
use crate::protocol::{InstanceId, Notice, Order, Placement, ProgressEvent, Stamp};

use super::{
    ACKNOWLEDGE_AFTER, Action, Machine, OperatorFacts, Registration, Restoring, Slot, shares,
};
use crate::state::Rescale;
use crate::worker::WorkerEnd;

impl Machine {
    pub(super) fn notice(&mut self, now: Duration, notice: Notice) {
        let Registration::Valid { epoch, taken, .. } = &mut self.registration else {
            self.dropped.stale_notices += 1;
            return;
        };
        if notice.worker_epoch != *epoch {
            self.dropped.stale_notices += 1;
        } else if notice.number <= *taken {
            self.dropped.repeated_notices += 1;
        } else if notice.number > *taken + 1 {
            // One before it was lost: the answer to a heartbeat brings both, in order.
            self.dropped.early_notices += 1;
            self.heartbeat_at = now;
        } else {
            *taken = notice.number;
            self.unacknowledged += 1;
            if self.unacknowledged >= ACKNOWLEDGE_AFTER {
                self.heartbeat_at = now;
            }
            self.obey(notice.stamp, notice.order);
        }
    }

    pub(super) fn obey(&mut self, stamp: Stamp, order: Order) {
        if stamp.attempt < self.stamp.attempt || stamp.term < self.stamp.term {
            self.dropped.stale_notices += 1;
            return;
        }
        match order {
            Order::Reset {
                placement,
                restore,
                first_start,
            } => {
                self.reset(stamp, placement, restore, first_start);
            }
            Order::Drain { last, completed } => {
                self.stamp = stamp;
                self.cut_wanted = false;
                self.begin_round(stamp.seq);
                for launch in self.instances_that(|facts| facts.start) {
                    self.actions.push(Action::Drain {
                        launch,
                        stamp,
                        last,
                        completed,
                    });
                }
                if self.members().is_empty() {
                    // Only operators that are not part of the region run here.
                    let (objects, tokens, timings) = (Vec::new(), Vec::new(), Vec::new());
                    let done = ProgressEvent::CheckpointDone {
                        objects,
                        tokens,
                        timings,
                    };
                    self.tell_of_round(stamp.seq, Some(done));
                }
            }
            Order::Resume => {
                self.stamp = stamp;
                let seq = stamp.seq;
                for launch in self.instances_that(|facts| facts.start || facts.permits) {
                    self.actions.push(Action::Resume { launch, seq });
                }
            }
            Order::Abandoned { seq } => {
                self.round.take_if(|round| round.seq <= seq);
                for launch in self.members() {
                    self.actions.push(Action::Abandoned { launch, seq });
                }
            }
            Order::Checkpointed {
                seq,
                oldest_retained,
            } => {
                self.round.take_if(|round| round.seq <= seq);
                self.completed = self.completed.max(seq);
                let members = self.members();
                let order = |&launch: &u64| Action::Checkpointed {
                    launch,
                    seq,
                    oldest_retained,
                };
                self.actions.extend(members.iter().map(order));
                self.committing = Some((seq, members));
                self.committed(seq, None);
            }
            Order::ResetFailed { reason } => {
                tracing::error!(worker = %self.setup.worker, %reason, "the region has failed");
                self.stamp = stamp;
            }
            Order::End => self.finish(WorkerEnd::RegionEnded),
        }
    }

    /// The instances that take part in cuts.
    pub(super) fn members(&self) -> BTreeSet<u64> {
        self.instances_that(|facts| !facts.autonomous)
    }

    pub(super) fn instances_that(&self, are: impl Fn(&OperatorFacts) -> bool) -> BTreeSet<u64> {
        let wanted = self.slots.iter().filter(|(_, slot)| are(&slot.facts));
        wanted.map(|(&launch, _)| launch).collect()
    }

    pub(super) fn reset(
        &mut self,
        stamp: Stamp,
        placement: Placement,
        restore: Option<RestorePoint>,
        first_start: bool,
    ) {
        self.stamp = stamp;
        self.forget_progress();
        self.round = None;
        self.committing = None;
        self.failed = false;
        self.ended.clear();
        self.cut_wanted = false;
        self.completed = restore.as_ref().map_or(0, |restore| restore.seq);
        if let Some(fault) = self.fault_of(&placement, restore.as_ref()) {
            self.resetting = None;
            return self.fail(None, fault, true);
        }
        self.settle(stamp, self.mine(&placement));
        self.resetting = Some(self.slots.keys().copied().collect());
        let restoring = |(&launch, slot): (&u64, &Slot)| {
            let (instance, facts) = (&*slot.instance, &slot.facts);
            let restore = match restore.as_ref() {
                _ if facts.autonomous => Restore::Keep,
                Some(point) => shares::of_cut(instance, facts.width, facts.rescale, point),
                None if first_start => Restore::First,
                None => Restore::Initial,
            };
            Restoring {
                launch,
                instance: instance.clone(),
                restore,
            }
        };
        let restores = self.slots.iter().map(restoring).collect();
        self.actions.push(Action::Reset {
            stamp,
            placement,
            restores,
        });
        self.reset_done();
    }

    /// What no reset could cure, found before any operator is touched (S30, issue 7).
    pub(super) fn fault_of(
        &self,
        placement: &Placement,
        restore: Option<&RestorePoint>,
    ) -> Option<String> {
        for placed in &placement.instances {
            let InstanceId { operator, index } = &placed.instance;
            let known = self.setup.operators.get(operator);
            if known.is_none_or(|facts| *index >= facts.width) {
                return Some(format!(
                    "the graph of this worker has no {}",
                    placed.instance
                ));
            }
        }
        for object in restore.map_or(&[][..], |restore| &restore.objects) {
            let Some(facts) = self.setup.operators.get(&object.instance.operator) else {
                return Some(format!(
                    "the graph of this worker has no {}",
                    object.instance
                ));
            };
            if object.state_type != facts.state_type {
                return Some(format!(
                    "the state of {} is {:?}, its operator reads {:?}",
                    object.instance, object.state_type, facts.state_type
                ));
            }
            let width = restore.and_then(|restore| restore.widths.get(&object.instance.operator));
            if let Some(width) = width
                && *width != facts.width
                && facts.rescale == Rescale::Refused
            {
                return Some(format!(
                    "the state of {} was saved by {width} instances and can't be restored by {}: \
                     the operator does not say how (Operator::RESCALE)",
                    object.instance.operator, facts.width
                ));
            }
            if object.state_version < facts.oldest_state_version {
                return Some(format!(
                    "the state of {} has version {}, its operator reads from {} on",
                    object.instance, object.state_version, facts.oldest_state_version
                ));
            }
            if object.state_version > facts.state_version {
                return Some(format!(
                    "the state of {} has version {}, its operator reads up to {}: it was written \
                     by a newer program",
                    object.instance, object.state_version, facts.state_version
                ));
            }
        }
        None
    }

    pub(super) fn mine(&self, placement: &Placement) -> BTreeSet<InstanceId> {
        let Registration::Valid { epoch, .. } = self.registration else {
            return BTreeSet::new();
        };
        let here = placement
            .instances
            .iter()
            .filter(|placed| placed.worker == self.setup.worker && placed.worker_epoch == epoch);
        here.map(|placed| placed.instance.clone()).collect()
    }

    /// Keeps the instances that are healthy, ends those that are not or are placed elsewhere now,
    /// starts those that are missing.
    pub(super) fn settle(&mut self, stamp: Stamp, mut mine: BTreeSet<InstanceId>) {
        let actions = &mut self.actions;
        self.slots.retain(|&launch, slot| {
            // What is kept is not launched.
            let kept = slot.alive && slot.answered && mine.remove(&*slot.instance);
            slot.answered = false;
            if !kept {
                actions.push(Action::Stop { launch });
            }
            kept
        });
        for instance in mine {
            self.launch(stamp, instance);
        }
    }

    fn launch(&mut self, stamp: Stamp, instance: InstanceId) {
        // That the graph has it was looked at before.
        let Some(facts) = self.setup.operators.get(&instance.operator).cloned() else {
            return;
        };
        self.launches += 1;
        let launch = self.launches;
        let slot = Slot {
            instance: Arc::new(instance.clone()),
            facts,
            alive: true,
            answered: false,
        };
        self.slots.insert(launch, slot);
        self.actions.push(Action::Launch {
            instance,
            launch,
            stamp,
        });
        self.hold_launched(launch);
    }
}
