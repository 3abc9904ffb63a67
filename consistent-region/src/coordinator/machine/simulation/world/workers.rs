//! What workers do in the world: they take orders, say what came of them, and keep their lease.

use std::time::Duration;

use super::super::network::{Message, Step};
use super::super::worker::Phase;
use super::{LEASE, MS, World};
use crate::protocol::{Heartbeat, Notice, Order, Progress, ProgressEvent, Stamp};

impl World {
    /// A worker takes a notice: in order, once.
    pub(super) fn take(&mut self, to: usize, notice: Notice) {
        let now = self.network.now();
        let worker = &mut self.workers[to];
        let mine = worker
            .registered
            .is_some_and(|(_, epoch)| epoch == notice.worker_epoch);
        if worker.stopped || !worker.may_act(now) || !mine || notice.number != worker.taken + 1 {
            return;
        }
        worker.taken = notice.number;
        let before = worker.stamp;
        let progress = worker.take(notice.stamp, &notice.order);
        if let Order::Checkpointed { seq, .. } = notice.order
            && notice.stamp >= before
        {
            let attempt = notice.stamp.attempt;
            assert!(
                self.log.has_cut(seq, attempt),
                "seed {}: committed {seq}",
                self.seed
            );
        }
        if let Some(progress) = progress {
            let life = self.workers[to].life;
            let after = Duration::from_millis(self.rng.u64(1..200));
            self.network.send(
                after,
                Message::Step {
                    to,
                    life,
                    step: Step::Say(progress),
                },
            );
        }
    }

    /// A worker has done what it was told.
    pub(super) fn step(&mut self, to: usize, life: u64, mut progress: Progress) {
        let now = self.network.now();
        let worker = &mut self.workers[to];
        let epoch = worker.registered.map(|(_, epoch)| epoch);
        if worker.life != life || !worker.may_act(now) || epoch != Some(progress.worker_epoch) {
            return;
        }
        if worker.stopped {
            let step = Step::Say(progress);
            return self
                .network
                .send(1_000 * MS, Message::Step { to, life, step });
        }
        if progress.stamp.attempt != worker.stamp.attempt {
            return;
        }
        let checkpointing = progress.event == ProgressEvent::BlockingCheckpointDone
            && worker.phase
                == (Phase::Round {
                    seq: progress.stamp.seq,
                });
        if self.faults.deaths && self.rng.u32(0..60) == 0 {
            let (instance, reason) = (None, "so it is".to_owned());
            progress.event = ProgressEvent::Failed {
                instance,
                reason,
                permanent: false,
            };
        } else if checkpointing && self.faults.deaths && self.rng.u32(0..20) == 0 {
            // It has prepared, and can't write.
            if let Some(instance) = self.workers[to].instances.first().cloned() {
                let reason = "no space".to_owned();
                let failed = ProgressEvent::CutFailed { instance, reason };
                self.say(
                    to,
                    Progress {
                        event: failed,
                        ..progress.clone()
                    },
                );
            }
        } else if checkpointing {
            let (objects, tokens, timings) = (Vec::new(), Vec::new(), Vec::new());
            let event = ProgressEvent::CheckpointDone {
                objects,
                tokens,
                timings,
            };
            let done = Progress {
                event,
                ..progress.clone()
            };
            let after = Duration::from_millis(self.rng.u64(1..300));
            self.network.send(
                after,
                Message::Step {
                    to,
                    life,
                    step: Step::Say(done),
                },
            );
            // Some workers tell only of the end.
            if self.rng.bool() {
                return;
            }
        }
        if matches!(progress.event, ProgressEvent::CheckpointDone { .. }) {
            let Stamp { seq, attempt, .. } = progress.stamp;
            self.written.insert((progress.worker.clone(), seq, attempt));
        }
        self.say(to, progress);
    }

    pub(super) fn say(&mut self, to: usize, progress: Progress) {
        self.workers[to].unsaid.push(progress.clone());
        self.send(Message::Progress { from: to, progress });
    }

    /// Heartbeats, registrations, repetitions: five times in a lease.
    pub(super) fn clock(&mut self, to: usize, life: u64) {
        let now = self.network.now();
        let worker = &mut self.workers[to];
        if worker.life != life || !worker.alive {
            return;
        }
        self.network.send(LEASE / 5, Message::Clock { to, life });
        let worker = &mut self.workers[to];
        if worker.stopped {
            return;
        }
        if !worker.instances.is_empty() && now >= worker.lease_until {
            worker.abandon();
        }
        match worker.registered {
            Some((_, worker_epoch)) if now < worker.lease_until => {
                let acknowledged = worker.taken;
                let unsaid = worker.unsaid.clone();
                let heartbeat = Heartbeat {
                    worker: worker.name.clone(),
                    worker_epoch,
                    acknowledged,
                };
                self.send(Message::Heartbeat {
                    from: to,
                    heartbeat,
                    sent: now,
                });
                for progress in unsaid {
                    self.send(Message::Progress { from: to, progress });
                }
            }
            _ => {
                if worker.registered.is_some() {
                    worker.abandon();
                }
                let register = worker.register();
                self.send(Message::Register { from: to, register });
            }
        }
    }
}
