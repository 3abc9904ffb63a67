//! The worker's side of the region's protocol: pure, driven by events, answered with actions.
//!
//! Times are since the machine's boot. The shell answers every request that an action asks for
//! with one event, also when it timed out. Instances go by the number of their launch: every one of them
//! speaks several times in each cut, and names are compared slowly.
//!
//! Rooms: `registration` (lease, heartbeats, progress), `leaving`, `orders`, `shares` (what of a cut
//! an instance is given), `pause` (of start operators), `reports`, `view` (what is shown of it).

mod leaving;
mod orders;
mod pause;
mod registration;
mod reports;
mod shares;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::link::LinkError;
use crate::operator::control::{Report, Restore};
use crate::process::ProcessIdentity;
use crate::protocol::{
    Heartbeat, HeartbeatAnswer, InstanceId, Notice, Placement, Progress, ProgressEvent, Register,
    Registered, Stamp,
};

use super::handle::WorkerEnd;
use super::round::Round;
use crate::state::Rescale;

pub(crate) use view::{InstanceState, RegistrationView, View};

/// Share of the lease that a worker uses; the rest is for clocks that differ.
const USED_FIFTHS: u32 = 4;
/// Heartbeats for each lease.
const HEARTBEATS: u32 = 4;
/// Notices after which a heartbeat acknowledges them before its time: a coordinator takes a worker
/// for lost that has many of them unacknowledged, and cuts may follow one another quickly.
const ACKNOWLEDGE_AFTER: u64 = 16;
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
    pub(crate) labels: Vec<String>,
    pub(crate) graph: u64,
    pub(crate) process: Option<ProcessIdentity>,
    /// Every operator of the graph.
    pub(crate) operators: BTreeMap<String, OperatorFacts>,
}

/// What the machine must know of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperatorFacts {
    pub(crate) start: bool,
    /// It is not part of the region: it runs, and takes no part in cuts.
    pub(crate) autonomous: bool,
    /// It must know when tuples may flow, because it gives out permits.
    pub(crate) permits: bool,
    pub(crate) width: u16,
    pub(crate) state_type: &'static str,
    pub(crate) state_version: u32,
    pub(crate) oldest_state_version: u32,
    pub(crate) rescale: Rescale,
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
    Deaf {
        launch: u64,
    },
    /// The worker is to stop.
    Stop,
    /// The coordinator has taken note that it does, or has not answered.
    LeaveAnswered,
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
        launch: u64,
    },
    /// Wire the streams and reset every instance.
    Reset {
        stamp: Stamp,
        placement: Placement,
        restores: Vec<Restoring>,
    },
    Drain {
        launch: u64,
        stamp: Stamp,
        last: bool,
        completed: u64,
    },
    Resume {
        launch: u64,
        seq: u64,
    },
    Abandoned {
        launch: u64,
        seq: u64,
    },
    /// A start operator takes nothing in while it is held.
    Hold {
        launch: u64,
        held: bool,
    },
    Checkpointed {
        launch: u64,
        seq: u64,
        oldest_retained: u64,
    },
    /// There is nothing more to do.
    Finish(WorkerEnd),
    /// Tell the coordinator, with what has no successor; answered by [`Event::LeaveAnswered`].
    Leave(Progress),
}

/// What an instance is set to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Restoring {
    pub(crate) launch: u64,
    pub(crate) instance: InstanceId,
    pub(crate) restore: Restore,
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
    instance: Arc<InstanceId>,
    facts: OperatorFacts,
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
    /// Notices taken since the last heartbeat was sent.
    unacknowledged: u64,
    outbox: VecDeque<(Stamp, ProgressEvent)>,
    /// What the coordinator is being told; repeated until it has taken it.
    telling: Option<Telling>,
    progress_at: Duration,
    stamp: Stamp,
    completed: u64,
    /// The instances, by the number of their launch.
    slots: BTreeMap<u64, Slot>,
    launches: u64,
    /// Who has not reached the restore point; `None` when no reset is under way.
    resetting: Option<BTreeSet<u64>>,
    round: Option<Round>,
    committing: Option<(u64, BTreeSet<u64>)>,
    /// Something failed since the last reset.
    failed: bool,
    ended: BTreeSet<u64>,
    cut_wanted: bool,
    /// Start operators are held: the coordinator said so.
    sources_paused: bool,
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
            unacknowledged: 0,
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
            sources_paused: false,
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
            Event::Deaf { launch } => self.deaf(launch),
            Event::Stop => self.stop(),
            Event::LeaveAnswered => self.left(),
            Event::StreamBroken { attempt, reason } => {
                if attempt == self.stamp.attempt && !self.failed {
                    self.fail(None, reason, false);
                }
            }
        }
        self.send_due(now);
        std::mem::take(&mut self.actions)
    }
}
