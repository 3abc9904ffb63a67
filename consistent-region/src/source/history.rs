//! What a source that can't seek remembers of the rows it was given, so that a replay can be
//! recognised: fingerprints in order, where the cuts lie among them, and what was acknowledged.
//!
//! Positions of a binlog repeat and go back, so they identify nothing; content does (design: "align
//! by content"). Only what matters to the region is remembered: a server whose filter leaves out
//! tables sends the ends of *their* transactions now and then, and not the same ones again. So
//! transactions are no entries here; they are what rows are tagged with once their end has come.
//! Rows are numbered from 0 for the life of the region; an index never changes.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// How many acknowledged rows are kept as an anchor: a restarted server may start that far before
/// its last acknowledgement. A Canal server saves its cursor once a second, and only at transaction
/// ends; one server was measured to deliver up to 25,000 entries a second.
pub const ANCHOR_ENTRIES: usize = 65_536;

/// The tag of a transaction that has not ended yet, or has no id.
const OPEN: u64 = 0;

/// One entry with rows, as far as it matters for recognising it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seen {
    /// Hash of what stays the same when the entry is delivered again.
    pub fingerprint: u128,
    /// Where it lies in the source's log, hashed. Never used to tell what an entry *is*, because
    /// places repeat and change: only to tell which of several places that fit by content is meant,
    /// and that an entry is delivered twice in a row.
    pub place: u64,
}

/// The id of a transaction, hashed. Ids are never used twice in the life of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transaction(u64);

impl Transaction {
    /// The transaction with this hash of its id.
    #[must_use]
    pub fn new(hash: u64) -> Self {
        Self(if hash == OPEN { 1 } else { hash })
    }
}

/// An entry that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    seen: Seen,
    transaction: u64,
}

/// The entries of a source in order, from the oldest that may come again to the newest taken.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    entries: VecDeque<Remembered>,
    /// Index of `entries[0]`.
    first: u64,
    /// All entries below this index are acknowledged for certain.
    acknowledged: u64,
    /// (cut, index after its last entry), oldest first.
    cuts: VecDeque<(u64, u64)>,
}

impl History {
    /// A history without entries, whose next entry has this index.
    #[must_use]
    pub fn beginning_at(first: u64) -> Self {
        Self {
            first,
            acknowledged: first,
            ..Self::default()
        }
    }

    /// Index after the newest entry.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Index of the oldest remembered entry.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The entry at `index`; `None` when it is forgotten or has not come yet.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<Seen> {
        self.remembered(index).map(|remembered| remembered.seen)
    }

    /// The transaction of the entry at `index`, once its end has come.
    #[must_use]
    pub fn transaction(&self, index: u64) -> Option<Transaction> {
        let tag = self.remembered(index)?.transaction;
        (tag != OPEN).then_some(Transaction(tag))
    }

    /// Whether an entry of this transaction is remembered, and its end has come.
    #[must_use]
    pub fn knows(&self, transaction: Transaction) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.transaction == transaction.0)
    }

    fn remembered(&self, index: u64) -> Option<&Remembered> {
        let offset = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.entries.get(offset)
    }

    /// Appends an entry of a transaction that has not ended yet.
    pub fn push(&mut self, seen: Seen) {
        self.entries.push_back(Remembered {
            seen,
            transaction: OPEN,
        });
    }

    /// The transaction of the newest entries has ended: of those since the end before.
    pub fn close(&mut self, transaction: Transaction) {
        for entry in self.entries.iter_mut().rev() {
            if entry.transaction != OPEN {
                break;
            }
            entry.transaction = transaction.0;
        }
    }

    /// Cut `seq` lies after the newest entry.
    pub fn mark_cut(&mut self, seq: u64) {
        let end = self.end();
        self.cuts.push_back((seq, end));
    }

    /// Index after the last entry of cut `seq`, or of the newest cut before it; `None` when no cut
    /// that old is remembered.
    #[must_use]
    pub fn end_of_cut(&self, seq: u64) -> Option<u64> {
        self.cuts
            .iter()
            .rev()
            .find(|(cut, _)| *cut <= seq)
            .map(|(_, end)| *end)
    }

    /// Everything below `index` is acknowledged for certain; forgets what is not needed any more.
    /// `oldest_retained` is the oldest cut that may still be restored.
    pub fn acknowledge(&mut self, index: u64, oldest_retained: u64) {
        self.acknowledged = self.acknowledged.max(index.min(self.end()));
        let keep_from = self.acknowledged.saturating_sub(ANCHOR_ENTRIES as u64);
        while self.first < keep_from && self.entries.pop_front().is_some() {
            self.first += 1;
        }
        while self.cuts.len() > 1 && self.cuts[1].0 <= oldest_retained {
            self.cuts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(n: u128) -> Seen {
        Seen {
            fingerprint: n,
            place: 0,
        }
    }

    #[test]
    fn indices_survive_forgetting() {
        let mut history = History::default();
        for n in 0..100_000 {
            history.push(seen(n));
        }
        history.mark_cut(1);
        history.acknowledge(99_000, 1);
        assert_eq!(history.first(), 99_000 - ANCHOR_ENTRIES as u64);
        assert_eq!(history.end(), 100_000);
        assert_eq!(history.get(99_999), Some(seen(99_999)));
        assert_eq!(history.get(10), None);
        assert_eq!(history.end_of_cut(1), Some(100_000));
    }

    #[test]
    fn a_cut_stays_known_while_it_is_the_newest_at_or_before_the_oldest_retained() {
        let mut history = History::default();
        for cut in 1..=4 {
            history.push(seen(u128::from(cut)));
            history.mark_cut(cut);
        }
        history.acknowledge(2, 3);
        assert_eq!(history.end_of_cut(3), Some(3));
        assert_eq!(history.end_of_cut(2), None);
        assert_eq!(history.end_of_cut(9), Some(4));
    }

    #[test]
    fn an_end_tags_the_rows_since_the_end_before_and_nothing_else() {
        let (first, second) = (Transaction::new(1), Transaction::new(2));
        let mut history = History::default();
        history.push(seen(1));
        history.close(first);
        // the end of a transaction without rows of ours
        history.close(Transaction::new(9));
        history.push(seen(2));
        history.push(seen(3));
        assert_eq!(history.transaction(1), None);
        history.close(second);
        let tags: Vec<_> = (0..3).map(|index| history.transaction(index)).collect();
        assert_eq!(tags, [Some(first), Some(second), Some(second)]);
        assert!(!history.knows(Transaction::new(9)));
    }
}
