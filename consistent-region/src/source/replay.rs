//! Recognises what a source delivers again after a reset: a pure machine.
//!
//! After a reset the server starts somewhere at or before the restored cut: after its last
//! acknowledgement, or a few transactions earlier when it was restarted. Which entry that is, only
//! their content tells. The machine holds every possible start against the entries as they come
//! until one is left; what lies before the restored cut is then skipped, and only that.
//! If none is left, somebody else moved the source ([`Divergence`]): never a silent skip.

use super::history::{History, Seen};

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
        after: usize,
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
    /// Their places, while more than one start is possible.
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
            places: Vec::new(),
        }
    }

    /// Takes the next replayed entry. Goes on checking after the start is known: call it until
    /// the replay has passed the restored cut.
    ///
    /// # Errors
    /// [`Divergence`] when no start is possible any more, or when none can be told from the others.
    pub fn give(&mut self, history: &History, entry: Seen) -> Result<Verdict, Divergence> {
        let given = self.given;
        let known_anchor = std::cell::LazyCell::new(|| {
            entry.anchor
                && (history.first()..history.end())
                    .filter_map(|index| history.get(index))
                    .any(|seen| seen.fingerprint == entry.fingerprint)
        });
        self.starts
            .retain(|start| match history.get(start + given) {
                Some(seen) => seen.fingerprint == entry.fingerprint,
                // beyond the end it must be new, and an anchor that is known is not
                None => !*known_anchor,
            });
        self.given += 1;
        match self.starts.as_slice() {
            [] => Err(Divergence::Unknown {
                after: usize::try_from(given).unwrap_or(usize::MAX),
                known: history.end() - history.first(),
            }),
            [start] => Ok(Verdict::StartedAt(*start)),
            many => {
                self.places.push(entry.place);
                let all_past_the_end = many.iter().all(|start| start + self.given > history.end());
                let no_more_to_learn = entry.anchor && all_past_the_end;
                if no_more_to_learn || self.given > UNDECIDED_LIMIT as u64 {
                    return self.by_place(history);
                }
                Ok(Verdict::Undecided)
            }
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(n: u128) -> Seen {
        Seen {
            fingerprint: n,
            anchor: false,
            place: 0,
        }
    }

    fn end(n: u128) -> Seen {
        Seen {
            fingerprint: 1_000_000 + n,
            anchor: true,
            place: 0,
        }
    }

    fn history(entries: &[Seen]) -> History {
        let mut history = History::default();
        for entry in entries {
            history.push(*entry);
        }
        history
    }

    /// Gives all entries; the start, once it is known.
    fn align(history: &History, at_most: u64, replay: &[Seen]) -> Result<Option<u64>, Divergence> {
        let mut machine = Replay::new(history, at_most);
        let mut found = None;
        for entry in replay {
            if let Verdict::StartedAt(start) = machine.give(history, *entry)? {
                found = Some(start);
            }
        }
        Ok(found)
    }

    #[test]
    fn without_a_history_everything_is_new() {
        assert_eq!(align(&history(&[]), 0, &[row(1)]), Ok(Some(0)));
    }

    #[test]
    fn a_replay_from_the_last_acknowledgement_skips_what_the_cut_holds() {
        let known = history(&[row(1), end(1), row(2), end(2)]);
        assert_eq!(align(&known, 2, &[row(2), end(2), row(3)]), Ok(Some(2)));
    }

    #[test]
    fn a_replay_may_start_earlier_than_the_last_acknowledgement() {
        let known = history(&[row(1), end(1), row(2), end(2)]);
        assert_eq!(align(&known, 2, &[end(1), row(2)]), Ok(Some(1)));
    }

    #[test]
    fn equal_rows_are_told_apart_by_the_transaction_that_ends_them() {
        let known = history(&[row(7), end(1), row(7), end(2), row(7), end(3)]);
        assert_eq!(align(&known, 6, &[row(7), end(2)]), Ok(Some(2)));
        assert_eq!(align(&known, 6, &[row(7), end(4)]), Ok(Some(6)));
    }

    #[test]
    fn a_replay_that_starts_behind_what_could_be_acknowledged_is_refused() {
        let known = history(&[row(1), end(1), row(2), end(2)]);
        // somebody else acknowledged transaction 2: its rows would be lost
        assert_eq!(
            align(&known, 2, &[row(3), end(3)]),
            Err(Divergence::Unknown { after: 0, known: 4 })
        );
    }

    #[test]
    fn another_database_is_refused_once_it_can_be_told() {
        let known = history(&[row(1), end(1), row(2), end(2)]);
        assert!(align(&known, 2, &[row(1), end(9)]).is_err());
    }

    fn at(place: u64, seen: Seen) -> Seen {
        Seen { place, ..seen }
    }

    #[test]
    fn a_cut_within_a_transaction_is_found_again_by_the_places_of_its_rows() {
        // the transaction goes on behind the cut, and everything up to the cut may be acknowledged:
        // by content row 2 could also be a new row that equals the one before the cut
        let known = history(&[at(1, row(1)), at(2, end(1)), at(3, row(2))]);
        let replay = [at(3, row(2)), at(4, row(3)), at(5, end(2))];
        assert_eq!(align(&known, 3, &replay), Ok(Some(2)));
    }

    #[test]
    fn another_place_is_no_evidence() {
        let known = history(&[at(1, row(1)), at(2, end(1)), at(3, row(2))]);
        let replay = [at(103, row(2)), at(104, row(3)), at(105, end(2))];
        assert_eq!(
            align(&known, 3, &replay),
            Err(Divergence::Ambiguous { places: 2 })
        );
    }

    #[test]
    fn repeated_rows_without_ids_are_ambiguous_never_skipped() {
        let known = history(&[row(7), row(7)]);
        assert_eq!(
            align(&known, 2, &[row(7), row(7), row(7), end(1)]),
            Err(Divergence::Ambiguous { places: 3 })
        );
    }

    proptest! {
        /// Whatever the rows are, a decided start is the true one when transactions have ids.
        #[test]
        fn a_decided_start_is_the_true_one(
            rows in proptest::collection::vec(0u128..3, 1..60),
            cut in 0usize..60,
            start in 0usize..60,
        ) {
            let mut log = Vec::new();
            for (n, value) in rows.iter().enumerate() {
                log.push(row(*value));
                if n % 3 == 2 {
                    log.push(end(n as u128));
                }
            }
            log.push(end(999));
            for (place, entry) in (0..).zip(&mut log) {
                entry.place = place;
            }
            let cut = cut.min(log.len());
            let start = start.min(cut);
            let known = history(&log[..cut]);
            match align(&known, cut as u64, &log[start..]) {
                Ok(Some(found)) => prop_assert_eq!(found, start as u64),
                Ok(None) | Err(Divergence::Ambiguous { .. }) => {}
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
