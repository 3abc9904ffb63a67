//! The worker's registration with its coordinator, the lease that comes with it, and what is sent
//! while it holds.

use std::time::Duration;

use crate::link::LinkError;
use crate::protocol::{
    Heartbeat, HeartbeatAnswer, InstanceId, Progress, ProgressEvent, Refusal, Register, Registered,
    Stamp, Standing,
};

use crate::worker::WorkerEnd;

use super::{Action, HEARTBEATS, Machine, RETRY, Registration, Telling, USED_FIFTHS};

impl Machine {
    pub(super) fn check_lease(&mut self, now: Duration) {
        if self.lease_until.is_some_and(|until| now >= until) {
            self.lease_lost(now);
        }
    }

    pub(super) fn lease_lost(&mut self, now: Duration) {
        self.lease_until = None;
        self.forget_instances();
        self.actions.push(Action::Abandon);
        if matches!(self.registration, Registration::Valid { .. }) {
            self.registration = Registration::None { retry_at: now };
        }
    }

    /// What was to be told belongs to an attempt that is over.
    pub(super) fn forget_progress(&mut self) {
        self.outbox.clear();
        if let Some(telling) = &mut self.telling {
            telling.void = true;
        }
    }

    pub(super) fn forget_instances(&mut self) {
        self.slots.clear();
        self.forget_progress();
        self.resetting = None;
        self.round = None;
        self.committing = None;
        self.ended.clear();
        self.cut_wanted = false;
        self.failed = true;
    }

    pub(super) fn send_due(&mut self, now: Duration) {
        match self.registration {
            Registration::None { retry_at } if now >= retry_at => self.ask_registration(now),
            Registration::Valid {
                term,
                epoch,
                lease,
                taken,
            } => {
                if self.heartbeat_sent.is_none() && now >= self.heartbeat_at {
                    self.heartbeat_sent = Some(now);
                    self.unacknowledged = 0;
                    let worker = self.setup.worker.clone();
                    let heartbeat = Heartbeat {
                        worker,
                        worker_epoch: epoch,
                        acknowledged: taken,
                    };
                    let limit = lease / HEARTBEATS;
                    self.actions.push(Action::Heartbeat { heartbeat, limit });
                }
                self.send_progress(now, term, epoch);
            }
            _ => {}
        }
    }

    pub(super) fn send_progress(&mut self, now: Duration, term: u64, epoch: u64) {
        if self.telling.is_some() || now < self.progress_at {
            return;
        }
        if let Some((stamp, event)) = self.outbox.pop_front() {
            self.actions.push(Action::Progress(Progress {
                worker: self.setup.worker.clone(),
                worker_epoch: epoch,
                stamp: Stamp { term, ..stamp },
                event: event.clone(),
            }));
            self.telling = Some(Telling {
                stamp,
                event,
                void: false,
            });
        }
    }

    pub(super) fn ask_registration(&mut self, now: Duration) {
        self.registrations += 1;
        self.registration = Registration::Asked { sent: now };
        let standing = self.standing();
        self.claimed = standing.is_some();
        self.actions.push(Action::Register(Register {
            region: self.setup.region.clone(),
            worker: self.setup.worker.clone(),
            incarnation: self.setup.incarnation,
            address: self.setup.address.clone(),
            slots: self.setup.slots,
            labels: self.setup.labels.clone(),
            graph: self.setup.graph,
            attempt: self.registrations,
            standing,
            process: self.setup.process.clone(),
        }));
    }

    /// What a new coordinator may build on: everything runs, nothing is under way (S22, issue 7).
    pub(super) fn standing(&self) -> Option<Standing> {
        let wish = |event: &ProgressEvent| {
            matches!(
                event,
                ProgressEvent::Ended { .. } | ProgressEvent::CutWanted { .. }
            )
        };
        let quiet = self.lease_until.is_some()
            && !self.failed
            && self.stamp.attempt > 0
            && self.resetting.is_none()
            && self.round.is_none()
            && self.committing.is_none()
            && self
                .telling
                .iter()
                .all(|telling| telling.void || wish(&telling.event))
            && self.outbox.iter().all(|(_, event)| wish(event));
        quiet.then(|| Standing {
            stamp: self.stamp,
            completed: self.completed,
            instances: self.names(self.slots.keys()),
            ended: self.names(self.ended.iter()),
            cut_wanted: self.cut_wanted,
        })
    }

    fn names<'a>(&self, launches: impl Iterator<Item = &'a u64>) -> Vec<InstanceId> {
        let slots = launches.filter_map(|launch| self.slots.get(launch));
        slots.map(|slot| (*slot.instance).clone()).collect()
    }

    pub(super) fn register_answered(
        &mut self,
        now: Duration,
        answer: Result<Registered, LinkError>,
    ) {
        let Registration::Asked { sent } = self.registration else {
            return;
        };
        match answer {
            Ok(Registered {
                term,
                worker_epoch,
                lease,
                sources_paused,
            }) => {
                self.registration = Registration::Valid {
                    term,
                    epoch: worker_epoch,
                    lease,
                    taken: 0,
                };
                self.stamp.term = self.stamp.term.max(term);
                self.pause_sources(sources_paused);
                self.heartbeat_sent = None;
                self.heartbeat_at = sent + lease / HEARTBEATS;
                if std::mem::take(&mut self.claimed) && self.failed {
                    let reason = "its lease ended while it registered anew".to_owned();
                    self.fail(None, reason, false);
                }
                self.renew(now, sent, lease);
            }
            Err(LinkError::Refused(refusal)) => self.refused(now, refusal),
            Err(LinkError::Unreachable(_)) => self.register_anew(now + RETRY),
        }
    }

    pub(super) fn renew(&mut self, now: Duration, sent: Duration, lease: Duration) {
        let until = sent + lease / 5 * USED_FIFTHS;
        if now >= until {
            return self.lease_lost(now);
        }
        if self.lease_until.is_none_or(|former| former < until) {
            self.lease_until = Some(until);
            self.actions.push(Action::RenewLease { until });
        }
    }

    pub(super) fn refused(&mut self, now: Duration, refusal: Refusal) {
        match refusal {
            // Until its deadline the old lease holds: the coordinator counts longer than we do.
            Refusal::NotRegistered { .. } => self.register_anew(now),
            Refusal::NotLeading => self.register_anew(now + RETRY),
            // not all of `remaining`: the other process may be proved dead before its lease ends
            Refusal::NameInUse { .. } => self.register_anew(now + RETRY),
            Refusal::AnotherGraph { .. } | Refusal::AnotherRegion { .. } => {
                self.finish(WorkerEnd::Refused(refusal));
            }
        }
    }

    pub(super) fn register_anew(&mut self, retry_at: Duration) {
        if self.registration != Registration::Over {
            self.registration = Registration::None { retry_at };
        }
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        now: Duration,
        answer: Result<HeartbeatAnswer, LinkError>,
    ) {
        let sent = self.heartbeat_sent.take();
        let Registration::Valid { term, lease, .. } = self.registration else {
            return;
        };
        match answer {
            Ok(answer) if answer.term < term => self.dropped.stale_notices += 1,
            Ok(answer) => {
                let sent = sent.unwrap_or(now);
                self.heartbeat_at = sent + lease / HEARTBEATS;
                self.renew(now, sent, lease);
                self.pause_sources(answer.sources_paused);
                for notice in answer.notices {
                    self.notice(now, notice);
                }
            }
            Err(LinkError::Refused(refusal)) => self.refused(now, refusal),
            Err(LinkError::Unreachable(_)) => self.heartbeat_at = now + lease / HEARTBEATS / 4,
        }
    }

    pub(super) fn progress_answered(&mut self, now: Duration, answer: Result<(), LinkError>) {
        let told = self.telling.take();
        let Err(error) = answer else { return };
        if let Some(Telling {
            stamp,
            event,
            void: false,
        }) = told
        {
            self.outbox.push_front((stamp, event));
        }
        match error {
            LinkError::Refused(refusal) => {
                if matches!(self.registration, Registration::Valid { .. }) {
                    self.refused(now, refusal);
                }
            }
            LinkError::Unreachable(_) => self.progress_at = now + RETRY,
        }
    }
}
