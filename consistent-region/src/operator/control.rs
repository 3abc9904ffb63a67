//! What a worker tells its instances, and what they report.

use tokio::sync::mpsc;

use crate::graph::spec::Erased;
use crate::manifest::ObjectRecord;
use crate::protocol::{InstanceTimings, Stamp};
use crate::state::SavedObject;

/// Orders that wait for an instance; one that leaves so many untaken has failed.
pub(crate) const CONTROL_CAPACITY: usize = 64;

/// An order to one instance. Taken between two batches.
pub(crate) enum Control {
    /// Close the streams of the attempt before, stand at `restore`, open these streams, pause.
    Reset(Box<Reset>),
    /// A start operator pauses and drains.
    Drain {
        stamp: Stamp,
        last: bool,
        completed: u64,
    },
    /// Tuples may flow again; they belong to cut `seq`. Start operators go on, permits are given
    /// out.
    Resume { seq: u64 },
    /// The cut is complete in the whole region: commit and tell the operator.
    Checkpointed { seq: u64, oldest_retained: u64 },
    /// A start operator takes nothing in while it is held, whatever else it is told.
    Hold { held: bool },
    /// The cut came to nothing, and the region goes on without a reset.
    Abandoned { seq: u64 },
}

/// See [`Control::Reset`].
pub(crate) struct Reset {
    pub(crate) stamp: Stamp,
    /// The receiver of the input port; `None` for start operators.
    pub(crate) input: Option<Erased>,
    /// The receivers of the ports besides, in their order.
    pub(crate) sides: Vec<Erased>,
    /// The channels that end in the input port: so many markers make a drain complete.
    pub(crate) channels: Vec<usize>,
    /// One route for each connection.
    pub(crate) routes: Vec<Erased>,
    pub(crate) restore: Restore,
}

/// The state that an instance is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Restore {
    /// The operator is not part of the region: its state stays as it is, its streams are new.
    Keep,
    /// The region has never run.
    First,
    /// The state before the first tuple.
    Initial,
    /// A cut; without an object for an operator that wrote none, with several when it had another
    /// width.
    Cut {
        seq: u64,
        oldest_retained: u64,
        objects: Vec<SavedObject>,
        tokens: Vec<Vec<u8>>,
        /// The operator had another width.
        rescaled: bool,
    },
}

impl Restore {
    /// The cut that the region stands at; 0 before the first.
    pub(crate) fn seq(&self) -> u64 {
        match self {
            Self::Keep | Self::First | Self::Initial => 0,
            Self::Cut { seq, .. } => *seq,
        }
    }

    pub(crate) fn oldest_retained(&self) -> u64 {
        match self {
            Self::Keep | Self::First | Self::Initial => 0,
            Self::Cut {
                oldest_retained, ..
            } => *oldest_retained,
        }
    }
}

/// What happened at an instance.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    /// Counts the starts of instances at this worker: names the instance, and tells it from its
    /// predecessor.
    pub(crate) launch: u64,
    /// The round it is about; its term is that of the last reset.
    pub(crate) stamp: Stamp,
    pub(crate) event: InstanceEvent,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum InstanceEvent {
    /// Drained and prepared.
    Prepared,
    /// Drained and prepared, and there is nothing to write for the cut; nothing is owed for the one before.
    NothingToWrite { timings: Box<InstanceTimings> },
    /// State and output of the cut are durable.
    Durable {
        object: Option<ObjectRecord>,
        token: Option<StagedToken>,
        timings: Box<InstanceTimings>,
    },
    /// The cut can't be written; the instance itself is well.
    CutFailed { reason: String },
    /// Stands at the restore point with open streams.
    ResetDone,
    /// The output of the cut is committed and the operator knows that it is complete.
    Committed { seq: u64 },
    /// Can't go on in this attempt. `alive`: can be reset in place.
    Failed {
        reason: String,
        permanent: bool,
        alive: bool,
    },
    /// Has produced its last tuple.
    Ended,
    /// Asks for a cut.
    CutWanted,
    /// Asks for a reset.
    ResetWanted { reason: String },
}

/// What a sink has staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StagedToken {
    pub(crate) token: Vec<u8>,
    pub(crate) can_take_back: bool,
}

/// An instance's way to its worker.
///
/// The channel has no bound of its own: an instance answers each order with a fixed number of
/// reports, and wishes are sent once until they are granted.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    pub(crate) launch: u64,
    pub(crate) reports: mpsc::UnboundedSender<Report>,
}

impl Reporter {
    pub(crate) fn report(&self, stamp: Stamp, event: InstanceEvent) {
        // A worker that is gone wants no reports.
        let _ = self.reports.send(Report {
            launch: self.launch,
            stamp,
            event,
        });
    }
}
