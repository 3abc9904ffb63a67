//! What coordinator and workers say to each other: plain data, no rules.
//!
//! Every message carries who may say it (`term` of the coordinator, `worker_epoch` of the worker's
//! registration) and what it is about ([`Stamp`]). Receivers drop and count what is older than what
//! they know (S3 of the semantics list, issue 7): a late message is never fatal.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::manifest::{CommitToken, ObjectRecord, RestorePoint};
use crate::process::ProcessIdentity;

/// Which round a message belongs to.
///
/// Ordered by term, then sequence number, then attempt: the newer stamp wins.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Stamp {
    /// The coordinator's term: the epoch of its leadership. A new leader has a higher one.
    pub term: u64,
    /// The cut this is about. Strictly increasing for the life of a region; an aborted cut's
    /// number is never used again.
    pub seq: u64,
    /// Counts the resets of the region; strictly increasing for its life, also from one term to
    /// the next. Names the streams' generation: tuples of an older attempt are refused.
    pub attempt: u64,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.term, self.seq, self.attempt)
    }
}

/// One instance of an operator: `totals[1]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId {
    /// The operator's name in the graph.
    pub operator: String,
    /// 0 ≤ index < the operator's width.
    pub index: u16,
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.operator, self.index)
    }
}

/// Where the operators of one attempt run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// One entry for every instance of the graph.
    pub instances: Vec<Placed>,
}

/// An instance and the worker that runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The instance.
    pub instance: InstanceId,
    /// The worker's name.
    pub worker: String,
    /// The worker's registration at that time; streams from an older one are refused.
    pub worker_epoch: u64,
    /// Where the worker's stream endpoint listens (`lockkeeper://host:port/…`); empty when the
    /// whole region runs in one process.
    pub address: String,
}

/// A worker offers itself (worker → coordinator).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Register {
    /// The region's name.
    pub region: String,
    /// The worker's name, unique in the region. A restarted process keeps its name.
    pub worker: String,
    /// New for every start of the process.
    pub incarnation: Uuid,
    /// The address of the worker's endpoint; empty inside one process.
    pub address: String,
    /// How many operator instances it takes.
    pub slots: u16,
    /// What it has to offer: operators that need a label run only on workers that have it.
    pub labels: Vec<String>,
    /// Fingerprint of the graph it was built with; another one is refused.
    pub graph: u64,
    /// Counts the registrations of this incarnation: an older one that arrives late is ignored.
    pub attempt: u64,
    /// The newest stamp whose notice it carried out, and whether all its instances are running at
    /// it: what a new leader needs to go on without a reset (S22).
    pub standing: Option<Standing>,
    /// The worker's process, by which a coordinator on the same host knows that it has ended
    /// before its lease has; `None`: only the lease tells.
    pub process: Option<ProcessIdentity>,
}

/// What a registering worker already runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The attempt and sequence number it runs at.
    pub stamp: Stamp,
    /// The newest cut that it knows as complete.
    pub completed: u64,
    /// Its instances, all of them alive and not mid-round.
    pub instances: Vec<InstanceId>,
    /// Those among them that have produced their last tuple ([`ProgressEvent::Ended`]).
    pub ended: Vec<InstanceId>,
    /// One of them waits for a cut that it asked for ([`ProgressEvent::CutWanted`]).
    pub cut_wanted: bool,
}

/// The answer to [`Register`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registered {
    /// The coordinator's term.
    pub term: u64,
    /// Names this registration in every later message.
    pub worker_epoch: u64,
    /// How long the worker may act after the *send* time of its last answered heartbeat.
    pub lease: Duration,
    /// The region is paused by hand: its start operators are to take nothing in.
    pub sources_paused: bool,
}

/// Renews the lease and acknowledges notices (worker → coordinator), every quarter of the lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The worker's name.
    pub worker: String,
    /// Its registration.
    pub worker_epoch: u64,
    /// The highest notice number that it has taken; lower ones are not sent again.
    pub acknowledged: u64,
}

/// The answer to [`Heartbeat`]: notices that were not acknowledged come again here, so that a lost
/// push heals (S23).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// The coordinator's term.
    pub term: u64,
    /// All notices above `acknowledged`, in order.
    pub notices: Vec<Notice>,
    /// As [`Registered::sources_paused`].
    pub sources_paused: bool,
}

/// An order to one worker (coordinator → worker). Numbered from 1 for each registration; taken in
/// order, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Its number within the registration.
    pub number: u64,
    /// The registration it is meant for.
    pub worker_epoch: u64,
    /// What it is about.
    pub stamp: Stamp,
    /// The order.
    pub order: Order,
}

/// What a worker is told to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Close the streams of every older attempt, run exactly the instances placed on you, set them
    /// to `restore`, open the streams of this attempt, stay paused, then say `ResetDone`.
    Reset {
        /// Where everything runs in this attempt.
        placement: Placement,
        /// The cut to go back to; `None` is the initial state.
        restore: Option<RestorePoint>,
        /// The region has never run: `reset_to_initial_state` is not called (S14).
        first_start: bool,
    },
    /// Start operators: pause, and send the drain marker `stamp.seq` after the last tuple.
    /// Sent to every worker; those without start operators begin with the first marker and only
    /// note `last` here.
    Drain {
        /// No cut follows this one: the region ends with it, or is stopped by request.
        last: bool,
        /// The complete cut before it; 0: none. Travels with the marker, because the news of its
        /// completion may reach an operator later than the marker does.
        completed: u64,
    },
    /// Start operators: go on; tuples now belong to cut `stamp.seq`. Sent to every worker. A new
    /// coordinator that goes on without a reset sends it too: adopt its term, nothing else.
    Resume,
    /// The manifest of `seq` is published: commit, tell `region_checkpointed(seq)`, and forget
    /// what is older than `oldest_retained`.
    Checkpointed {
        /// The cut that is complete.
        seq: u64,
        /// The oldest cut that may still be restored: sources acknowledge up to it, not further.
        oldest_retained: u64,
    },
    /// The cut `seq` came to nothing, and the region goes on without a reset: what was prepared for
    /// it belongs to the next cut.
    Abandoned {
        /// The cut.
        seq: u64,
    },
    /// The reset attempts are used up: stay paused until an operator of the system acts.
    ResetFailed {
        /// Why the last attempt failed.
        reason: String,
    },
    /// The region has ended: stop the instances and forget the registration.
    End,
}

/// What happened at a worker (worker → coordinator).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The worker's name.
    pub worker: String,
    /// Its registration.
    pub worker_epoch: u64,
    /// The round it is about.
    pub stamp: Stamp,
    /// What happened.
    pub event: ProgressEvent,
}

/// See [`Progress`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ProgressEvent {
    /// All its instances have drained and prepared: processing may go on while they write.
    BlockingCheckpointDone,
    /// All its instances' objects and staged outputs are durable.
    CheckpointDone {
        /// One record for each stateful instance.
        objects: Vec<ObjectRecord>,
        /// One token for each sink instance that staged something.
        tokens: Vec<CommitToken>,
        /// How long each step took.
        timings: Vec<InstanceTimings>,
    },
    /// All its instances stand at the restore point, the streams of the attempt are open.
    ResetDone,
    /// `Checkpointed { seq }` was carried out: outputs are committed.
    Committed {
        /// The cut.
        seq: u64,
    },
    /// An instance has prepared for the cut, but its state or output could not be made durable. The
    /// instance itself is well.
    CutFailed {
        /// Which one.
        instance: InstanceId,
        /// What went wrong, for people.
        reason: String,
    },
    /// An instance failed: the round can't complete.
    Failed {
        /// Which one; `None` when the worker itself failed.
        instance: Option<InstanceId>,
        /// What went wrong, for people.
        reason: String,
        /// A reset can't help (another database behind the source, an undecodable row with
        /// `on_bad_row = Fail`): the region goes to its failed state.
        permanent: bool,
    },
    /// An operator asks for a cut now: its source's buffer fills, or it is operator driven.
    CutWanted {
        /// Who asks.
        instance: InstanceId,
    },
    /// An operator asks for a reset.
    ResetWanted {
        /// Who asks.
        instance: InstanceId,
        /// Why.
        reason: String,
    },
    /// A start operator has produced its last tuple; it still takes part in rounds.
    Ended {
        /// Which one.
        instance: InstanceId,
    },
    /// The worker was stopped: nothing of it acts any more, and nobody has to wait for it.
    Left,
}

/// Where the time of a round went in one instance; all in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceTimings {
    /// The instance.
    pub instance: InstanceId,
    /// From the worker's notice (or first marker) to the start of `drain`.
    pub start_delay: u64,
    /// `drain` and `prepare`: the pause that tuples see.
    pub blocking: u64,
    /// Writing the object and staging output.
    pub write: u64,
    /// Bytes written.
    pub bytes: u64,
    /// The part of `blocking` that `drain` took.
    #[serde(default)]
    pub drain: u64,
    /// The part of `blocking` that `prepare` took.
    #[serde(default)]
    pub prepare: u64,
    /// Batches, not microseconds: how many waited at its receivers in front of the marker when it
    /// was sent on. For a start operator that is the depth of the queues when the cut was
    /// triggered; a receiver in another process is seen as far as the stream to it. Those that a
    /// receiver has taken at once and not processed yet, seven at most, are not counted.
    #[serde(default)]
    pub queued: u64,
}

/// Why the coordinator does not take a message. Typed by what the worker does next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The registration is over (lease lost, or the process was replaced): register anew.
    #[error("worker {worker} is not registered under epoch {worker_epoch}: register anew")]
    NotRegistered {
        /// The worker's name.
        worker: String,
        /// The epoch it used.
        worker_epoch: u64,
    },
    /// Another process with this name holds a live lease: wait, or take another name.
    #[error("another process named {worker} holds a live lease for {remaining:?} more")]
    NameInUse {
        /// The name.
        worker: String,
        /// How long that lease still lasts.
        remaining: Duration,
    },
    /// The worker was built with another graph: deploy the same program everywhere.
    #[error("the worker's graph has fingerprint {theirs:016x}, this region's has {ours:016x}")]
    AnotherGraph {
        /// The region's.
        ours: u64,
        /// The worker's.
        theirs: u64,
    },
    /// The coordinator serves another region.
    #[error("this coordinator serves region {ours}, not {theirs}")]
    AnotherRegion {
        /// The coordinator's.
        ours: String,
        /// The worker's.
        theirs: String,
    },
    /// The coordinator is no leader (any more): find the leader and ask there.
    #[error("this coordinator does not lead")]
    NotLeading,
}
