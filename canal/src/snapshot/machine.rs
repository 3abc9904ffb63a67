//! The machine that puts rows and changes together, in either way.

use super::error::SnapshotError;
use super::merge::{Merge, Merged, Settled};
use super::moments::Moments;
use super::state::SnapshotState;
use crate::entry::Entry;

/// Cheap to clone: a batch is merged into a copy, which replaces the machine when the batch was
/// handled.
#[derive(Clone)]
pub(super) enum Machine {
    Watermarks(Merge),
    Moments(Moments),
}

impl Machine {
    pub(super) fn state(&self) -> &SnapshotState {
        match self {
            Self::Watermarks(merge) => merge.state(),
            Self::Moments(moments) => moments.state(),
        }
    }

    /// Whether batches wait until all rows are read.
    pub(super) fn holds_batches(&self) -> bool {
        matches!(self, Self::Moments(_)) && !self.state().is_done()
    }

    pub(super) fn merge(&mut self, batch: Vec<Entry>) -> Result<Merged, SnapshotError> {
        match self {
            Self::Watermarks(merge) => merge.merge(batch),
            Self::Moments(moments) => moments.merge(batch),
        }
    }

    /// Chunks of a batch, before the handler may have their rows.
    pub(super) fn attempt(&mut self, chunks: &[Settled]) {
        if let Self::Watermarks(merge) = self {
            merge.attempt(chunks);
        }
    }
}
