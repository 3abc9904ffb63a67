//! The script of a destination: what its database commits, and in which order.

use std::collections::VecDeque;

use super::super::entry::EntryEncoder;
use super::super::filter::Filter;
use super::super::source::RowSource;
use super::super::store::StoredEntry;
use super::super::transaction::{InvalidTransaction, Transaction};

/// Transactions that were pushed, then those of the source.
#[derive(Default)]
pub(crate) struct Script {
    pushed: VecDeque<Transaction>,
    source: Option<Box<dyn RowSource>>,
    encoder: EntryEncoder,
    stalled: bool,
    ended: bool,
    error: Option<InvalidTransaction>,
    taken: u64,
}

impl Script {
    pub(crate) fn new(source: Option<Box<dyn RowSource>>) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// Adds a transaction that comes before those that the source has not given yet.
    pub(crate) fn push(&mut self, transaction: Transaction) -> Result<(), InvalidTransaction> {
        if let Some(error) = &transaction.error {
            return Err(error.clone());
        }
        self.pushed.push_back(transaction);
        Ok(())
    }

    /// While stalled nothing comes out, as when Canal has lost its database.
    pub(crate) fn set_stalled(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// The entries of the next transaction, those that `filter` lets through.
    pub(crate) fn next(&mut self, now: u64, filter: &Filter) -> Option<Vec<StoredEntry>> {
        if self.stalled {
            return None;
        }
        let transaction = self.next_transaction()?;
        match self.encoder.encode(transaction, now, filter) {
            Ok(entries) => {
                self.taken += 1;
                Some(entries)
            }
            Err(error) => {
                tracing::error!(%error, "the scripted source gave a transaction that is not valid");
                self.error = Some(error);
                self.source = None;
                None
            }
        }
    }

    fn next_transaction(&mut self) -> Option<Transaction> {
        if let Some(transaction) = self.pushed.pop_front() {
            return Some(transaction);
        }
        let transaction = self.source.as_mut()?.next_transaction();
        if transaction.is_none() {
            self.source = None;
            self.ended = true;
        }
        transaction
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn error(&self) -> Option<&InvalidTransaction> {
        self.error.as_ref()
    }
}
