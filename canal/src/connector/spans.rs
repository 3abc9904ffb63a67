//! Which batches wait for which transactions. A machine: no I/O, no clock.
//!
//! A batch may be acknowledged when every transaction of which it holds an entry is handled. So a
//! batch whose last transaction ends in a later one waits for that one.

use std::collections::VecDeque;

use crate::message::BatchId;

/// A batch that waits.
#[derive(Debug)]
struct Waiting {
    batch: BatchId,
    /// Transactions that are being handled.
    working: usize,
    failed: bool,
}

/// What a batch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchState {
    /// A handler works on one of its transactions.
    Working,
    /// Its last transaction has not ended yet.
    Open,
    /// All its transactions are handled.
    Settled {
        /// Whether each handler succeeded.
        succeeded: bool,
    },
}

/// The batches that wait.
#[derive(Debug, Default)]
pub(super) struct Spans {
    waiting: VecDeque<Waiting>,
    open_since: Option<BatchId>,
}

impl Spans {
    /// A batch has come; the transactions that end in it began with these batches.
    pub(super) fn push(
        &mut self,
        batch: BatchId,
        transactions: impl IntoIterator<Item = BatchId>,
        open_since: Option<BatchId>,
    ) {
        self.waiting.push_back(Waiting {
            batch,
            working: 0,
            failed: false,
        });
        for first in transactions {
            for waiting in self.within(first, batch) {
                waiting.working += 1;
            }
        }
        self.open_since = open_since;
    }

    /// The transaction that spans these batches is handled.
    pub(super) fn handled(&mut self, first: BatchId, last: BatchId, succeeded: bool) {
        for waiting in self.within(first, last) {
            waiting.working = waiting.working.saturating_sub(1);
            waiting.failed |= !succeeded;
        }
    }

    /// Each batch's state; those that are settled are not told of again.
    pub(super) fn states(&mut self) -> Vec<(BatchId, BatchState)> {
        let open_since = self.open_since;
        let state = |waiting: &Waiting| match waiting {
            Waiting { working: 1.., .. } => BatchState::Working,
            Waiting { failed: true, .. } => BatchState::Settled { succeeded: false },
            _ if open_since.is_some_and(|since| since <= waiting.batch) => BatchState::Open,
            _ => BatchState::Settled { succeeded: true },
        };
        let states: Vec<_> = self
            .waiting
            .iter()
            .map(|waiting| (waiting.batch, state(waiting)))
            .collect();
        let mut settled = states
            .iter()
            .map(|(_, state)| matches!(state, BatchState::Settled { .. }));
        self.waiting.retain(|_| !settled.next().unwrap_or(false));
        states
    }

    /// Everything was rolled back.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.open_since = None;
    }

    fn within(&mut self, first: BatchId, last: BatchId) -> impl Iterator<Item = &mut Waiting> {
        self.waiting
            .iter_mut()
            .filter(move |waiting| first <= waiting.batch && waiting.batch <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(id: i64) -> BatchId {
        BatchId::new(1, id)
    }

    const SETTLED: BatchState = BatchState::Settled { succeeded: true };
    const FAILED: BatchState = BatchState::Settled { succeeded: false };

    #[test]
    fn a_batch_waits_for_the_transaction_that_it_begins() {
        let mut spans = Spans::default();
        spans.push(batch(1), [batch(1)], Some(batch(1)));
        assert_eq!(spans.states(), [(batch(1), BatchState::Working)]);
        spans.handled(batch(1), batch(1), true);
        assert_eq!(spans.states(), [(batch(1), BatchState::Open)]);
        spans.push(batch(2), [batch(1)], None);
        let both = [
            (batch(1), BatchState::Working),
            (batch(2), BatchState::Working),
        ];
        assert_eq!(spans.states(), both);
        spans.handled(batch(1), batch(2), true);
        assert_eq!(spans.states(), [(batch(1), SETTLED), (batch(2), SETTLED)]);
        assert_eq!(spans.states(), [], "told once");
    }

    #[test]
    fn a_failure_fails_every_batch_of_its_transaction() {
        let mut spans = Spans::default();
        spans.push(batch(1), [], Some(batch(1)));
        spans.push(batch(2), [batch(1)], Some(batch(2)));
        spans.handled(batch(1), batch(2), false);
        assert_eq!(spans.states(), [(batch(1), FAILED), (batch(2), FAILED)]);
    }

    #[test]
    fn a_batch_without_a_transaction_is_settled_at_once() {
        let mut spans = Spans::default();
        spans.push(batch(1), [], None);
        assert_eq!(spans.states(), [(batch(1), SETTLED)]);
    }
}
