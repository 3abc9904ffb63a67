//! Registration, leases, placement: which workers there are, and whether the region can run.

use super::{Action, Machine, Moment, RequestId, State};
use crate::coordinator::members::Admission;
use crate::coordinator::placement::{Seat, place};
use crate::coordinator::status::RegionEvent;
use crate::protocol::{
    Heartbeat, HeartbeatAnswer, InstanceId, Order, Placed, Placement, Progress, ProgressEvent,
    Refusal, Register, Registered, Standing,
};

/// So many instances without a place are named, the others are counted.
const MOST_NAMED: usize = 8;

impl Machine {
    pub(super) fn register(&mut self, now: Moment, request: RequestId, register: &Register) {
        let answer = self.try_register(now, register);
        self.actions
            .push(Action::AnswerRegister { request, answer });
    }

    fn try_register(&mut self, now: Moment, register: &Register) -> Result<Registered, Refusal> {
        self.check_registration(register)?;
        match self.members.admit(now, register) {
            Admission::Refused(refusal) => {
                self.drop_stale();
                Err(refusal)
            }
            Admission::Again { worker_epoch } => Ok(self.registered(worker_epoch)),
            Admission::New {
                worker_epoch,
                replaced,
            } => {
                let worker = register.worker.clone();
                self.left.remove(&worker);
                if replaced {
                    let reason = "it registered anew".to_owned();
                    self.tell(RegionEvent::WorkerLost {
                        worker: worker.clone(),
                        reason,
                    });
                }
                self.tell(RegionEvent::WorkerJoined {
                    worker: worker.clone(),
                    worker_epoch,
                });
                if replaced && self.participates(&worker) {
                    self.fall_ill(now, format!("worker {worker} has lost what it ran"));
                }
                self.joined(now, &worker);
                Ok(self.registered(worker_epoch))
            }
        }
    }

    fn check_registration(&self, register: &Register) -> Result<(), Refusal> {
        let (ours, theirs) = (self.settings.shape.fingerprint, register.graph);
        if register.region != self.settings.region {
            let (ours, theirs) = (self.settings.region.clone(), register.region.clone());
            return Err(Refusal::AnotherRegion { ours, theirs });
        }
        if ours != theirs {
            return Err(Refusal::AnotherGraph { ours, theirs });
        }
        // Worker epochs beyond the reserve are not durable; the next term has new ones.
        let epochs_left = self.members.last_epoch() < self.record.worker_epochs;
        if matches!(self.state, State::Opening) || !epochs_left {
            return Err(Refusal::NotLeading);
        }
        Ok(())
    }

    fn registered(&self, worker_epoch: u64) -> Registered {
        Registered {
            term: self.term,
            worker_epoch,
            lease: self.settings.lease,
            sources_paused: self.sources_paused(),
        }
    }

    fn joined(&mut self, now: Moment, worker: &str) {
        match self.state {
            State::Completed => self.order(worker, Order::End),
            State::Started { .. }
                if self.record.placement.is_empty() && self.members.len() == 1 =>
            {
                // The others are waited for from the first one on.
                self.state = State::Started { since: now };
                self.look_for_places(now);
            }
            State::Started { .. } | State::Unhealthy { .. } => self.look_for_places(now),
            _ => {}
        }
    }

    pub(super) fn heartbeat(&mut self, now: Moment, request: RequestId, heartbeat: &Heartbeat) {
        let Heartbeat {
            worker,
            worker_epoch,
            acknowledged,
        } = heartbeat;
        let answer = self
            .members
            .renew(now, worker, *worker_epoch)
            .map(|member| {
                member.outbox.acknowledge(*acknowledged);
                member.outbox.unacknowledged()
            });
        let (term, sources_paused) = (self.term, self.sources_paused());
        let answer = answer.map(|notices| HeartbeatAnswer {
            term,
            notices,
            sources_paused,
        });
        if answer.is_err() {
            self.drop_stale();
        }
        self.actions
            .push(Action::AnswerHeartbeat { request, answer });
        self.let_go(worker);
    }

    /// In a completed region a worker that knows so is not needed any more.
    fn let_go(&mut self, worker: &str) {
        let done = |member: &crate::coordinator::members::Member| member.outbox.is_empty();
        if matches!(self.state, State::Completed) && self.members.get(worker).is_some_and(done) {
            self.members.remove(worker);
        }
    }

    pub(super) fn progress(&mut self, now: Moment, request: RequestId, progress: Progress) {
        let Progress {
            worker,
            worker_epoch,
            stamp,
            event,
        } = progress;
        #[cfg(test)]
        let stamp = match self.broken {
            Some(super::broken::Broken::StaleAcknowledgementTaken) => self.stamp(),
            _ => stamp,
        };
        let answer = self.members.find(&worker, worker_epoch).map(|_| ());
        let known = answer.is_ok();
        self.actions
            .push(Action::AnswerProgress { request, answer });
        let current = stamp == self.stamp() && self.participates(&worker);
        let this_attempt = stamp.attempt == self.record.attempt && self.participates(&worker);
        let taken = known
            && match event {
                // Of a cut that is pending the number is not the current one: the round decides.
                ProgressEvent::BlockingCheckpointDone => {
                    this_attempt && self.blocking_done(now, &worker, stamp)
                }
                ProgressEvent::CheckpointDone {
                    objects,
                    tokens,
                    timings,
                } => {
                    this_attempt
                        && self.checkpoint_done(now, &worker, stamp, (objects, tokens, timings))
                }
                ProgressEvent::CutFailed { instance, reason } => {
                    let reason = format!("{instance} on worker {worker}: {reason}");
                    this_attempt && self.cut_failed(now, stamp, reason)
                }
                ProgressEvent::ResetDone => current && self.reset_done(now, &worker),
                ProgressEvent::Committed { seq } => this_attempt && self.committed(&worker, seq),
                ProgressEvent::Failed {
                    instance,
                    reason,
                    permanent,
                } => this_attempt && self.failed(now, &worker, instance, &reason, permanent),
                ProgressEvent::CutWanted { .. } => this_attempt && self.cut_wanted(now),
                ProgressEvent::ResetWanted { instance, reason } => {
                    let reason = format!("{instance} on {worker} asked for a reset: {reason}");
                    this_attempt && self.reset_requested(now, false, reason).is_ok()
                }
                ProgressEvent::Ended { instance } => {
                    this_attempt && self.start_ended(now, instance)
                }
                ProgressEvent::Left => {
                    self.left.insert(worker.clone());
                    self.lose(now, &worker, "it was stopped");
                    true
                }
            };
        if !taken {
            self.drop_stale();
        }
    }

    fn cut_wanted(&mut self, now: Moment) -> bool {
        let wanted = self.may_command().is_ok();
        if wanted {
            self.wishes.cut = true;
            self.grant_wishes(now);
        }
        wanted
    }

    fn start_ended(&mut self, now: Moment, instance: InstanceId) -> bool {
        let is_start = self.settings.shape.starts().any(|start| *start == instance);
        if is_start {
            self.ended.insert(instance);
            self.grant_wishes(now);
        }
        is_start
    }

    pub(super) fn process_gone(&mut self, now: Moment, worker: &str, worker_epoch: u64) {
        if self.members.lay_ghost(worker, worker_epoch) {
            self.look_for_places(now);
        } else if self.members.find(worker, worker_epoch).is_ok() {
            self.lose(now, worker, "its process has ended");
        }
    }

    /// Nothing of this worker can take effect any more.
    pub(super) fn lose(&mut self, now: Moment, worker: &str, how: &str) {
        if self.members.remove(worker).is_none() {
            return;
        }
        let reason = how.to_owned();
        self.tell(RegionEvent::WorkerLost {
            worker: worker.to_owned(),
            reason,
        });
        if self.participates(worker) {
            self.fall_ill(now, format!("worker {worker} is lost: {how}"));
        }
    }

    /// Some instances have no worker. In states that run nothing this changes nothing.
    fn fall_ill(&mut self, now: Moment, reason: String) {
        match &mut self.state {
            State::Opening | State::Started { .. } | State::Failed { .. } | State::Completed => {}
            State::Unhealthy { .. } => self.look_for_places(now),
            State::Round(round) if round.is_publishing() => round.give_up(reason),
            _ => {
                self.abort_round(&reason);
                self.drop_held();
                self.state = State::Unhealthy { since: now, reason };
                self.look_for_places(now);
            }
        }
    }

    /// Tuples stay paused until every instance has a place.
    pub(super) fn become_unhealthy(&mut self, now: Moment, reason: String) {
        self.state = State::Unhealthy { since: now, reason };
    }

    pub(super) fn drop_held(&mut self) {
        for (_, member) in self.members.iter_mut() {
            member.outbox.drop_held();
        }
    }

    /// Started or unhealthy: goes on as soon as it can.
    pub(super) fn look_for_places(&mut self, now: Moment) {
        let (since, unhealthy) = match &self.state {
            State::Started { since } => (*since, None),
            State::Unhealthy { since, reason } => (*since, Some(reason.clone())),
            _ => return,
        };
        if self.everybody_is_back(now, since) {
            if unhealthy.is_none() && self.can_go_on() {
                return self.go_on(now);
            }
            if self.new_placement().is_ok() {
                let reason = unhealthy
                    .or_else(|| self.wishes.reset.take())
                    .unwrap_or_else(|| "the region starts".to_owned());
                return self.reset(now, reason);
            }
        }
        let given_up = self
            .settings
            .unhealthy_timeout
            .is_some_and(|limit| now >= since + limit);
        if let (Some(reason), true) = (unhealthy, given_up) {
            let places = self.missing_places(&self.waiting());
            self.fail(format!("{reason}; in time there was {places}"));
        }
    }

    /// Every worker that had instances is there, was stopped, or was waited for long enough.
    fn everybody_is_back(&self, now: Moment, since: Moment) -> bool {
        let patient = now < since + self.settings.placement_timeout;
        let all_back = if self.record.placement.is_empty() {
            self.members.len() >= self.settings.workers
        } else {
            self.participants()
                .iter()
                .all(|worker| self.members.get(worker).is_some() || self.left.contains(worker))
        };
        // Patience may end before a lease does: who may still act is always waited for.
        all_back || (!patient && !self.is_haunted())
    }

    /// Some instances may still be run unseen by a process that the term before let in.
    fn is_haunted(&self) -> bool {
        self.participants()
            .iter()
            .any(|worker| self.members.is_haunted(worker))
    }

    /// When waiting for former workers ends; `None` once it has.
    pub(super) fn place_deadline(&self, since: Moment) -> Option<Moment> {
        // After it, each registration and each ghost's end looks for places by itself: a time that
        // has passed must not ask for a tick again and again.
        let waiting = !self.members.is_empty() && !self.everybody_is_back(since, since);
        // The cheap question first: this is asked at every step.
        (waiting && !self.is_haunted() && self.new_placement().is_ok())
            .then(|| since + self.settings.placement_timeout)
    }

    /// Where everything would run now; the instances that have no place otherwise.
    pub(super) fn new_placement(&self) -> Result<Vec<(InstanceId, String)>, Vec<InstanceId>> {
        let seats: Vec<Seat<'_>> = self
            .members
            .iter()
            .map(|(worker, member)| Seat {
                worker,
                slots: member.slots,
                labels: &member.labels,
            })
            .collect();
        place(
            &self.settings.shape.instances,
            &self.record.placement,
            &seats,
        )
    }

    /// What the instances that have no place wait for, for people.
    pub(super) fn missing_places(&self, waiting: &[InstanceId]) -> String {
        let named = |instance: &InstanceId| {
            let shapes = &self.settings.shape.instances;
            let labels = shapes
                .iter()
                .find(|shape| &shape.instance == instance)
                .map_or(&[][..], |shape| &shape.labels);
            match labels {
                [] => instance.to_string(),
                labels => format!("{instance} (needs {})", labels.join(", ")),
            }
        };
        let names: Vec<String> = waiting.iter().take(MOST_NAMED).map(named).collect();
        let more = waiting.len().saturating_sub(MOST_NAMED);
        match more {
            0 => format!("no free slot for {}", names.join(", ")),
            more => format!("no free slot for {} and {more} more", names.join(", ")),
        }
    }

    /// Instances that do not run: without a place, or on a worker that is gone.
    pub(super) fn waiting(&self) -> Vec<InstanceId> {
        if let State::Started { .. } | State::Unhealthy { .. } = &self.state
            && let Err(waiting) = self.new_placement()
        {
            return waiting;
        }
        let gone = |(worker, _): &(&String, _)| self.members.get(worker).is_none();
        let waiting = self.placed.iter().filter(gone);
        let mut waiting: Vec<_> = waiting.flat_map(|(_, it)| it.iter().cloned()).collect();
        waiting.sort();
        waiting
    }

    /// The placement as workers need it.
    pub(super) fn placement(&self) -> Placement {
        let placed = |(instance, worker): &(InstanceId, String)| {
            let member = self.members.get(worker)?;
            Some(Placed {
                instance: instance.clone(),
                worker: worker.clone(),
                worker_epoch: member.worker_epoch,
                address: member.address.clone(),
            })
        };
        Placement {
            instances: self.record.placement.iter().filter_map(placed).collect(),
        }
    }

    /// Nothing was missed between the last term and this one: all operators run, at the same
    /// place, and know of the newest cut (S22).
    fn can_go_on(&self) -> bool {
        let record = &self.record;
        if record.placement.is_empty() || self.wishes.reset.is_some() {
            return false;
        }
        self.participants().iter().all(|worker| {
            let standing = self
                .members
                .get(worker)
                .and_then(|member| member.standing.as_ref());
            standing.is_some_and(|standing| self.stands_right(worker, standing))
        })
    }

    fn stands_right(&self, worker: &str, standing: &Standing) -> bool {
        let record = &self.record;
        let mut theirs = standing.instances.clone();
        theirs.sort();
        let mut ours = self.placed.get(worker).map_or(Vec::new(), |it| it.to_vec());
        ours.sort();
        standing.stamp.attempt == record.attempt
            && standing.stamp.seq == record.next_cut
            && standing.completed == record.completed
            && theirs == ours
    }

    fn go_on(&mut self, now: Moment) {
        let participants = self.participants();
        for (worker, member) in self.members.iter() {
            if let Some(standing) = &member.standing
                && participants.contains(worker)
            {
                self.ended.extend(standing.ended.iter().cloned());
                self.wishes.cut |= standing.cut_wanted;
            }
        }
        self.seq = self.record.next_cut;
        self.tell(RegionEvent::WentOnWithoutReset { seq: self.seq });
        self.order_participants(&Order::Resume);
        self.process(now);
    }
}
