//! Takes batches from a source that delivers again what was not acknowledged: a pure machine.
//!
//! Decides which entries of a batch are new ([`Replay`] after a reset), keeps the [`History`], and
//! knows which batches may be acknowledged once a cut is complete.

use std::collections::VecDeque;

use super::history::{History, Seen, Transaction};
use super::replay::{Divergence, Replay, Verdict};

/// What a batch brings, as far as it matters to the region.
#[derive(Debug, Clone)]
pub enum Arrived<E> {
    /// An entry with rows of the region.
    Entry {
        /// How it is recognised when it comes again.
        seen: Seen,
        /// The entry.
        entry: E,
    },
    /// The entries since the end before were of this transaction.
    End(Transaction),
}

/// The batches between a source and its region. `B` names a batch, `E` is an entry.
#[derive(Debug)]
pub struct Intake<B, E> {
    history: History,
    replaying: Option<Replaying<B, E>>,
    /// Batches that wait to be acknowledged, with the index after their last entry.
    outstanding: VecDeque<(B, u64)>,
}

#[derive(Debug)]
struct Replaying<B, E> {
    replay: Replay,
    /// Index of the next entry, once the start is known.
    next: Option<u64>,
    /// Where the restored cut ends.
    end: u64,
    held: Vec<(B, Vec<Arrived<E>>)>,
    previous: Option<Seen>,
}

impl<B: Clone + PartialEq, E> Intake<B, E> {
    /// Goes on after what `history` holds. At most `acknowledged_at_most` (an index) of it can
    /// have been acknowledged.
    #[must_use]
    pub fn new(history: History, acknowledged_at_most: u64) -> Self {
        let replaying = (history.end() > history.first()).then(|| Replaying {
            replay: Replay::new(&history, acknowledged_at_most),
            next: None,
            end: history.end(),
            held: Vec::new(),
            previous: None,
        });
        Self {
            history,
            replaying,
            outstanding: VecDeque::new(),
        }
    }

    /// Takes whatever comes as new after `history`, unchecked: only for showing that a judge
    /// notices the rows that this loses or doubles.
    #[must_use]
    pub fn unchecked(history: History) -> Self {
        Self {
            history,
            replaying: None,
            outstanding: VecDeque::new(),
        }
    }

    /// What was taken so far, for going on with it in another way.
    #[must_use]
    pub fn into_history(self) -> History {
        self.history
    }

    /// For entries that come from elsewhere than from batches.
    #[cfg(feature = "canal")]
    pub(crate) fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    /// Whether everything of this batch, the newest, was taken: nothing of it is held back while a
    /// replay is not recognised yet.
    #[must_use]
    pub fn has_taken(&self, batch: &B) -> bool {
        self.outstanding
            .back()
            .is_some_and(|(newest, _)| newest == batch)
    }

    /// What was taken so far.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Whether what comes is still held against what was taken before the reset.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.replaying.is_some()
    }

    /// Batches that wait to be acknowledged.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Takes a batch; gives the entries that are new, those of held-back batches included.
    ///
    /// # Errors
    /// [`Divergence`] when the replay does not fit what was delivered before.
    pub fn take(&mut self, batch: B, arrived: Vec<Arrived<E>>) -> Result<Vec<E>, Divergence> {
        let Some(mut replaying) = self.replaying.take() else {
            return Ok(self.append(batch, arrived));
        };
        replaying.held.push((batch, arrived));
        if replaying.next.is_none() {
            let newest = replaying.held.len() - 1;
            replaying.next = find_start(&mut replaying, &self.history, newest)?;
        }
        let Some(next) = replaying.next else {
            self.replaying = Some(replaying);
            return Ok(Vec::new());
        };
        self.release(replaying, next)
    }

    /// Skips what lies before the restored cut in the held batches, takes the rest.
    fn release(
        &mut self,
        mut replaying: Replaying<B, E>,
        mut next: u64,
    ) -> Result<Vec<E>, Divergence> {
        let mut new = Vec::new();
        for (batch, arrived) in std::mem::take(&mut replaying.held) {
            for arrived in arrived {
                let (seen, entry) = match arrived {
                    Arrived::Entry { seen, entry } => (seen, entry),
                    Arrived::End(transaction) => {
                        self.check_end(&replaying, next, transaction)?;
                        continue;
                    }
                };
                if replaying.previous.replace(seen) == Some(seen) {
                    // delivered twice in a row
                    continue;
                }
                if next < replaying.end {
                    let expected = self.history.get(next);
                    if expected.map(|seen| seen.fingerprint) != Some(seen.fingerprint) {
                        return Err(self.diverged(&replaying, next));
                    }
                } else {
                    self.history.push(seen);
                    new.push(entry);
                }
                next += 1;
            }
            self.outstanding
                .push_back((batch, next.min(self.history.end())));
        }
        // repetitions come only where the delivery started, so one entry past the cut is enough
        if next <= replaying.end {
            replaying.next = Some(next);
            self.replaying = Some(replaying);
        }
        Ok(new)
    }

    /// An end before the restored cut must be that of the row before it; one after the cut is new.
    fn check_end(
        &mut self,
        replaying: &Replaying<B, E>,
        next: u64,
        transaction: Transaction,
    ) -> Result<(), Divergence> {
        if next >= replaying.end {
            self.history.close(transaction);
            return Ok(());
        }
        let open_before = next
            .checked_sub(1)
            .and_then(|before| self.history.transaction(before));
        let known = self.history.knows(transaction);
        match open_before {
            // of rows that the region never sees, or that came before the replay's start
            _ if !known => Ok(()),
            Some(before) if before == transaction => Ok(()),
            None => Ok(()),
            Some(_) => Err(self.diverged(replaying, next)),
        }
    }

    fn diverged(&self, replaying: &Replaying<B, E>, next: u64) -> Divergence {
        Divergence::Unknown {
            after: next,
            known: replaying.end - self.history.first(),
        }
    }

    fn append(&mut self, batch: B, arrived: Vec<Arrived<E>>) -> Vec<E> {
        let mut new = Vec::with_capacity(arrived.len());
        for arrived in arrived {
            match arrived {
                Arrived::Entry { seen, entry } => {
                    self.history.push(seen);
                    new.push(entry);
                }
                Arrived::End(transaction) => self.history.close(transaction),
            }
        }
        self.outstanding.push_back((batch, self.history.end()));
        new
    }

    /// Cut `seq` lies after what was taken.
    pub fn mark_cut(&mut self, seq: u64) {
        self.history.mark_cut(seq);
    }

    /// The last batch that lies in cut `oldest_retained` or before it as a whole: that one and all
    /// before it may be acknowledged. The batches stay outstanding until
    /// [`acknowledged`](Self::acknowledged).
    #[must_use]
    pub fn acknowledgeable(&self, oldest_retained: u64) -> Option<B> {
        let end = self.history.end_of_cut(oldest_retained)?;
        self.outstanding
            .iter()
            .take_while(|(_, through)| *through <= end)
            .last()
            .map(|(b, _)| b.clone())
    }

    /// The source has confirmed that `batch` and all before it are acknowledged.
    pub fn acknowledged(&mut self, batch: &B, oldest_retained: u64) {
        let Some(position) = self.outstanding.iter().position(|(name, _)| name == batch) else {
            return;
        };
        let through = self.outstanding[position].1;
        self.outstanding.drain(..=position);
        self.history.acknowledge(through, oldest_retained);
    }
}

/// Gives the newest held batch to the replay; the index of the very first held entry, once it is
/// known.
fn find_start<B, E>(
    replaying: &mut Replaying<B, E>,
    history: &History,
    newest: usize,
) -> Result<Option<u64>, Divergence> {
    let mut before = replaying.held[..newest].iter().rev();
    let mut previous = before.find_map(|(_, arrived)| {
        arrived.iter().rev().find_map(|arrived| match arrived {
            Arrived::Entry { seen, .. } => Some(*seen),
            Arrived::End(_) => None,
        })
    });
    for arrived in &replaying.held[newest].1 {
        let verdict = match arrived {
            Arrived::End(transaction) => replaying.replay.close(history, *transaction)?,
            Arrived::Entry { seen, .. } if previous == Some(*seen) => continue,
            Arrived::Entry { seen, .. } => {
                previous = Some(*seen);
                replaying.replay.give(history, *seen)?
            }
        };
        if let Verdict::StartedAt(start) = verdict {
            return Ok(Some(start));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tenth is the end of the nine before it.
    fn arrived(n: u64) -> Arrived<u64> {
        if n % 10 == 9 {
            return Arrived::End(Transaction::new(n));
        }
        let seen = Seen {
            fingerprint: u128::from(n),
            place: n,
        };
        Arrived::Entry { seen, entry: n }
    }

    fn batch(range: std::ops::Range<u64>) -> Vec<Arrived<u64>> {
        range.map(arrived).collect()
    }

    /// An intake that has taken 0..30 in batches of 10, with cut 1 after 20 and cut 2 after 30.
    fn at_cut_two() -> History {
        let mut intake = Intake::new(History::default(), 0);
        for n in 0..3 {
            intake.take(n, batch(n * 10..n * 10 + 10)).unwrap();
            if n > 0 {
                intake.mark_cut(n);
            }
        }
        assert_eq!(intake.acknowledgeable(1), Some(1));
        assert_eq!(intake.acknowledgeable(0), None);
        intake.history().clone()
    }

    /// Rows up to cut 1.
    const ACKNOWLEDGED: u64 = 18;

    #[test]
    fn what_the_restored_cut_holds_is_skipped_and_only_that() {
        let mut intake = Intake::new(at_cut_two(), ACKNOWLEDGED);
        assert_eq!(intake.take(1, batch(20..25)), Ok(vec![]));
        assert_eq!(intake.take(2, batch(25..33)), Ok(vec![30, 31, 32]));
        assert_eq!(intake.take(3, batch(33..35)), Ok(vec![33, 34]));
        // the skipped batch lies in cut 2, the second one only in part
        assert_eq!(intake.acknowledgeable(2), Some(1));
    }

    #[test]
    fn a_server_that_starts_earlier_is_recognised() {
        let mut intake = Intake::new(at_cut_two(), ACKNOWLEDGED);
        assert_eq!(intake.take(1, batch(9..31)), Ok(vec![30]));
    }

    #[test]
    fn rows_delivered_several_times_at_the_break_count_once() {
        let mut intake = Intake::new(at_cut_two(), 27);
        let mut again = vec![arrived(28), arrived(28), arrived(28)];
        again.extend(batch(29..32));
        assert_eq!(intake.take(1, again), Ok(vec![30, 31]));
    }

    #[test]
    fn ends_of_transactions_that_the_region_never_sees_do_not_matter() {
        let mut intake = Intake::new(at_cut_two(), ACKNOWLEDGED);
        let mut again = vec![Arrived::End(Transaction::new(1_000))];
        again.extend(batch(20..30));
        again.push(Arrived::End(Transaction::new(1_001)));
        again.extend(batch(30..32));
        assert_eq!(intake.take(1, again), Ok(vec![30, 31]));
    }

    #[test]
    fn a_gap_behind_what_could_be_acknowledged_is_a_divergence() {
        let mut intake = Intake::new(at_cut_two(), ACKNOWLEDGED);
        assert!(intake.take(1, batch(30..40)).is_err());
        let mut intake = Intake::new(at_cut_two(), ACKNOWLEDGED);
        assert_eq!(intake.take(1, batch(20..25)), Ok(vec![]));
        assert!(
            intake.take(2, batch(26..40)).is_err(),
            "a row is missing in the middle"
        );
    }

    #[test]
    fn confirmed_batches_are_forgotten() {
        let mut intake = Intake::new(History::default(), 0);
        intake.take(1, batch(0..10)).unwrap();
        intake.mark_cut(1);
        intake.take(2, batch(10..20)).unwrap();
        assert_eq!(intake.acknowledgeable(1), Some(1));
        intake.acknowledged(&1, 1);
        assert_eq!(intake.outstanding(), 1);
        assert_eq!(intake.acknowledgeable(1), None);
    }
}
