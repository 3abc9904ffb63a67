//! The coordinator of a region: decides when to drain, what is a complete cut, and what to go back
//! to.
//!
//! - `machine`: the rules, pure
//! - [`RegionCoordinator`]: the actor that carries them out; [`CoordinatorHandle`]: how it is held
//! - `ElectedCoordinator` (feature `remote`): one that contends for leadership
//! - `publisher`, `scribe`, `codec`: the guarded log in the store
//! - `members`, `outbox`, `placement`, `record`: the machine's parts, pure as well
//! - [`Savepoint`]: cuts that are kept under a name
//! - [`CoordinatorSettings`]: what a region's owner decides
//! - [`RegionStatus`], [`RegionEvent`]: what can be seen; `shown`: the same for a console;
//!   `measure`: metrics

mod actor;
mod codec;
#[cfg(feature = "remote")]
mod elected;
mod event;
mod handle;
mod machine;
mod measure;
mod members;
mod outbox;
mod placement;
mod publisher;
mod record;
mod savepoint;
mod scribe;
mod settings;
mod shown;
mod status;
#[cfg(test)]
mod tests;

pub use self::actor::RegionCoordinator;
#[cfg(feature = "_fuzzing")]
pub(crate) use self::codec::seal_line;
pub(crate) use self::codec::{decode as decode_entry, encode as encode_entry};
#[cfg(feature = "remote")]
pub use self::elected::{ElectedCoordinator, StartElectedError};
pub use self::event::CommandRefused;
pub use self::handle::{CoordinatorEnd, CoordinatorHandle};
pub use self::publisher::EnterError;
pub use self::record::{Claim, ENTRY_FORMAT, Entry, Record, Retained};
pub use self::savepoint::{Savepoint, copy_savepoint, list_savepoints, read_savepoint};
pub use self::settings::{CoordinatorSettings, InstanceShape, SettingsError, Shape};
pub use self::status::{
    CompletedCut, RegionEvent, RegionState, RegionStatus, RoundPhase, RoundStatus, WorkerStatus,
};
