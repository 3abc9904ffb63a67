//! The script of a destination: what its database commits, and in which order.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::entry::EntryEncoder;
use super::super::filter::Filter;
use super::super::source::{RowSource, SourceError};
use super::super::store::StoredEntry;
use super::super::transaction::{CommitError, Transaction};

/// Pushed transactions may wait up to this many bytes: 256 MiB.
const QUEUE_LIMIT: usize = 256 * 1024 * 1024;

/// Transactions that were pushed, then those of the source.
#[derive(Default)]
pub(crate) struct Script {
    pushed: VecDeque<Transaction>,
    /// Bytes of what was pushed and not taken.
    queued: usize,
    source: Option<Box<dyn RowSource>>,
    encoder: EntryEncoder,
    stalled: bool,
    ended: bool,
    error: Option<SourceError>,
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
    pub(crate) fn push(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        if let Some(error) = &transaction.error {
            return Err(error.clone().into());
        }
        let size = transaction.size();
        // one transaction alone is always taken: there is no smaller one to wait for
        if self.queued > 0 && self.queued.saturating_add(size) > QUEUE_LIMIT {
            return Err(CommitError::QueueFull {
                queued: self.queued,
                limit: QUEUE_LIMIT,
            });
        }
        self.queued = self.queued.saturating_add(size);
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
                self.fail(error.into());
                None
            }
        }
    }

    fn next_transaction(&mut self) -> Option<Transaction> {
        if let Some(transaction) = self.pushed.pop_front() {
            self.queued = self.queued.saturating_sub(transaction.size());
            return Some(transaction);
        }
        let source = self.source.as_mut()?;
        // unwinding through the server would end its timer, and with it every wait
        match catch_unwind(AssertUnwindSafe(|| source.next_transaction())) {
            Ok(Some(transaction)) => Some(transaction),
            Ok(None) => {
                self.source = None;
                self.ended = true;
                None
            }
            Err(_) => {
                self.fail(SourceError::Panicked);
                None
            }
        }
    }

    /// The source is not asked again.
    fn fail(&mut self, error: SourceError) {
        tracing::error!(%error, "the scripted source has failed");
        self.error = Some(error);
        self.source = None;
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn error(&self) -> Option<&SourceError> {
        self.error.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_transactions_have_a_limit() {
        let mut script = Script::default();
        let big = || Transaction::new(1).raw_entry(vec![0; QUEUE_LIMIT / 2]);
        script.push(big()).unwrap();
        let refused = script.push(big()).unwrap_err();
        assert!(matches!(
            refused,
            CommitError::QueueFull {
                limit: QUEUE_LIMIT,
                ..
            }
        ));
        assert!(script.next(0, &Filter::default()).is_some());
        script.push(big()).unwrap();
    }

    #[test]
    fn a_source_that_panics_or_errs_is_not_asked_again_and_the_rest_goes_on() {
        let table = crate::testing::Table::new("s", "t");
        let broken = || panic!("the script's own fault");
        let invalid = move || Some(Transaction::new(1).insert(&table, [1]));
        let sources: [Box<dyn RowSource>; 2] = [
            Box::new(std::iter::from_fn(broken)),
            Box::new(std::iter::from_fn(invalid)),
        ];
        for source in sources {
            let mut script = Script::new(Some(source));
            assert!(script.next(0, &Filter::default()).is_none());
            assert!(script.error().is_some());
            assert!(!script.ended());
            script.push(Transaction::new(2)).unwrap();
            assert!(script.next(0, &Filter::default()).is_some());
        }
    }
}
