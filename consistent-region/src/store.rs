//! Where checkpoint objects lie: one trait for every back end.
//!
//! All calls block; the region's actors run them off their arbiters.
//!
//! | store | for | what can be lost |
//! |---|---|---|
//! | [`FileStore`] | the processes of one host | all of it, with the disk |
//! | `RedisStore` (feature `redis`) | several hosts, small state | what a fail-over or a restored copy lacks; it is noticed |
//! | `ObjectStorageStore` (features `object-store`, `s3`) | several hosts, large state | nothing that was answered |
//! | [`RecordStore`] | other places that have a guard store | as there |
//! | [`MemoryStore`] | tests, and regions that need not survive their process | all of it, with the process |
//!
//! [`write_state`] and [`read_state`] are how operators' state is written, compressed where that
//! pays, and read back; [`read_verified`] reads what is stored.

#[cfg(any(test, feature = "testing"))]
pub mod contract;
#[cfg(any(test, feature = "testing"))]
mod failing;
mod file;
mod memory;
mod name;
#[cfg(feature = "object-store")]
mod object_storage;
mod records;
#[cfg(feature = "redis")]
mod redis;
mod state;
mod verify;

use std::io;
use std::io::{Read, Write};
use std::sync::Arc;

use lockkeeper_fencing::guard::GuardStore;

#[cfg(any(test, feature = "testing"))]
pub use self::failing::FailingStore;
pub use self::file::FileStore;
pub use self::memory::MemoryStore;
pub(crate) use self::name::plain_name;
pub use self::name::{ObjectName, object_name};
#[cfg(feature = "object-store")]
pub use self::object_storage::ObjectStorageStore;
#[cfg(all(feature = "s3", any(test, feature = "testing")))]
pub use self::object_storage::S3Server;
pub use self::records::RecordStore;
#[cfg(feature = "redis")]
pub use self::redis::{RedisSettings, RedisStore};
pub use self::state::{Compression, Encoding, read_state, write_state};
pub use self::verify::{VerifyingReader, read_verified, verify};

/// Writes the content of an object.
pub type WriteObject<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// A place for checkpoint objects of one region.
pub trait CheckpointStore: Send + Sync + std::fmt::Debug + 'static {
    /// Creates `name` with what `write` writes and makes it durable before it returns.
    ///
    /// The name must be new: names hold (seq, term, attempt), so that no two writers share one
    /// (see [`object_name`]). When it fails, there is no object of that name.
    /// A failed flush to the medium is an error and is never tried again as if it had not failed.
    fn write_object(&self, name: &str, write: WriteObject<'_>) -> Result<Written, StoreError>;

    /// Opens `name` for reading from its start.
    fn read_object(&self, name: &str) -> Result<Box<dyn Read + Send>, StoreError>;

    /// The names of all objects, in no order.
    fn list_objects(&self) -> Result<Vec<String>, StoreError>;

    /// Removes `name`; an object that is not there is no error.
    fn remove_object(&self, name: &str) -> Result<(), StoreError>;

    /// Removes what writers that died have left half-written, if `of` says so for the name that
    /// the object would have got. Returns how many there were.
    fn remove_unfinished(&self, of: &dyn Fn(&str) -> bool) -> Result<usize, StoreError>;

    /// Where the region's log lies: what the coordinators guard with fences (see
    /// [`lockkeeper_fencing::guard`]). Each call opens it anew.
    fn guard_store(&self) -> Result<Arc<dyn GuardStore>, StoreError>;

    /// How operators' state is to be written ([`write_state`]).
    fn compression(&self) -> Compression {
        Compression::default()
    }

    /// Names the back end and the place in logs and errors.
    fn location(&self) -> String;
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Length in bytes.
    pub length: u64,
    /// CRC-32 (IEEE) of the bytes.
    pub crc32: u32,
}

/// Why a store could not do its work. Typed by what the caller can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The object is not there: fall back to an older cut.
    #[error("{location}: object {name} is missing")]
    Missing {
        /// The store.
        location: String,
        /// The object.
        name: String,
    },
    /// The object is there, but not as it was written: fall back to an older cut.
    #[error("{location}: object {name} is damaged: {what}")]
    Damaged {
        /// The store.
        location: String,
        /// The object.
        name: String,
        /// What does not fit.
        what: String,
    },
    /// Somebody else wrote this name: never expected, never overwritten.
    #[error("{location}: object {name} exists already")]
    Exists {
        /// The store.
        location: String,
        /// The object.
        name: String,
    },
    /// The medium failed: full, read-only, gone. The round is aborted.
    #[error("{location}: {name}: {source}")]
    Io {
        /// The store.
        location: String,
        /// The object or folder.
        name: String,
        /// The system's own error.
        #[source]
        source: io::Error,
    },
    /// The name can't be one: use [`object_name`].
    #[error("{location}: {name:?} is no object name: {what}")]
    BadName {
        /// The store.
        location: String,
        /// The name.
        name: String,
        /// The rule it breaks.
        what: &'static str,
    },
}
