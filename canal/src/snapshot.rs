//! Rows from before the start, merged into the stream of changes: [`SnapshotThenStream`].
//!
//! Canal hands out changes from its position on. What a table held before, and was not changed
//! since, has to be read by SQL; and as changes go on meanwhile, rows and changes have to be put
//! together so that none is lost and none comes twice.

mod actor;
mod driver;
mod entries;
mod error;
mod intake;
mod key;
mod merge;
mod reader;
mod settings;
mod sql;
mod state;
mod status;

pub use actor::{
    GetSnapshotStatus, SnapshotThenStream, StopSnapshot, WaitForSnapshotEnd, WaitForStreaming,
};
pub use entries::is_snapshot;
pub use error::SnapshotError;
pub use settings::{SnapshotDatabase, SnapshotSettings};
pub use state::{FileSnapshotStore, SnapshotState, SnapshotStore};
pub use status::{SnapshotEnd, SnapshotPhase, SnapshotStatus};
