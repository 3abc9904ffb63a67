//! The batches of an epoch: which came, which wait for an acknowledgement, which are confirmed.
//!
//! Within an epoch the server's numbers of non-empty batches are consecutive, because nobody else
//! fetches and nothing is rolled back. A hole, or a batch that begins again with the first
//! unacknowledged rows, shows that somebody else did, and ends the epoch: what came and what
//! comes is then not all there is, or comes twice.

use std::collections::VecDeque;

use bytes::Bytes;
use prost::Message as _;
use rapidhash::v3::rapidhash_v3;

use crate::entry::{EntryType, EventType};
use crate::error::{CanalError, EpochEnd};
use crate::message::BatchId;
use crate::protocol::generated::entry as wire;

/// A batch that was handed out and whose acknowledgement is not confirmed.
#[derive(Debug)]
struct Outstanding {
    id: i64,
    /// Its first entry with rows.
    first_rows: Option<u64>,
    acknowledged: bool,
}

/// The batches of an epoch.
#[derive(Debug)]
pub(crate) struct Ledger {
    epoch: u64,
    last_id: Option<i64>,
    outstanding: VecDeque<Outstanding>,
    last_confirmed: Option<BatchId>,
}

impl Ledger {
    /// An empty ledger; its first epoch is above `epoch`.
    pub(crate) fn new(epoch: u64) -> Self {
        Self {
            epoch: epoch + 1,
            last_id: None,
            outstanding: VecDeque::new(),
            last_confirmed: None,
        }
    }

    /// The epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Batches that were handed out and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.outstanding
            .iter()
            .filter(|batch| !batch.acknowledged)
            .count()
    }

    /// Acknowledgements that were sent and not confirmed.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.outstanding
            .iter()
            .filter(|batch| batch.acknowledged)
            .count()
    }

    /// The last batch whose acknowledgement the server has accepted, of any epoch.
    pub(crate) fn last_confirmed(&self) -> Option<BatchId> {
        self.last_confirmed
    }

    /// Everything outstanding is void from now on.
    pub(crate) fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.last_id = None;
        self.outstanding.clear();
    }

    /// A batch has come.
    pub(crate) fn receive(&mut self, id: i64, entries: &[Bytes]) -> Result<BatchId, EpochEnd> {
        if let Some(expected) = self.last_id.map(|last| last + 1)
            && expected != id
        {
            return Err(EpochEnd::Hole { expected, got: id });
        }
        let first_rows = first_rows(entries);
        if first_rows.is_some() && first_rows == self.first_unacknowledged_rows() {
            return Err(EpochEnd::StartedAgain);
        }
        self.last_id = Some(id);
        self.outstanding.push_back(Outstanding {
            id,
            first_rows,
            acknowledged: false,
        });
        Ok(BatchId::new(self.epoch, id))
    }

    /// The first entry with rows that a rollback would bring again.
    fn first_unacknowledged_rows(&self) -> Option<u64> {
        self.outstanding
            .iter()
            .find_map(|outstanding| outstanding.first_rows)
    }

    /// The batches to acknowledge, in order, so that all up to `batch` are.
    pub(crate) fn acknowledge(&mut self, batch: BatchId) -> Result<Vec<BatchId>, CanalError> {
        let index = self.find(batch)?;
        let epoch = self.epoch;
        Ok(self
            .outstanding
            .iter_mut()
            .take(index + 1)
            .filter(|outstanding| !outstanding.acknowledged)
            .map(|outstanding| {
                outstanding.acknowledged = true;
                BatchId::new(epoch, outstanding.id)
            })
            .collect())
    }

    /// Whether a rollback of all gives back just `batch` and the later ones.
    pub(crate) fn check_rollback(&self, batch: BatchId) -> Result<(), CanalError> {
        self.find(batch)?;
        match self
            .outstanding
            .iter()
            .find(|outstanding| !outstanding.acknowledged)
        {
            Some(first) if first.id != batch.id() => Err(CanalError::EarlierBatchesOutstanding {
                batch,
                first: BatchId::new(self.epoch, first.id),
            }),
            _ => Ok(()),
        }
    }

    /// The server has accepted the acknowledgement of `batch`.
    pub(crate) fn confirm(&mut self, batch: BatchId) {
        self.last_confirmed = Some(batch);
        if batch.epoch() == self.epoch
            && self
                .outstanding
                .front()
                .is_some_and(|first| first.id == batch.id())
        {
            self.outstanding.pop_front();
        }
    }

    fn find(&self, batch: BatchId) -> Result<usize, CanalError> {
        if batch.epoch() != self.epoch {
            return Err(CanalError::StaleBatch {
                batch,
                current: self.epoch,
            });
        }
        self.outstanding
            .iter()
            .position(|outstanding| outstanding.id == batch.id() && !outstanding.acknowledged)
            .ok_or_else(|| CanalError::UnknownBatch {
                batch,
                message: "it was not handed out or is acknowledged already".to_owned(),
            })
    }
}

/// A hash of the first entry that carries rows, as it came. Entries without rows say nothing: the
/// server sometimes delivers a transaction's end or a statement several times in a row, and to
/// have one twice is harmless. Only this process compares them, and an entry can have hundreds of
/// thousands of bytes: fast, and no secret.
fn first_rows(entries: &[Bytes]) -> Option<u64> {
    entries
        .iter()
        .find(|entry| carries_rows(entry))
        .map(|entry| rapidhash_v3(entry))
}

/// Whether an entry has rows, so that having it twice counts. In doubt it has.
fn carries_rows(raw: &Bytes) -> bool {
    let Ok(entry) = wire::Entry::decode(raw.clone()) else {
        return true;
    };
    let event_type = entry.header.and_then(|header| header.event_type);
    let event_type = EventType::from_wire(event_type);
    EntryType::from_wire(entry.entry_type) == EntryType::RowData
        && (event_type.has_rows() || matches!(event_type, EventType::Unknown(_)))
}
