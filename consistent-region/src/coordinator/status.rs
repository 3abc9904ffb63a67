//! What can be seen of a region: its state now, and what happens to it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::protocol::{InstanceId, InstanceTimings};

/// Where a region stands. The names are the reference's, with the end added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RegionState {
    /// The coordinator begins its term: its record is not durable yet.
    Opening,
    /// It waits for its workers.
    Started,
    /// Tuples flow.
    Processing,
    /// A round is under way; tuples are paused.
    Draining,
    /// A round is under way; tuples flow again, state is still being written.
    CheckpointPending,
    /// The operators are being set back.
    Resetting,
    /// Some instances have no worker.
    Unhealthy,
    /// The reset attempts are used up, or a reset can't help; paused until a forced reset.
    Failed,
    /// The last cut is complete and is being committed.
    Ending,
    /// The region has ended.
    Completed,
}

/// A region as its coordinator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionStatus {
    /// The region's name.
    pub region: String,
    /// The coordinator's term.
    pub term: u64,
    /// Where it stands.
    pub state: RegionState,
    /// Why, in the states that have a reason.
    pub reason: Option<String>,
    /// The cut that tuples now belong to.
    pub seq: u64,
    /// The newest completed cut; 0: none.
    pub completed: u64,
    /// The oldest cut that may be restored; 0: none.
    pub oldest_retained: u64,
    /// Resets of the region so far.
    pub attempt: u64,
    /// Resets since the last completed cut.
    pub consecutive_resets: u32,
    /// The registered workers.
    pub workers: Vec<WorkerStatus>,
    /// Instances that do not run: there is no free slot for them, or their worker is gone.
    pub waiting: Vec<InstanceId>,
    /// Messages dropped because they were older than what is known; never fatal.
    pub stale_messages: u64,
    /// The region has completed, and every worker that was there knows so.
    pub finished: bool,
    /// The round under way.
    pub round: Option<RoundStatus>,
    /// Since when the sources are paused by hand, in milliseconds since 1970.
    pub sources_paused_since_unix_ms: Option<u64>,
}

/// How far a round is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundStatus {
    /// The cut that it takes.
    pub seq: u64,
    /// No cut follows it.
    pub last: bool,
    /// How far each worker that takes part is, by its name.
    pub workers: Vec<(String, RoundPhase)>,
    /// Everybody is done; the manifest is being written.
    pub publishing: bool,
}

/// How far a worker is in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RoundPhase {
    /// Tuples that were under way are worked off.
    Draining,
    /// Its state is taken: tuples could flow again. It is being written.
    Writing,
    /// Its state is durable.
    Durable,
}

/// A registered worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its name.
    pub worker: String,
    /// Its registration.
    pub worker_epoch: u64,
    /// Its address; empty inside one process.
    pub address: String,
    /// What it runs.
    #[serde(with = "crate::shared")]
    pub instances: Arc<[InstanceId]>,
}

/// Something that happened to a region.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionEvent {
    /// The state changed.
    State {
        /// From.
        from: RegionState,
        /// To.
        to: RegionState,
        /// Why, if there is something to say.
        reason: Option<String>,
    },
    /// A worker has registered.
    WorkerJoined {
        /// Its name.
        worker: String,
        /// Its registration.
        worker_epoch: u64,
    },
    /// A worker is gone: its lease ended, its process ended, or it gave its registration up.
    WorkerLost {
        /// Its name.
        worker: String,
        /// How that is known.
        reason: String,
    },
    /// A round has begun.
    CutBegun {
        /// Its number.
        seq: u64,
        /// No cut follows it.
        last: bool,
    },
    /// A cut's manifest is published.
    CutCompleted(Box<CompletedCut>),
    /// A round came to nothing; its number is never used again.
    CutAborted {
        /// Its number.
        seq: u64,
        /// Why.
        reason: String,
    },
    /// Every worker has committed the last cut of the region, or of this run of it. Of the others it is not
    /// told: the next cut is complete only when they are committed.
    CutCommitted {
        /// The cut.
        seq: u64,
    },
    /// A reset has begun.
    ResetBegun {
        /// Its number.
        attempt: u64,
        /// Why.
        reason: String,
    },
    /// All operators stand at the restored cut and go on.
    ResetCompleted {
        /// Its number.
        attempt: u64,
        /// The cut that they were set back to; 0: the initial state.
        restored: u64,
        /// From the reset's beginning.
        took: Duration,
    },
    /// A new coordinator goes on with what its predecessor left running.
    WentOnWithoutReset {
        /// The cut that tuples belong to.
        seq: u64,
    },
    /// The sources were paused by hand: they take nothing in until that is over, or until this
    /// coordinator's term is.
    SourcesPaused,
    /// The sources go on.
    SourcesResumed,
    /// A completed cut is kept under a name.
    SavepointKept {
        /// The name.
        name: String,
        /// The cut.
        seq: u64,
    },
    /// A reset goes back to the cut that a savepoint holds.
    SavepointRestored {
        /// The cut.
        seq: u64,
    },
    /// A completed cut could not be read: an older one is used.
    FellBack {
        /// The cut that can't be read.
        from: u64,
        /// Why.
        reason: String,
    },
    /// The store failed; the coordinator tries again.
    StoreFailed {
        /// What it said.
        reason: String,
    },
    /// No cut has completed for three periods; told again after six, twelve and so on. The region
    /// may be waiting for workers, or its rounds or resets may take too long: `state` says which.
    NoCut {
        /// Since the last completed cut, or since this coordinator began to lead.
        since: Duration,
        /// Where the region stands.
        state: RegionState,
    },
    /// Every operator of the system has to know: see the state's reason.
    Failed {
        /// Why.
        reason: String,
    },
    /// The region has ended.
    Completed {
        /// Its last cut.
        seq: u64,
    },
}

/// A completed cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedCut {
    /// Its number.
    pub seq: u64,
    /// The region ends with it.
    pub last: bool,
    /// From the round's beginning until tuples could flow again.
    pub pause: Duration,
    /// From the round's beginning until the manifest was published.
    pub took: Duration,
    /// Bytes of state.
    pub bytes: u64,
    /// Where the time went, instance by instance.
    pub timings: Vec<InstanceTimings>,
}
