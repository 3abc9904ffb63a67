//! Recognises what a source delivers again after a reset: a pure machine.
//!
//! After a reset the server starts somewhere at or before the restored cut: after its last
//! acknowledgement, or a few transactions earlier when it was restarted. Which row that is, only
//! content tells: the rows themselves, and the transactions that they belong to. The machine holds
//! every possible start against what comes until one is left; what lies before the restored cut is
//! then skipped, and only that. If none is left, somebody else moved the source ([`Divergence`]):
//! never a silent skip.

use super::history::{History, Seen, Transaction};

/// Most entries that are held back while more than one start is possible.
pub const UNDECIDED_LIMIT: usize = 65_536;

/// What is known after an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// More than one start is possible: hold the entry back, give the next one.
    Undecided,
    /// The first held-back entry is the one with this index; from [`History::end`] on they are new.
    StartedAt(u64),
}

/// The replay does not fit what was delivered before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Divergence {
    /// The entries fit no place: the database behind the source was exchanged, its log was reset,
    /// or another client acknowledged entries that this region still needs.
    #[error(
        "entry {after} of the replay fits none of the {known} entries that the region remembers \
         before its restored cut"
    )]
    Unknown {
        /// How many entries of the replay fitted before.
        after: u64,
        /// How many entries are remembered.
        known: u64,
    },
    /// Several places fit equally well: rows without a key, repeated, and no transaction id.
    #[error("the replay fits {places} places of the remembered entries equally well")]
    Ambiguous {
        /// How many.
        places: usize,
    },
}

/// Finds where a replay starts.
#[derive(Debug)]
pub struct Replay {
    /// Index of the entry that the first replayed one could be.
    starts: Vec<u64>,
    /// Entries given so far.
    given: u64,
    /// Entries given up to the last end of a transaction.
    closed: u64,
    /// The entries' places, while more than one start is possible.
    places: Vec<u64>,
}

impl Replay {
    /// `acknowledged_at_most` is the index up to which anything can have been acknowledged: the
    /// end of the oldest retained cut. A replay can't start behind it.
    #[must_use]
    pub fn new(history: &History, acknowledged_at_most: u64) -> Self {
        let last = acknowledged_at_most.clamp(history.first(), history.end());
        Self {
            starts: (history.first()..=last).collect(),
            given: 0,
            closed: 0,
            places: Vec::new(),
        }
    }

    /// Takes the next replayed entry. Goes on checking after the start is known.
    ///
    /// # Errors
    /// [`Divergence`] when no start is possible any more, or when none can be told from the others.
    pub fn give(&mut self, history: &History, entry: Seen) -> Result<Verdict, Divergence> {
        let given = self.given;
        self.starts.retain(|start| {
            history
                .get(start + given)
                .is_none_or(|seen| seen.fingerprint == entry.fingerprint)
        });
        self.given += 1;
        self.places.push(entry.place);
        let verdict = self.verdict(history)?;
        if verdict == Verdict::Undecided && self.given > UNDECIDED_LIMIT as u64 {
            return self.by_place(history);
        }
        Ok(verdict)
    }

    /// The transaction of the entries since the last end has ended.
    ///
    /// # Errors
    /// As [`give`](Self::give).
    pub fn close(
        &mut self,
        history: &History,
        transaction: Transaction,
    ) -> Result<Verdict, Divergence> {
        let rows = self.closed..self.given;
        self.closed = self.given;
        if rows.is_empty() {
            // of rows that the region never sees, or that came before the replay's start
            return self.verdict(history);
        }
        let known = history.knows(transaction);
        self.starts.retain(|start| {
            rows.clone().all(|row| match history.get(start + row) {
                Some(_) => {
                    let tag = history.transaction(start + row);
                    tag.is_none_or(|tag| tag == transaction)
                }
                // beyond the end it must be new, and a transaction that has ended is not
                None => !known,
            })
        });
        let past_the_end = |start: &u64| start + self.given > history.end();
        match self.verdict(history)? {
            Verdict::Undecided if self.starts.iter().all(past_the_end) => self.by_place(history),
            verdict => Ok(verdict),
        }
    }

    fn verdict(&self, history: &History) -> Result<Verdict, Divergence> {
        match self.starts.as_slice() {
            [] => Err(Divergence::Unknown {
                after: self.given.saturating_sub(1),
                known: history.end() - history.first(),
            }),
            [start] => Ok(Verdict::StartedAt(*start)),
            _ => Ok(Verdict::Undecided),
        }
    }

    /// Content can't tell: takes the start at which the entries lie where they lay before. Only
    /// that is evidence; entries that lie elsewhere may be the same ones in another log file.
    fn by_place(&mut self, history: &History) -> Result<Verdict, Divergence> {
        let lies_there = |start: &u64| {
            let remembered = (*start..history.end()).filter_map(|index| history.get(index));
            let mut pairs = remembered.zip(&self.places).peekable();
            pairs.peek().is_some() && pairs.all(|(seen, place)| seen.place == *place)
        };
        let mut there = self.starts.iter().copied().filter(lies_there);
        match (there.next(), there.next()) {
            (Some(start), None) => {
                self.starts = vec![start];
                Ok(Verdict::StartedAt(start))
            }
            _ => Err(Divergence::Ambiguous {
                places: self.starts.len(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
