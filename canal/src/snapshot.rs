//! Rows from before the start, merged into the stream of changes: [`SnapshotThenStream`].
//!
//! Canal hands out changes from its position on. What a table held before, and was not changed
//! since, has to be read by SQL; and as changes go on meanwhile, rows and changes have to be put
//! together so that none is lost and none comes twice. There are two ways ([`SnapshotMode`]), each
//! with a machine of its own: `moments` for all tables as of one moment, and `merge` for chunks
//! between watermarks.

mod actor;
mod driver;
mod entries;
mod error;
mod intake;
mod key;
mod machine;
mod merge;
mod moment;
mod moments;
mod reader;
mod rest;
mod settings;
#[cfg(test)]
mod simulation;
mod sql;
mod state;
mod status;

pub use actor::{
    GetSnapshotStatus, SnapshotThenStream, StopSnapshot, WaitForSnapshotEnd, WaitForStreaming,
};
pub use entries::is_snapshot;
pub use error::SnapshotError;
pub use settings::{SnapshotDatabase, SnapshotMode, SnapshotSettings};
pub use state::{FileSnapshotStore, SnapshotState, SnapshotStore};
pub use status::{SnapshotEnd, SnapshotPhase, SnapshotStatus};
