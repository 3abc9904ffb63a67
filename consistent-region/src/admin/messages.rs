//! The gateway of a region's operators: what can be asked, and what is answered.

use std::time::Duration;

use actix::Message;
use lockkeeper_core::rpc_gateway;
use serde::{Deserialize, Serialize};

use crate::coordinator::{CommandRefused, RegionStatus};

rpc_gateway! {
    /// What an operator asks of a region.
    ///
    /// A command is answered when it is done, not when it has begun: give the call a limit that
    /// a cut or a reset of your region can keep. A caller that gives up changes nothing: the
    /// command goes on.
    pub RegionAdminGateway("lockkeeper.region.Admin", version = 1) {
        GetRegion, TakeCut, ResetRegion, PauseSources, ResumeSources, TakeSavepoint, RestoreSavepoint, ForgetSavepoint,
        StopRegion
    }
}

/// How does the region stand?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "RegionReport")]
pub struct GetRegion;

/// The region as one of its coordinators sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionReport {
    /// Whether this coordinator leads. If it does not, `status` is what it knew last, and out of
    /// date.
    pub leads: bool,
    /// How the region stands.
    pub status: RegionStatus,
}

/// Take a cut now, or as soon as tuples flow again. Answered when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<CutTaken, AdminRefused>")]
pub struct TakeCut;

/// A cut that began after it was asked for, and is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutTaken {
    /// Its number.
    pub seq: u64,
    /// How long tuples stood still.
    pub pause: Duration,
    /// From its beginning until it was durable.
    pub took: Duration,
    /// Bytes of state.
    pub bytes: u64,
}

/// Set the region back to its newest cut. Answered when its operators go on from there.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<ResetDone, AdminRefused>")]
pub struct ResetRegion {
    /// Grants new attempts, and takes a failed region up again.
    pub force: bool,
    /// For logs and events.
    pub reason: String,
}

/// All operators stand at a cut and go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetDone {
    /// The reset's number.
    pub attempt: u64,
    /// The cut that they were set back to; 0: the state before the first tuple.
    pub restored: u64,
    /// From the reset's beginning.
    pub took: Duration,
}

/// Take nothing in from now on, as
/// [`CoordinatorHandle::pause_sources`](crate::coordinator::CoordinatorHandle::pause_sources) says.
/// Answered when the coordinator holds to it; each worker does with its next heartbeat, within a
/// quarter of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<(), AdminRefused>")]
pub struct PauseSources;

/// Take in again what comes; no error in a region that is not paused. Answered like
/// [`PauseSources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<(), AdminRefused>")]
pub struct ResumeSources;

/// Take a cut and keep it under a name. Answered when it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<SavepointKept, AdminRefused>")]
pub struct TakeSavepoint {
    /// 1 to 64 letters, digits, `_` and `-`.
    pub name: String,
}

/// A cut is kept under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavepointKept {
    /// The name.
    pub name: String,
    /// The cut.
    pub seq: u64,
}

/// Set the region back to a savepoint. Answered when its operators go on from there.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<ResetDone, AdminRefused>")]
pub struct RestoreSavepoint {
    /// The savepoint.
    pub name: String,
}

/// Forget a savepoint; one that is not there is no error.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<(), AdminRefused>")]
pub struct ForgetSavepoint {
    /// The savepoint.
    pub name: String,
}

/// Take a final cut and end the region; started again it goes on from there. Answered when the
/// final cut is committed.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<RegionEnded, AdminRefused>")]
pub struct StopRegion {
    /// Keep the final cut under this name as well.
    pub savepoint: Option<String>,
}

/// The region has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionEnded {
    /// Its final cut.
    pub seq: u64,
}

/// Why a command was not carried out, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum AdminRefused {
    /// The coordinator did not take it: nothing has changed.
    #[error(transparent)]
    Command(#[from] CommandRefused),
    /// It was begun and came to nothing.
    #[error("{reason}")]
    CameToNothing {
        /// What happened instead.
        reason: String,
    },
    /// The leadership, or the coordinator, ended before it was done. The next leader may not know of
    /// it: look at the status, and ask again.
    #[error(
        "the coordinator led no longer before it was done; whoever leads now may not know of it"
    )]
    LeadershipLost,
}
