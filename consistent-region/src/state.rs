//! State of operators that is large, keyed, or restored at another width.
//!
//! - [`KeyedState`]: a map by key group whose cut is taken at once and written while it changes
//! - [`Saved`], [`Loader`]: how state is read back without holding it in memory twice, and off the
//!   actor's thread
//! - [`Rescale`]: what an operator does when it is restored with another number of instances
//! - [`read_entries`]: the entries of a saved [`KeyedState`], for people and tools

mod format;
mod keyed;
mod saved;
mod shard;
mod table;

pub(crate) use format::is_keyed;
pub use format::{SavedEntry, read_entries};
pub use keyed::KeyedState;
pub(crate) use saved::SavedObject;
pub use saved::{Loaded, Loader, Rescale, Saved, SavedPart};
