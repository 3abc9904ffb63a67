//! What goes into the coordinator's machine and what comes out of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::{Entry, Record, Retained};
use super::status::RegionEvent;
use crate::manifest::{Manifest, RestorePoint};
use crate::protocol::{
    Heartbeat, HeartbeatAnswer, Notice, Progress, Refusal, Register, Registered,
};

/// Names a request whose answer is waited for.
pub(crate) type RequestId = u64;

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Register {
        request: RequestId,
        register: Register,
    },
    Heartbeat {
        request: RequestId,
        heartbeat: Heartbeat,
    },
    Progress {
        request: RequestId,
        progress: Progress,
    },
    /// The entry of that number is durable and part of the log's chain.
    Appended {
        number: u64,
    },
    /// It certainly is not in the log.
    AppendFailed {
        number: u64,
        reason: String,
    },
    /// The answer to [`Action::ChooseRestorePoint`].
    Chosen {
        choice: u64,
        outcome: Choice,
    },
    /// The process of that registration is known to have ended.
    ProcessGone {
        worker: String,
        worker_epoch: u64,
    },
    ResetRequested {
        request: RequestId,
        force: bool,
        reason: String,
    },
    CutRequested {
        request: RequestId,
    },
    StopRequested {
        request: RequestId,
    },
    /// Start operators are to take nothing in.
    PauseRequested {
        request: RequestId,
        at_unix_ms: u64,
    },
    /// They are to go on.
    ResumeRequested {
        request: RequestId,
    },
    /// A cut (the last one, with `stop`) that is kept under a name.
    SavepointRequested {
        request: RequestId,
        name: String,
        stop: bool,
    },
    /// The answer to [`Action::KeepSavepoint`].
    SavepointKept {
        request: RequestId,
        name: String,
        seq: u64,
        outcome: Result<(), CommandRefused>,
    },
    RestoreRequested {
        request: RequestId,
        name: String,
    },
    /// The answer to [`Action::FindSavepoint`]: the cut that it holds.
    SavepointFound {
        request: RequestId,
        name: String,
        outcome: Result<u64, CommandRefused>,
    },
    ForgetSavepointRequested {
        request: RequestId,
        name: String,
    },
    /// The answer to [`Action::RemoveSavepoint`].
    SavepointRemoved {
        request: RequestId,
        outcome: Result<(), CommandRefused>,
    },
    /// Time has passed; nothing else happened.
    Tick,
}

/// What there is to go back to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Choice {
    /// The newest cut that can be read; `None`: there never was one.
    Restore {
        restore: Option<RestorePoint>,
        /// It is the region's last.
        last: bool,
        /// What is still retained, the chosen cut first.
        retained: Vec<Retained>,
        /// Newer cuts that can't be read, and why.
        left_out: Vec<(u64, String)>,
        /// The manifest when it comes from a savepoint: the log does not have it.
        manifest: Option<Box<Manifest>>,
    },
    /// The store does not answer: try again.
    Unavailable { reason: String },
    /// Nothing that may be restored can be read.
    Impossible { reason: String },
}

/// To be done, in this order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    AnswerRegister {
        request: RequestId,
        answer: Result<Registered, Refusal>,
    },
    AnswerHeartbeat {
        request: RequestId,
        answer: Result<HeartbeatAnswer, Refusal>,
    },
    AnswerProgress {
        request: RequestId,
        answer: Result<(), Refusal>,
    },
    AnswerCommand {
        request: RequestId,
        answer: Result<(), CommandRefused>,
    },
    Push {
        worker: String,
        notice: Notice,
    },
    /// Append to the log; one after the other, in this order.
    Append(Box<Entry>),
    /// Find the newest readable cut of `record`, or read that of the savepoint, reading every
    /// object.
    ChooseRestorePoint {
        choice: u64,
        record: Box<Record>,
        savepoint: Option<String>,
    },
    /// Keep a completed cut under a name.
    KeepSavepoint {
        request: RequestId,
        name: String,
        cut: Retained,
    },
    FindSavepoint {
        request: RequestId,
        name: String,
    },
    RemoveSavepoint {
        request: RequestId,
        name: String,
    },
    /// Remove what is older than `record` retains; whenever there is time.
    Tidy {
        record: Box<Record>,
    },
    Tell(RegionEvent),
}

/// Why a command is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum CommandRefused {
    /// The region is in its failed state: only a forced reset takes it up again.
    #[error("the region has failed ({reason}): only a forced reset takes it up again")]
    Failed {
        /// Why it failed.
        reason: String,
    },
    /// The region has ended.
    #[error("the region has ended")]
    Ended,
    /// The name can't be one: 1 to 64 letters, digits, `_` and `-`.
    #[error("{name:?} can't be the name of a savepoint: 1 to 64 letters, digits, `_` and `-`")]
    BadName {
        /// The name.
        name: String,
    },
    /// There is a savepoint of this name: take another name, or forget that one first.
    #[error("there is a savepoint {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// There is no such savepoint.
    #[error("there is no savepoint {name:?}")]
    NoSavepoint {
        /// The name.
        name: String,
    },
    /// Another savepoint is being taken: wait for its answer.
    #[error("savepoint {name:?} is being taken")]
    Busy {
        /// The other savepoint.
        name: String,
    },
    /// The region's sinks have committed cuts after the savepoint that they can't take back:
    /// going back would write outputs twice. Start another region from it
    /// ([`copy_savepoint`](super::copy_savepoint)).
    #[error(
        "the sinks have committed up to cut {committed} and can't take that back, the savepoint is \
         cut {savepoint}"
    )]
    CannotTakeBack {
        /// The savepoint's cut.
        savepoint: u64,
        /// The newest completed cut.
        committed: u64,
    },
    /// Sources have acknowledged rows of later cuts than the savepoint's, and what they read from
    /// does not give these again: going back would lose them. A region of its own that begins with
    /// the savepoint ([`copy_savepoint`](super::copy_savepoint)) needs a source that still has them.
    #[error(
        "rows up to cut {acknowledged} were acknowledged to a source that does not give them again, the \
         savepoint is cut {savepoint}"
    )]
    SourceMovedOn {
        /// The savepoint's cut.
        savepoint: u64,
        /// The newest cut whose rows may have been acknowledged.
        acknowledged: u64,
    },
    /// The store failed; the same may work later.
    #[error("the store failed: {reason}")]
    Store {
        /// What it said.
        reason: String,
    },
    /// This coordinator does not lead (any more): ask the leader.
    #[error("this coordinator does not lead the region")]
    NotLeading,
}

/// What was in the log when the term began.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Beginning {
    /// The newest usable entry's record, and the number of that entry and its term if it holds a
    /// manifest.
    pub(crate) record: Option<Record>,
    /// Newer entries that could not be used: the numbers that they gave out are not known.
    pub(crate) unusable_entries: u64,
}

/// A moment on the shell's clock.
pub(crate) type Moment = Duration;
