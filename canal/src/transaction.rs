//! Transactions, put together across batches. A machine: no I/O, no clock.
//!
//! A server cuts its batches by size, so a transaction may begin in one and end in a later one.
//! MariaDB's transactions have an end and no beginning; a schema change is one by itself.

use std::mem;

use crate::connector::BatchResult;
use crate::entry::{Entry, EntryType, EventType};
use crate::error::CanalError;
use crate::message::{BatchId, Message};
use crate::row::ChangeKind;

/// A transaction that was committed, whole.
#[derive(Debug, Clone, actix::Message)]
#[rtype(result = "BatchResult")]
pub struct CommittedTransaction {
    id: Option<String>,
    entries: Vec<Entry>,
    first_batch: BatchId,
    last_batch: BatchId,
}

impl CommittedTransaction {
    /// The database's number, as text. `None` for a schema change; "0" for tables without
    /// transactions, as MyISAM's.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Its changes in order, without its beginning and its end.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The batch that its first entry came with.
    pub fn first_batch(&self) -> BatchId {
        self.first_batch
    }

    /// The batch that its end came with: acknowledge no batch from the first to this one before
    /// the transaction is dealt with.
    pub fn last_batch(&self) -> BatchId {
        self.last_batch
    }
}

/// Puts transactions together. Half a transaction is never handed out.
///
/// The batches that hold a transaction which has not ended must stay unacknowledged, or its first
/// half is lost with the connection; so a transaction has to fit into what a server holds
/// unacknowledged (by default 16,384 entries or 16 MiB).
#[derive(Debug)]
pub struct TransactionAssembler {
    limit: usize,
    open: Vec<Entry>,
    bytes: usize,
    first_batch: Option<BatchId>,
    epoch: Option<u64>,
}

impl TransactionAssembler {
    /// An assembler that holds at most `limit` bytes of entries of one transaction.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            open: Vec::new(),
            bytes: 0,
            first_batch: None,
            epoch: None,
        }
    }

    /// Takes in a batch and gives the transactions that end in it. A batch of another epoch drops
    /// the half that was there: it comes again from its beginning.
    ///
    /// # Errors
    /// [`CanalError::TransactionTooLarge`]; [`CanalError::Protocol`] for bytes that are no entry.
    pub fn push(&mut self, message: &Message) -> Result<Vec<CommittedTransaction>, CanalError> {
        let batch = message.id();
        if self.epoch.replace(batch.epoch()) != Some(batch.epoch()) {
            self.clear();
        }
        let mut ended = Vec::new();
        for entry in message.entries() {
            let entry = entry?;
            match entry.entry_type() {
                // What is open then was cut off by the server: it has no end that could come.
                EntryType::TransactionBegin => self.clear(),
                EntryType::TransactionEnd => {
                    let id = entry.transaction_end_id()?;
                    ended.extend(self.end(id, batch));
                }
                EntryType::RowData if is_schema_change(&entry)? => {
                    ended.push(CommittedTransaction {
                        id: None,
                        entries: vec![entry],
                        first_batch: batch,
                        last_batch: batch,
                    });
                }
                EntryType::RowData => self.add(entry, batch)?,
                // Heartbeats and what later servers may bring carry no rows.
                _ => {}
            }
        }
        Ok(ended)
    }

    /// The batch with which the transaction began that has not ended yet.
    pub fn open_since(&self) -> Option<BatchId> {
        self.first_batch
    }

    /// Drops the half that is there.
    pub fn clear(&mut self) {
        self.open.clear();
        self.bytes = 0;
        self.first_batch = None;
    }

    fn add(&mut self, entry: Entry, batch: BatchId) -> Result<(), CanalError> {
        self.bytes += entry.raw().len();
        if self.bytes > self.limit {
            return Err(CanalError::TransactionTooLarge {
                destination: entry.destination().to_owned(),
                limit: self.limit,
            });
        }
        self.first_batch.get_or_insert(batch);
        self.open.push(entry);
        Ok(())
    }

    /// An end without changes is of a transaction whose tables the filter keeps away.
    fn end(&mut self, id: Option<String>, batch: BatchId) -> Option<CommittedTransaction> {
        let entries = mem::take(&mut self.open);
        let first_batch = self.first_batch.take()?;
        self.bytes = 0;
        Some(CommittedTransaction {
            id,
            entries,
            first_batch,
            last_batch: batch,
        })
    }
}

/// By the kind of the event, or by the flag within: servers set either.
fn is_schema_change(entry: &Entry) -> Result<bool, CanalError> {
    match entry.event_type() {
        Some(event) if event.is_schema_change() => Ok(true),
        Some(EventType::Query) => {
            let change = entry.row_change()?;
            Ok(change.is_some_and(|change| change.kind() == ChangeKind::SchemaChange))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests;
