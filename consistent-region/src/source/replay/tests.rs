//! Where a replay starts, and when that can't be told.

use proptest::prelude::*;

use super::*;

/// What a source delivers.
#[derive(Debug, Clone, Copy)]
enum Delivered {
    Row(Seen),
    End(u64),
}

fn row(n: u128) -> Delivered {
    at(u64::MAX, n)
}

fn at(place: u64, n: u128) -> Delivered {
    Delivered::Row(Seen {
        fingerprint: n,
        place,
    })
}

fn end(id: u64) -> Delivered {
    Delivered::End(id)
}

fn history(delivered: &[Delivered]) -> History {
    let mut history = History::default();
    for one in delivered {
        match one {
            Delivered::Row(seen) => history.push(*seen),
            Delivered::End(id) => history.close(Transaction::new(*id)),
        }
    }
    history
}

/// Gives everything; the start, once it is known.
fn align(history: &History, at_most: u64, replay: &[Delivered]) -> Result<Option<u64>, Divergence> {
    let mut machine = Replay::new(history, at_most);
    let mut found = None;
    for one in replay {
        let verdict = match one {
            Delivered::Row(seen) => machine.give(history, *seen)?,
            Delivered::End(id) => machine.close(history, Transaction::new(*id))?,
        };
        if let Verdict::StartedAt(start) = verdict {
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
    assert_eq!(align(&known, 1, &[row(2), end(2), row(3)]), Ok(Some(1)));
}

#[test]
fn a_replay_may_start_earlier_than_the_last_acknowledgement() {
    let known = history(&[row(1), end(1), row(2), end(2)]);
    assert_eq!(align(&known, 1, &[end(1), row(2)]), Ok(Some(1)));
    assert_eq!(align(&known, 1, &[row(1), end(1), row(2)]), Ok(Some(0)));
}

#[test]
fn ends_of_transactions_without_rows_come_and_go() {
    // what a server sends of tables that its filter leaves out
    let known = history(&[row(1), end(1), end(50), row(2), end(2), end(60)]);
    let replay = [
        end(40),
        row(1),
        end(1),
        row(2),
        end(2),
        end(70),
        row(3),
        end(3),
    ];
    assert_eq!(align(&known, 2, &replay), Ok(Some(0)));
}

#[test]
fn equal_rows_are_told_apart_by_the_transaction_that_ends_them() {
    let known = history(&[row(7), end(1), row(7), end(2), row(7), end(3)]);
    assert_eq!(align(&known, 3, &[row(7), end(2)]), Ok(Some(1)));
    assert_eq!(align(&known, 3, &[row(7), end(4)]), Ok(Some(3)));
}

#[test]
fn a_replay_that_starts_behind_what_could_be_acknowledged_is_refused() {
    let known = history(&[row(1), end(1), row(2), end(2)]);
    // somebody else acknowledged transaction 2: its rows would be lost
    assert_eq!(
        align(&known, 1, &[row(3), end(3)]),
        Err(Divergence::Unknown { after: 0, known: 2 })
    );
}

#[test]
fn another_database_is_refused_once_it_can_be_told() {
    let known = history(&[row(1), end(1), row(2), end(2)]);
    assert!(align(&known, 1, &[row(1), end(9)]).is_err());
}

#[test]
fn a_cut_within_a_transaction_is_found_again_by_the_places_of_its_rows() {
    // the transaction goes on behind the cut, and everything up to the cut may be acknowledged: by
    // content row 2 could also be a new row that equals the one before the cut
    let known = history(&[at(1, 1), end(1), at(3, 2)]);
    let replay = [at(3, 2), at(4, 3), end(2)];
    assert_eq!(align(&known, 2, &replay), Ok(Some(1)));
}

#[test]
fn another_place_is_no_evidence() {
    let known = history(&[at(1, 1), end(1), at(3, 2)]);
    let replay = [at(103, 2), at(104, 3), end(2)];
    assert_eq!(
        align(&known, 2, &replay),
        Err(Divergence::Ambiguous { places: 2 })
    );
}

#[test]
fn repeated_rows_without_ids_are_ambiguous_never_skipped() {
    let known = history(&[at(1, 7), at(2, 7)]);
    let replay = [at(11, 7), at(12, 7), at(13, 7), end(1)];
    assert_eq!(
        align(&known, 2, &replay),
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
        stray in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let mut log = Vec::new();
        for (n, value) in rows.iter().enumerate() {
            log.push(at(n as u64, *value));
            if n % 3 == 2 {
                log.push(end(n as u64 + 1));
            }
        }
        log.push(end(999));
        let cut = cut.min(log.len());
        let start = start.min(cut);
        let known = history(&log[..cut]);
        let rows_before = |to: usize| {
            log[..to].iter().filter(|one| matches!(one, Delivered::Row(_))).count() as u64
        };
        let mut replay = Vec::new();
        let mut open = false;
        for (one, stray) in log[start..].iter().zip(stray.iter().cycle()) {
            // the end of somebody else's transaction, between ours
            if *stray && !open {
                replay.push(end(5_000));
            }
            replay.push(*one);
            open = matches!(one, Delivered::Row(_));
        }
        match align(&known, known.end(), &replay) {
            Ok(Some(found)) => prop_assert_eq!(found, rows_before(start)),
            Ok(None) | Err(Divergence::Ambiguous { .. }) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
