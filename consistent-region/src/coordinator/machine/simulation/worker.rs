//! A worker that keeps the protocol, as simply as can be.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use crate::protocol::{InstanceId, Order, Progress, ProgressEvent, Register, Stamp, Standing};

/// What its instances are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Resetting,
    Running,
    Round { seq: u64 },
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) name: String,
    /// Counts processes; a dead one has none that runs.
    pub(super) life: u64,
    pub(super) alive: bool,
    /// Stopped: takes nothing, looks at nothing.
    pub(super) stopped: bool,
    pub(super) registration: u64,
    /// Term and worker epoch.
    pub(super) registered: Option<(u64, u64)>,
    pub(super) lease_until: Duration,
    pub(super) taken: u64,
    pub(super) stamp: Stamp,
    pub(super) completed: u64,
    pub(super) instances: BTreeSet<InstanceId>,
    pub(super) phase: Phase,
    /// Said again until it is taken.
    pub(super) unsaid: Vec<Progress>,
    pub(super) ended: bool,
}

impl Worker {
    pub(super) fn new(index: usize) -> Self {
        Self {
            name: format!("w{index}"),
            life: 1,
            alive: true,
            stopped: false,
            registration: 0,
            registered: None,
            lease_until: Duration::ZERO,
            taken: 0,
            stamp: Stamp::default(),
            completed: 0,
            instances: BTreeSet::new(),
            phase: Phase::Idle,
            unsaid: Vec::new(),
            ended: false,
        }
    }

    pub(super) fn incarnation(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.life))
    }

    pub(super) fn may_act(&self, now: Duration) -> bool {
        self.alive && now < self.lease_until
    }

    /// A new process: it knows nothing.
    pub(super) fn reborn(&mut self, index: usize) {
        let life = self.life + 1;
        *self = Self {
            life,
            ..Self::new(index)
        };
    }

    /// The lease is over, or the coordinator knows nothing of it.
    pub(super) fn abandon(&mut self) {
        self.registered = None;
        self.lease_until = Duration::ZERO;
        self.instances.clear();
        self.phase = Phase::Idle;
        self.unsaid.clear();
    }

    /// What runs goes on running as long as the lease lasts.
    pub(super) fn register(&mut self) -> Register {
        self.registration += 1;
        self.offer()
    }

    pub(super) fn offer(&self) -> Register {
        let standing = (self.phase == Phase::Running).then(|| Standing {
            stamp: self.stamp,
            completed: self.completed,
            instances: self.instances.iter().cloned().collect(),
            ended: Vec::new(),
            cut_wanted: false,
        });
        Register {
            region: "sim".to_owned(),
            worker: self.name.clone(),
            incarnation: self.incarnation(),
            address: String::new(),
            slots: 2,
            labels: Vec::new(),
            graph: 1,
            attempt: self.registration,
            standing,
            process: None,
        }
    }

    /// Takes an order; returns what it will say about it, after some time.
    pub(super) fn take(&mut self, stamp: Stamp, order: &Order) -> Option<Progress> {
        if stamp < self.stamp {
            return None;
        }
        let same_attempt = stamp.attempt == self.stamp.attempt;
        self.stamp = stamp;
        let event = match order {
            Order::Reset {
                placement, restore, ..
            } => {
                let (_, epoch) = self.registered?;
                let mine = placement
                    .instances
                    .iter()
                    .filter(|placed| placed.worker == self.name && placed.worker_epoch == epoch);
                self.instances = mine.map(|placed| placed.instance.clone()).collect();
                self.completed = restore.as_ref().map_or(0, |restore| restore.seq);
                self.phase = Phase::Resetting;
                self.unsaid.clear();
                if self.instances.is_empty() {
                    self.phase = Phase::Idle;
                    return None;
                }
                ProgressEvent::ResetDone
            }
            Order::Drain { .. } if same_attempt && self.phase == Phase::Running => {
                self.phase = Phase::Round { seq: stamp.seq };
                ProgressEvent::BlockingCheckpointDone
            }
            Order::Resume => {
                // A round stays open until its cut is complete, also while tuples flow again.
                if self.phase == Phase::Resetting {
                    self.phase = Phase::Running;
                }
                return None;
            }
            Order::Abandoned { seq } => {
                if self.phase == (Phase::Round { seq: *seq }) {
                    self.phase = Phase::Running;
                }
                return None;
            }
            Order::Checkpointed { seq, .. } if same_attempt => {
                self.completed = *seq;
                if self.phase == (Phase::Round { seq: *seq }) {
                    self.phase = Phase::Running;
                }
                ProgressEvent::Committed { seq: *seq }
            }
            Order::End => {
                self.ended = true;
                self.instances.clear();
                return None;
            }
            _ => return None,
        };
        self.say(stamp, event)
    }

    pub(super) fn say(&self, stamp: Stamp, event: ProgressEvent) -> Option<Progress> {
        let (_, worker_epoch) = self.registered?;
        Some(Progress {
            worker: self.name.clone(),
            worker_epoch,
            stamp,
            event,
        })
    }
}
