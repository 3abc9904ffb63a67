//! What passes through a channel.

use serde::{Deserialize, Serialize};

/// A batch or a marker, and the channel of the plan that it came by.
#[derive(Debug)]
pub(crate) struct Element<T> {
    pub(crate) channel: usize,
    pub(crate) item: Item<T>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item<T> {
    /// 1 to [`BATCH_TUPLES`](super::BATCH_TUPLES) tuples.
    Batch(Vec<T>),
    /// No tuple of the cut follows on this channel.
    Marker(Marker),
}

/// The drain marker of a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(crate) seq: u64,
    pub(crate) last: bool,
    /// The complete cut before this one.
    pub(crate) completed: u64,
}
