//! Where checkpoint objects lie: one trait for every back end.
//!
//! All calls block; the region's actors run them off their arbiters.

use std::io;
use std::io::{Read, Write};

/// Writes the content of an object.
pub type WriteObject<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// A place for checkpoint objects of one region.
pub trait CheckpointStore: Send + Sync + std::fmt::Debug + 'static {
    /// Creates `name` with what `write` writes and makes it durable before it returns.
    ///
    /// The name must be new: names hold (seq, term, attempt), so that no two writers share one.
    /// A failed flush to the medium is an error and is never tried again as if it had not failed.
    fn write_object(&self, name: &str, write: WriteObject<'_>) -> Result<Written, StoreError>;

    /// Opens `name` for reading from its start.
    fn read_object(&self, name: &str) -> Result<Box<dyn Read + Send>, StoreError>;

    /// The names of all objects, in no order.
    fn list_objects(&self) -> Result<Vec<String>, StoreError>;

    /// Removes `name`; an object that is not there is no error.
    fn remove_object(&self, name: &str) -> Result<(), StoreError>;

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
}
