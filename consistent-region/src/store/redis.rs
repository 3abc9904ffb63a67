//! Objects on one Redis primary.

mod clock;
mod watched;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_fencing::guard::{GuardStore, RedisGuardStore};

use self::clock::Clock;
use self::watched::Watched;
use super::records::by_its_records;
use super::{Compression, RecordStore, StoreError};

/// Checkpoint objects as keys of one Redis server. Several processes on several hosts may use it at once.
///
/// Use it for small state and frequent cuts where a Redis is there anyway: state lies in the server's
/// memory, and each chunk of 4 MiB is one synced write of its log. Do not use it where a replica may be
/// promoted: replication is asynchronous, and what a promoted replica lacks is gone.
///
/// **What can be lost, and how it is noticed:**
/// - *Eviction, loss of power:* `maxmemory-policy noeviction`, `appendonly yes`, `appendfsync always` and the role
///   of a primary are checked at [`open`](Self::open) and with each new connection. A setting that is
///   changed later shows by what is missing.
/// - *A key that is gone or old:* [`StoreError::Missing`] and [`StoreError::Damaged`]; the region falls back
///   to the cut before.
/// - *The whole database is set back* (a copy restored, `FLUSHDB`, a replica promoted) under a store that is open:
///   a counter that grows with each record runs backwards. All further writes, listings and reads through this
///   store and its guard fail with [`StoreError::Io`] or the guard's error of the same text until the store is
///   opened anew: whether to go on from older cuts is for a person to decide. While no process has it open,
///   setting back the whole database can't be told from an older region; sources and sinks that remember what
///   was acknowledged and committed notice it then.
///
/// Keys begin with the prefix that is given. Listings pass over all keys of the database: give the region one of its own
/// (`redis://host/3`).
#[derive(Debug, Clone)]
pub struct RedisStore {
    records: RecordStore,
}

/// How a [`RedisStore`] works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// How long each answer of the server is waited for (5 s).
    pub timeout: Duration,
    /// The size of a chunk in bytes (4 MiB; 1 KiB to 32 MiB).
    pub chunk_bytes: usize,
    /// Ask the server whether its answers are durable (`true`). `false` is for servers that forbid
    /// `CONFIG`: then you have made sure of it.
    pub check_durability: bool,
    /// How state is written (LZ4 above 4 KiB).
    pub compression: Compression,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            chunk_bytes: 4 * 1024 * 1024,
            check_durability: true,
            compression: Compression::default(),
        }
    }
}

impl RedisStore {
    /// Connects to a server at a URL such as `redis://user:password@host:6379/3`; keys begin with `prefix`,
    /// for instance the region's name and a colon.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the URL can't be read, when the server can't be reached within the time-out,
    /// and when it may forget what it has answered; the text names the setting that is needed.
    pub fn open(url: &str, prefix: &str, settings: &RedisSettings) -> Result<Self, StoreError> {
        // Not the URL: it may hold a password.
        let location = format!("redis:{prefix}");
        let failed = |source: io::Error| StoreError::Io {
            location: location.clone(),
            name: String::new(),
            source,
        };
        let clock = Clock::new(url, format!("{prefix}clock"), settings.timeout);
        let clock = Arc::new(clock.map_err(failed)?);
        let records = |part: &str| -> Result<Arc<dyn GuardStore>, StoreError> {
            let records = RedisGuardStore::new(url, format!("{prefix}{part}:"))
                .map_err(|error| failed(io::Error::other(error)))?
                .with_timeout(settings.timeout);
            let records = if settings.check_durability {
                records
            } else {
                records.with_unchecked_durability()
            };
            // Asks for nothing but what a new connection checks.
            records
                .read("opened")
                .map_err(|error| failed(io::Error::other(error)))?;
            Ok(Arc::new(Watched::new(records, Arc::clone(&clock))))
        };
        let records = RecordStore::new(location.clone(), records("objects")?, records("log")?)
            .with_chunk_bytes(settings.chunk_bytes)
            .with_compression(settings.compression);
        clock.look().map_err(failed)?;
        Ok(Self { records })
    }
}

by_its_records!(RedisStore);

#[cfg(test)]
mod tests;
