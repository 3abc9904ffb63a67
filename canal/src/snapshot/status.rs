//! What a snapshot shows of itself.

use super::error::SnapshotError;

/// Why a [`SnapshotThenStream`](super::SnapshotThenStream) has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotEnd {
    /// It was stopped, or its last address was dropped.
    Stopped,
    /// What trying again does not repair, or not often enough.
    Failed(SnapshotError),
    /// The handler's actor is gone.
    RecipientClosed,
}

/// What it does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SnapshotPhase {
    /// It has not read its state yet.
    #[default]
    Starting,
    /// Rows are read, and changes of the rows that were handed out follow.
    Reading {
        /// The table of the chunk in work, as `schema.table`; empty before the first.
        table: String,
    },
    /// Every row was handed out: changes are all that comes.
    Streaming,
    /// It has ended.
    Ended(SnapshotEnd),
}

/// What a snapshot has done since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SnapshotStatus {
    /// What it does.
    pub phase: SnapshotPhase,
    /// Chunks that were handled.
    pub chunks: u64,
    /// Rows in them.
    pub rows: u64,
    /// Chunks that had to be read again.
    pub read_again: u64,
    /// What the database or the store said last, while it fails.
    pub error: Option<SnapshotError>,
}
