//! Batches as they are handed out.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::entry::Entry;
use crate::error::CanalError;

/// The name of a batch: the server's number within an epoch of the connection.
///
/// The server counts from 1 per client id and starts again when it restarts, so the number alone
/// says nothing once the connection has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId {
    epoch: u64,
    id: i64,
}

impl BatchId {
    pub(crate) fn new(epoch: u64, id: i64) -> Self {
        Self { epoch, id }
    }

    /// The epoch: it grows with every subscription and every rollback of the connector, and no
    /// two connectors of a process have the same one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The server's number.
    pub fn id(&self) -> i64 {
        self.id
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of epoch {}.{}",
            self.id,
            self.epoch >> 32,
            self.epoch & u64::from(u32::MAX)
        )
    }
}

/// One batch of entries. It waits at the server until it is acknowledged or rolled back.
///
/// Entries stay undecoded, and point into the frame that brought them, until
/// [`entries`](Self::entries) reads them.
#[derive(Clone)]
pub struct Message {
    id: BatchId,
    destination: Arc<str>,
    raw_entries: Vec<Bytes>,
}

impl Message {
    pub(crate) fn new(id: BatchId, destination: Arc<str>, raw_entries: Vec<Bytes>) -> Self {
        Self {
            id,
            destination,
            raw_entries,
        }
    }

    /// What to acknowledge or roll back.
    pub fn id(&self) -> BatchId {
        self.id
    }

    /// The destination it comes from.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Number of entries; a batch may cut a transaction anywhere.
    pub fn len(&self) -> usize {
        self.raw_entries.len()
    }

    /// Whether it has no entries. The server does not send such a batch.
    pub fn is_empty(&self) -> bool {
        self.raw_entries.is_empty()
    }

    /// Bytes of all entries together.
    pub fn bytes(&self) -> usize {
        self.raw_entries.iter().map(Bytes::len).sum()
    }

    /// The entries as they were on the wire.
    pub fn raw_entries(&self) -> &[Bytes] {
        &self.raw_entries
    }

    /// The entries, decoded one by one; the contents of rows stay undecoded.
    ///
    /// # Errors
    /// Each item is [`CanalError::Protocol`] when that entry's bytes are not an entry.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Result<Entry, CanalError>> + '_ {
        self.raw_entries
            .iter()
            .map(|raw| Entry::decode(self.destination.clone(), raw.clone()))
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .field("destination", &self.destination)
            .field("entries", &self.raw_entries.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}
