//! The worker's side of the region's protocol: pure, driven by events, answered with actions.
//!
//! Times are since the machine's boot. The shell answers every request that an action asks for
//! with one event, also when it timed out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use uuid::Uuid;

use crate::link::LinkError;
use crate::manifest::RestorePoint;
use crate::operator::control::{InstanceEvent, Report, Restore};
use crate::process::ProcessIdentity;
use crate::protocol::{
    Heartbeat, HeartbeatAnswer, InstanceId, Notice, Order, Placement, Progress, ProgressEvent,
    Refusal, Register, Registered, Stamp, Standing,
};

use super::round::Round;

/// Share of the lease that a worker uses; the rest is for clocks that differ.
const USED_FIFTHS: u32 = 4;
/// Heartbeats for each lease.
const HEARTBEATS: u32 = 4;
/// Until a refused or unanswered request is repeated.
const RETRY: Duration = Duration::from_millis(100);

/// What the machine knows from the start.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) region: String,
    pub(crate) worker: String,
    pub(crate) incarnation: Uuid,
    pub(crate) address: String,
    pub(crate) slots: u16,
    pub(crate) graph: u64,
    pub(crate) process: Option<ProcessIdentity>,
    /// Every operator of the graph.
    pub(crate) operators: BTreeMap<String, OperatorFacts>,
}

/// What the machine must know of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperatorFacts {
    pub(crate) start: bool,
    pub(crate) width: u16,
    pub(crate) state_type: &'static str,
    pub(crate) state_version: u32,
}

#[derive(Debug)]
pub(crate) enum Event {
    /// Time has passed; also the very first event.
    Tick,
    RegisterAnswered(Result<Registered, LinkError>),
    HeartbeatAnswered(Result<HeartbeatAnswer, LinkError>),
    ProgressAnswered(Result<(), LinkError>),
    Notice(Notice),
    Report(Report),
    /// An instance does not take its orders.
    Deaf(InstanceId),
    /// A stream to or from another worker broke.
    StreamBroken {
        attempt: u64,
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Register(Register),
    Heartbeat {
        heartbeat: Heartbeat,
        limit: Duration,
    },
    Progress(Progress),
    RenewLease {
        until: Duration,
    },
    /// The lease has ended: nothing may act any more. Stop everything.
    Abandon,
    Launch {
        instance: InstanceId,
        launch: u64,
        stamp: Stamp,
    },
    Stop {
        instance: InstanceId,
    },
    /// Wire the streams and reset every instance.
    Reset {
        stamp: Stamp,
        placement: Placement,
        restores: Vec<(InstanceId, Restore)>,
    },
    Drain {
        instance: InstanceId,
        stamp: Stamp,
        last: bool,
    },
    Resume {
        instance: InstanceId,
    },
    Checkpointed {
        instance: InstanceId,
        seq: u64,
        oldest_retained: u64,
    },
    /// There is nothing more to do.
    Finish(Result<(), Refusal>),
}

/// Messages that were dropped because they were out of date (S3, issue 7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Notices that were taken before.
    pub repeated_notices: u64,
    /// Notices of a former registration or an older attempt.
    pub stale_notices: u64,
    /// Notices that came too early; they are fetched again.
    pub early_notices: u64,
    /// Reports of instances that were replaced or of an older attempt.
    pub stale_reports: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    None {
        retry_at: Duration,
    },
    Asked {
        sent: Duration,
    },
    Valid {
        term: u64,
        epoch: u64,
        lease: Duration,
        taken: u64,
    },
    Over,
}

#[derive(Debug)]
struct Telling {
    stamp: Stamp,
    event: ProgressEvent,
    /// Out of date: not to be repeated.
    void: bool,
}

#[derive(Debug)]
struct Slot {
    launch: u64,
    alive: bool,
    /// It has answered the last reset, if only with an error.
    answered: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    setup: Setup,
    registration: Registration,
    registrations: u64,
    /// The registration under way says that the instances run.
    claimed: bool,
    lease_until: Option<Duration>,
    heartbeat_at: Duration,
    heartbeat_sent: Option<Duration>,
    outbox: VecDeque<(Stamp, ProgressEvent)>,
    /// What the coordinator is being told; repeated until it has taken it.
    telling: Option<Telling>,
    progress_at: Duration,
    stamp: Stamp,
    completed: u64,
    slots: BTreeMap<InstanceId, Slot>,
    launches: u64,
    /// Who has not reached the restore point; `None` when no reset is under way.
    resetting: Option<BTreeSet<InstanceId>>,
    round: Option<Round>,
    committing: Option<(u64, BTreeSet<InstanceId>)>,
    /// Something failed since the last reset.
    failed: bool,
    ended: BTreeSet<InstanceId>,
    cut_wanted: bool,
    dropped: Dropped,
    actions: Vec<Action>,
}

impl Machine {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            setup,
            registration: Registration::None {
                retry_at: Duration::ZERO,
            },
            registrations: 0,
            claimed: false,
            lease_until: None,
            heartbeat_at: Duration::ZERO,
            heartbeat_sent: None,
            outbox: VecDeque::new(),
            telling: None,
            progress_at: Duration::ZERO,
            stamp: Stamp::default(),
            completed: 0,
            slots: BTreeMap::new(),
            launches: 0,
            resetting: None,
            round: None,
            committing: None,
            failed: false,
            ended: BTreeSet::new(),
            cut_wanted: false,
            dropped: Dropped::default(),
            actions: Vec::new(),
        }
    }

    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// When the machine wants [`Event::Tick`] at the latest.
    pub(crate) fn wake_at(&self) -> Option<Duration> {
        let mut wake = self.lease_until;
        let mut also = |at: Duration| wake = Some(wake.map_or(at, |wake| wake.min(at)));
        match self.registration {
            Registration::None { retry_at } => also(retry_at),
            Registration::Valid { .. } => {
                if self.heartbeat_sent.is_none() {
                    also(self.heartbeat_at);
                }
                if self.telling.is_none() && !self.outbox.is_empty() {
                    also(self.progress_at);
                }
            }
            Registration::Asked { .. } | Registration::Over => {}
        }
        wake
    }

    pub(crate) fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        // Whatever happens next: after its deadline the worker has no instances.
        self.check_lease(now);
        match event {
            Event::Tick => {}
            Event::RegisterAnswered(answer) => self.register_answered(now, answer),
            Event::HeartbeatAnswered(answer) => self.heartbeat_answered(now, answer),
            Event::ProgressAnswered(answer) => self.progress_answered(now, answer),
            Event::Notice(notice) => self.notice(now, notice),
            Event::Report(report) => self.report(report),
            Event::Deaf(instance) => self.deaf(instance),
            Event::StreamBroken { attempt, reason } => {
                if attempt == self.stamp.attempt && !self.failed {
                    self.fail(None, reason, false);
                }
            }
        }
        self.send_due(now);
        std::mem::take(&mut self.actions)
    }

    // The registration and its lease.

    fn check_lease(&mut self, now: Duration) {
        if self.lease_until.is_some_and(|until| now >= until) {
            self.lease_lost(now);
        }
    }

    fn lease_lost(&mut self, now: Duration) {
        self.lease_until = None;
        self.forget_instances();
        self.actions.push(Action::Abandon);
        if matches!(self.registration, Registration::Valid { .. }) {
            self.registration = Registration::None { retry_at: now };
        }
    }

    /// What was to be told belongs to an attempt that is over.
    fn forget_progress(&mut self) {
        self.outbox.clear();
        if let Some(telling) = &mut self.telling {
            telling.void = true;
        }
    }

    fn forget_instances(&mut self) {
        self.slots.clear();
        self.forget_progress();
        self.resetting = None;
        self.round = None;
        self.committing = None;
        self.ended.clear();
        self.cut_wanted = false;
        self.failed = true;
    }

    fn send_due(&mut self, now: Duration) {
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

    fn send_progress(&mut self, now: Duration, term: u64, epoch: u64) {
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

    fn ask_registration(&mut self, now: Duration) {
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
            graph: self.setup.graph,
            attempt: self.registrations,
            standing,
            process: self.setup.process.clone(),
        }));
    }

    /// What a new coordinator may build on: everything runs, nothing is under way (S22, issue 7).
    fn standing(&self) -> Option<Standing> {
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
            instances: self.slots.keys().cloned().collect(),
            ended: self.ended.iter().cloned().collect(),
            cut_wanted: self.cut_wanted,
        })
    }

    fn register_answered(&mut self, now: Duration, answer: Result<Registered, LinkError>) {
        let Registration::Asked { sent } = self.registration else {
            return;
        };
        match answer {
            Ok(Registered {
                term,
                worker_epoch,
                lease,
            }) => {
                self.registration = Registration::Valid {
                    term,
                    epoch: worker_epoch,
                    lease,
                    taken: 0,
                };
                self.stamp.term = self.stamp.term.max(term);
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

    fn renew(&mut self, now: Duration, sent: Duration, lease: Duration) {
        let until = sent + lease / 5 * USED_FIFTHS;
        if now >= until {
            return self.lease_lost(now);
        }
        if self.lease_until.is_none_or(|former| former < until) {
            self.lease_until = Some(until);
            self.actions.push(Action::RenewLease { until });
        }
    }

    fn refused(&mut self, now: Duration, refusal: Refusal) {
        match refusal {
            // Until its deadline the old lease holds: the coordinator counts longer than we do.
            Refusal::NotRegistered { .. } => self.register_anew(now),
            Refusal::NotLeading => self.register_anew(now + RETRY),
            Refusal::NameInUse { remaining, .. } => self.register_anew(now + remaining.max(RETRY)),
            Refusal::AnotherGraph { .. } | Refusal::AnotherRegion { .. } => {
                self.finish(Err(refusal));
            }
        }
    }

    fn register_anew(&mut self, retry_at: Duration) {
        if self.registration != Registration::Over {
            self.registration = Registration::None { retry_at };
        }
    }

    fn finish(&mut self, result: Result<(), Refusal>) {
        self.registration = Registration::Over;
        self.lease_until = None;
        self.forget_instances();
        self.actions.push(Action::Abandon);
        self.actions.push(Action::Finish(result));
    }

    fn heartbeat_answered(&mut self, now: Duration, answer: Result<HeartbeatAnswer, LinkError>) {
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
                for notice in answer.notices {
                    self.notice(now, notice);
                }
            }
            Err(LinkError::Refused(refusal)) => self.refused(now, refusal),
            Err(LinkError::Unreachable(_)) => self.heartbeat_at = now + lease / HEARTBEATS / 4,
        }
    }

    fn progress_answered(&mut self, now: Duration, answer: Result<(), LinkError>) {
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

    // Orders.

    fn notice(&mut self, now: Duration, notice: Notice) {
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
            self.obey(notice.stamp, notice.order);
        }
    }

    fn obey(&mut self, stamp: Stamp, order: Order) {
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
            Order::Drain { last } => {
                self.stamp = stamp;
                self.cut_wanted = false;
                self.begin_round(stamp.seq);
                for instance in self.start_instances() {
                    self.actions.push(Action::Drain {
                        instance,
                        stamp,
                        last,
                    });
                }
            }
            Order::Resume => {
                self.stamp = stamp;
                for instance in self.start_instances() {
                    self.actions.push(Action::Resume { instance });
                }
            }
            Order::Checkpointed {
                seq,
                oldest_retained,
            } => {
                self.round.take_if(|round| round.seq <= seq);
                self.completed = self.completed.max(seq);
                self.committing = Some((seq, self.slots.keys().cloned().collect()));
                self.actions
                    .extend(
                        self.slots
                            .keys()
                            .cloned()
                            .map(|instance| Action::Checkpointed {
                                instance,
                                seq,
                                oldest_retained,
                            }),
                    );
                self.committed(seq, None);
            }
            Order::ResetFailed { reason } => {
                tracing::error!(worker = %self.setup.worker, %reason, "the region has failed");
                self.stamp = stamp;
            }
            Order::End => self.finish(Ok(())),
        }
    }

    fn start_instances(&self) -> Vec<InstanceId> {
        let operators = &self.setup.operators;
        let is_start = |id: &&InstanceId| operators.get(&id.operator).is_some_and(|o| o.start);
        self.slots.keys().filter(is_start).cloned().collect()
    }

    fn reset(
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
        let mine = self.mine(&placement);
        self.settle(stamp, &mine);
        self.resetting = Some(mine.clone());
        let restores = mine
            .into_iter()
            .map(|instance| {
                let restore = restore_of(&instance, restore.as_ref(), first_start);
                (instance, restore)
            })
            .collect();
        self.actions.push(Action::Reset {
            stamp,
            placement,
            restores,
        });
        self.reset_done();
    }

    /// What no reset could cure, found before any operator is touched (S30, issue 7).
    fn fault_of(&self, placement: &Placement, restore: Option<&RestorePoint>) -> Option<String> {
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

    fn mine(&self, placement: &Placement) -> BTreeSet<InstanceId> {
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
    fn settle(&mut self, stamp: Stamp, mine: &BTreeSet<InstanceId>) {
        let unfit = |(id, slot): (&InstanceId, &Slot)| {
            (!mine.contains(id) || !slot.alive || !slot.answered).then(|| id.clone())
        };
        let gone: Vec<InstanceId> = self.slots.iter().filter_map(unfit).collect();
        for instance in gone {
            self.slots.remove(&instance);
            self.actions.push(Action::Stop { instance });
        }
        for slot in self.slots.values_mut() {
            slot.answered = false;
        }
        for instance in mine {
            if !self.slots.contains_key(instance) {
                self.launches += 1;
                let launch = self.launches;
                let slot = Slot {
                    launch,
                    alive: true,
                    answered: false,
                };
                self.slots.insert(instance.clone(), slot);
                let instance = instance.clone();
                self.actions.push(Action::Launch {
                    instance,
                    launch,
                    stamp,
                });
            }
        }
    }

    // What instances report.

    fn report(&mut self, report: Report) {
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
                let done = round.and_then(|r| r.durable(&instance, object, token, timings));
                self.tell_of_round(stamp.seq, done);
            }
            InstanceEvent::Committed { seq } => self.committed(seq, Some(&instance)),
            InstanceEvent::Ended => {
                self.ended.insert(instance.clone());
                self.tell(Some(ProgressEvent::Ended { instance }));
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

    fn begin_round(&mut self, seq: u64) {
        if self.round.as_ref().is_none_or(|round| round.seq < seq) {
            self.stamp.seq = self.stamp.seq.max(seq);
            if !self.slots.is_empty() {
                self.round = Some(Round::new(seq, self.slots.keys().cloned()));
            }
        }
    }

    fn round_at(&mut self, seq: u64) -> Option<&mut Round> {
        self.round.as_mut().filter(|round| round.seq == seq)
    }

    fn reset_done(&mut self) {
        if !self.failed && self.resetting.as_ref().is_some_and(BTreeSet::is_empty) {
            self.resetting = None;
            self.tell(Some(ProgressEvent::ResetDone));
        }
    }

    fn committed(&mut self, seq: u64, instance: Option<&InstanceId>) {
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

    fn deaf(&mut self, instance: InstanceId) {
        if let Some(slot) = self.slots.get_mut(&instance) {
            slot.alive = false;
            let reason = "it does not take its orders: its actor waits or has stopped".to_owned();
            self.fail(Some(instance), reason, false);
        }
    }

    fn fail(&mut self, instance: Option<InstanceId>, reason: String, permanent: bool) {
        self.failed = true;
        self.round = None;
        self.tell(Some(ProgressEvent::Failed {
            instance,
            reason,
            permanent,
        }));
    }

    /// Tuples may belong to the next cut already while this one is still being written.
    fn tell_of_round(&mut self, seq: u64, event: Option<ProgressEvent>) {
        let stamp = Stamp { seq, ..self.stamp };
        self.outbox.extend(event.map(|event| (stamp, event)));
    }

    fn tell(&mut self, event: Option<ProgressEvent>) {
        self.outbox.extend(event.map(|event| (self.stamp, event)));
    }
}

fn restore_of(instance: &InstanceId, restore: Option<&RestorePoint>, first_start: bool) -> Restore {
    match restore {
        None if first_start => Restore::First,
        None => Restore::Initial,
        Some(point) => Restore::Cut {
            seq: point.seq,
            oldest_retained: point.oldest_retained,
            object: point
                .objects
                .iter()
                .find(|object| &object.instance == instance)
                .cloned(),
            tokens: point
                .tokens
                .iter()
                .filter(|token| &token.instance == instance)
                .map(|token| token.token.clone())
                .collect(),
        },
    }
}

#[cfg(test)]
mod tests;
