//! The event store: pointers, limits, batches.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn entry(size: usize, kind: StoredKind) -> StoredEntry {
    StoredEntry {
        bytes: Bytes::from(vec![0; size]),
        rows: 1,
        kind,
    }
}

fn rows(count: usize, size: usize) -> impl Iterator<Item = StoredEntry> {
    (0..count).map(move |_| entry(size, StoredKind::Rows))
}

fn items(slots: usize) -> EventStore {
    EventStore::new(
        StoreLimits::default()
            .with_slots(slots)
            .with_batch_mode(BatchMode::ItemSize),
    )
}

fn get(store: &mut EventStore, fetch_size: i32) -> Option<(u64, u64)> {
    store
        .get(fetch_size)
        .unwrap()
        .map(|range| (range.start, range.end))
}

#[test]
fn memory_size_cuts_after_the_entry_that_exceeds_the_size() {
    let mut store = EventStore::new(StoreLimits::default());
    store.append(rows(10, 1_000));
    assert_eq!(
        get(&mut store, 2),
        Some((0, 3)),
        "2,000 bytes are not yet more than 2,048"
    );
    assert_eq!(get(&mut store, 0), Some((3, 4)), "size 0 gives one entry");
    assert_eq!(get(&mut store, 2_097_151), Some((4, 10)));
    assert_eq!(get(&mut store, 1), None);
}

#[test]
fn memory_size_refuses_sizes_that_wrap_below_zero() {
    for fetch_size in [-1, 2_097_152, i32::MAX] {
        let mut store = EventStore::new(StoreLimits::default());
        assert_eq!(
            store.get(fetch_size),
            Ok(None),
            "an empty store finds nothing first"
        );
        store.append(rows(1, 10));
        assert_eq!(store.get(fetch_size), Err(GetError::NoEntryFits));
    }
}

#[test]
fn item_size_counts_entries_and_refuses_zero() {
    let mut store = items(100);
    store.append(rows(5, 1_000));
    assert_eq!(store.get(0), Err(GetError::NoEntryFits));
    assert_eq!(store.get(-1), Err(GetError::NoEntryFits));
    assert_eq!(get(&mut store, 3), Some((0, 3)));
    assert!(!store.is_full(3));
    assert!(store.is_full(2));
    assert_eq!(get(&mut store, i32::MAX), Some((3, 5)));
}

#[test]
fn a_full_store_puts_nothing_more_until_an_ack() {
    let mut store = items(4);
    store.append(rows(10, 1));
    assert_eq!(store.unacknowledged(), 4);
    let batch = store.get(10).unwrap().unwrap();
    assert_eq!((batch.start, batch.end), (0, 4));
    assert_eq!(get(&mut store, 10), None);
    assert!(!store.wants_more());
    store.ack(batch).unwrap();
    assert_eq!(get(&mut store, 10), Some((4, 8)));
}

#[test]
fn memory_limits_what_is_unacknowledged() {
    let mut store = EventStore::new(StoreLimits::default().with_slots(4).with_memory_unit(10));
    store.append(rows(3, 30));
    assert_eq!(
        store.unacknowledged(),
        2,
        "30 bytes are under 40, 60 are not"
    );
}

#[test]
fn an_ack_after_the_rollback_of_one_batch_jumps_over_it() {
    let mut store = EventStore::new(StoreLimits::default());
    store.append(rows(6, 2_000));
    let first = store.get(0).unwrap().unwrap();
    let second = store.get(0).unwrap().unwrap();
    store.rollback();
    store.ack(second).unwrap();
    assert_eq!(store.get(1), Err(GetError::SlotsFreed));
    store.rollback();
    assert_eq!(get(&mut store, 0), Some((2, 3)), "the first batch is lost");
    assert_eq!(store.ack(first), Err(NoMatch));
}

#[test]
fn item_size_keeps_the_slots_that_an_ack_jumped_over() {
    let mut store = items(100);
    store.append(rows(3, 1));
    store.get(1).unwrap().unwrap();
    let second = store.get(1).unwrap().unwrap();
    store.rollback();
    store.ack(second).unwrap();
    assert_eq!(get(&mut store, 1), Some((0, 1)));
}

#[test]
fn an_isolated_ddl_comes_alone() {
    let mut store = EventStore::new(StoreLimits::default().with_ddl_isolation(true));
    store.append([
        entry(1, StoredKind::Rows),
        entry(1, StoredKind::Ddl),
        entry(1, StoredKind::Rows),
        entry(1, StoredKind::End),
    ]);
    assert_eq!(get(&mut store, 1_000), Some((0, 1)));
    assert_eq!(get(&mut store, 1_000), Some((1, 2)));
    let last = store.get(1_000).unwrap().unwrap();
    assert_eq!(last.boundary, Some(3));
}

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<(u16, bool)>),
    Get(i32),
    Ack,
    Rollback,
    Restart,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => proptest::collection::vec((1..400_u16, any::<bool>()), 0..12).prop_map(Step::Append),
        4 => (0..4_i32).prop_map(Step::Get),
        3 => Just(Step::Ack),
        1 => Just(Step::Rollback),
        1 => Just(Step::Restart),
        1 => Just(Step::Release),
    ]
}

proptest! {
    /// Whatever a client does that only rolls back all: entries come in order, nothing is skipped, and
    /// what is acknowledged was delivered.
    #[test]
    fn nothing_is_lost_and_order_is_kept(
        steps in proptest::collection::vec(step(), 1..120),
        slots in 1..12_usize,
        mode in prop_oneof![Just(BatchMode::MemorySize), Just(BatchMode::ItemSize)],
    ) {
        let limits = StoreLimits::default()
            .with_slots(slots)
            .with_memory_unit(256)
            .with_batch_mode(mode);
        let mut store = EventStore::new(limits);
        let mut outstanding: VecDeque<Range> = VecDeque::new();
        let (mut appended, mut delivered, mut acknowledged, mut cursor) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut next = 0_u64;
        for step in steps {
            match step {
                Step::Append(sizes) => {
                    appended += u64::try_from(sizes.len()).unwrap();
                    store.append(sizes.into_iter().map(|(size, end)| {
                        entry(usize::from(size), if end { StoredKind::End } else { StoredKind::Rows })
                    }));
                }
                Step::Get(size) => {
                    let size = if mode == BatchMode::ItemSize { size + 1 } else { size };
                    if let Some(range) = store.get(size).unwrap() {
                        prop_assert_eq!(range.start, next, "a run follows the one before");
                        prop_assert!(range.end > range.start);
                        prop_assert_eq!(
                            store.entries(range).count(),
                            usize::try_from(range.end - range.start).unwrap()
                        );
                        next = range.end;
                        delivered = delivered.max(next);
                        outstanding.push_back(range);
                    } else {
                        prop_assert!(
                            next == appended || !outstanding.is_empty(),
                            "nothing to get, though nothing is un-acknowledged"
                        );
                    }
                }
                Step::Ack => {
                    if let Some(range) = outstanding.pop_front() {
                        store.ack(range).unwrap();
                        acknowledged = range.end;
                        cursor = range.boundary.unwrap_or(cursor);
                    }
                }
                Step::Rollback => {
                    outstanding.clear();
                    store.rollback();
                    next = acknowledged;
                }
                Step::Restart => {
                    outstanding.clear();
                    store.restart_at(cursor);
                    next = cursor;
                    acknowledged = cursor;
                }
                Step::Release => store.release(cursor),
            }
            prop_assert!(acknowledged <= delivered);
            prop_assert!(store.first() <= cursor);
            prop_assert!(store.unacknowledged() <= u64::try_from(slots).unwrap());
        }
        // a client that goes on gets everything
        outstanding.drain(..).for_each(|range| store.ack(range).unwrap());
        while let Some(range) = store.get(1).unwrap() {
            prop_assert_eq!(range.start, next);
            next = range.end;
            store.ack(range).unwrap();
        }
        prop_assert_eq!(next, appended);
    }
}
