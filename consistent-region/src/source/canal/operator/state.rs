//! What a checkpoint of the source holds.

use serde::{Deserialize, Serialize};

use crate::source::commands::Finished;
use crate::source::history::History;

/// What a checkpoint holds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::source::canal) struct Saved {
    pub(super) history: History,
    pub(super) ended: bool,
    /// The region ended with this cut: everything up to it may be acknowledged.
    #[serde(default)]
    pub(super) last: bool,
    #[serde(default)]
    pub(in crate::source::canal) changes: u64,
    #[serde(default)]
    pub(super) skips: Vec<Finished>,
    /// Where the last row lay, for people.
    #[serde(default)]
    pub(super) position: String,
    /// The history holds every change of rows, and not only those that the map had a use for.
    #[serde(default)]
    pub(super) counts_all: bool,
}

/// Position and changes in a state; see [`describe`](crate::source::describe).
pub(crate) fn describe(state: &[u8]) -> Option<(String, u64)> {
    let saved: Saved = rmp_serde::from_slice(state).ok()?;
    let ended = if saved.ended { ", ended" } else { "" };
    let rows = saved.history.end();
    Some((
        format!("{} after {rows} changes{ended}", saved.position),
        saved.changes,
    ))
}
