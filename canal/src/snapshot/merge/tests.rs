//! A table that is changed by dice while it is read in chunks, and a stream that lags behind, begins
//! again and survives crashes.

use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::snapshot::simulation::*;

fn named(name: &'static str, text: &str) -> wire::Column {
    wire::Column {
        name: name.into(),
        value: text.to_owned().into(),
        ..wire::Column::default()
    }
}

fn mark(text: &str) -> Bytes {
    let row = wire::RowData {
        after_columns: vec![named("name", "snapshot"), named("mark", text)],
        ..wire::RowData::default()
    };
    entries::entry(&header("shop", "marks"), wire::EventType::Update, vec![row])
}

fn schema_change() -> Bytes {
    let change = wire::RowChange {
        event_type: Some(wire::EventType::Alter.into()),
        is_ddl: Some(true),
        ..wire::RowChange::default()
    };
    let mut header = header("shop", "orders");
    header.event_type = Some(wire::EventType::Alter.into());
    let entry = wire::Entry {
        header: Some(header),
        entry_type: Some(wire::EntryType::RowData.into()),
        store_value: change.encode_to_vec().into(),
    };
    entry.encode_to_vec().into()
}

fn merge(state: SnapshotState) -> Merge {
    let watermarks = Watermarks {
        schema: "shop".to_owned(),
        table: "marks".to_owned(),
        name: "snapshot".to_owned(),
    };
    Merge::new(state, watermarks)
}

/// The database, its binlog, and who reads the table.
#[derive(Debug, Default)]
struct World {
    rows: Rows,
    log: Vec<Bytes>,
    reading: Reading,
    chunks: u64,
}

#[derive(Debug, Default, PartialEq)]
enum Reading {
    #[default]
    Idle,
    /// The low watermark is written.
    Low,
    /// The rows are read.
    Read,
    /// The high watermark is written, and has not come yet.
    High,
}

impl World {
    fn mutate(&mut self, dice: u64) {
        self.log.extend(mutate(&mut self.rows, dice).map(change));
    }

    /// The reader's next step.
    fn read(&mut self, merge: &mut Merge, size: usize) {
        match self.reading {
            Reading::Idle => {
                let Some((table, _)) = merge.next() else {
                    return;
                };
                self.chunks += 1;
                let (low, high) = (
                    format!("low {}", self.chunks),
                    format!("high {}", self.chunks),
                );
                self.log.push(mark(&low));
                merge
                    .begin(Chunk {
                        table,
                        key: key(),
                        low,
                        high,
                    })
                    .unwrap();
                self.reading = Reading::Low;
            }
            Reading::Low => {
                let from = merge.state().tables[0].through.as_ref().map(id_of);
                let behind = self
                    .rows
                    .iter()
                    .filter(|(id, _)| from.is_none_or(|from| **id > from));
                let rows: Vec<_> = behind
                    .take(size)
                    .map(|(id, value)| columns(*id, *value))
                    .collect();
                let last = rows.len() < size;
                merge.loaded(ReadAt::default(), rows, last);
                self.reading = Reading::Read;
            }
            Reading::Read => {
                self.log.push(mark(&format!("high {}", self.chunks)));
                self.reading = Reading::High;
            }
            Reading::High => {}
        }
    }
}

/// One step of the dice.
#[derive(Debug, Clone, Copy)]
enum Step {
    Mutate(u64),
    Read,
    /// The stream brings so many entries.
    Deliver(usize),
    /// The same, and then its handler fails: they come again.
    Fail(usize),
    /// The stream begins again some entries before, as a server may after its own restart.
    Rewind(usize),
    /// The process is killed, before or after its handler was done, and started again.
    Crash(usize, bool),
    SchemaChange,
}

fn run(steps: &[Step], size: usize) {
    let exact = !steps
        .iter()
        .any(|step| matches!(step, Step::Rewind(_) | Step::Crash(..) | Step::Fail(_)));
    let mut world = World::default();
    (0..40).for_each(|id| {
        world.rows.insert(id, id);
    });
    let mut merge = merge(SnapshotState::new([("shop", "orders")]));
    // What a restart finds: the state, and where the stream goes on.
    let (mut kept, mut acked) = (merge.state().clone(), 0_usize);
    let mut handler = Handler::default();
    // Then all of it is read and delivered, with nothing else between.
    let rest = [
        Step::Read,
        Step::Read,
        Step::Read,
        Step::Deliver(usize::MAX),
    ];
    let rest = std::iter::repeat_n(rest, 100).flatten();
    for step in steps.iter().copied().chain(rest) {
        match step {
            Step::Mutate(dice) => world.mutate(dice),
            Step::SchemaChange => world.log.push(schema_change()),
            Step::Read => world.read(&mut merge, size),
            Step::Rewind(back) => acked = acked.saturating_sub(back),
            Step::Deliver(count) | Step::Fail(count) | Step::Crash(count, _) => {
                let end = acked.saturating_add(count).min(world.log.len());
                let batch = world.log[acked..end].iter().map(decoded);
                let mut next = merge.clone();
                let merged = next.merge(batch).unwrap();
                if !merged.settled.is_empty() {
                    merge.attempt(&merged.settled);
                    kept = merge.state().clone();
                }
                let handled = !matches!(step, Step::Crash(_, false));
                if handled {
                    for raw in &merged.entries {
                        if exact {
                            handler.strictly(raw);
                        } else {
                            handler.over(raw);
                        }
                    }
                }
                match step {
                    Step::Deliver(_) => {
                        merge = next;
                        if !merged.settled.is_empty() {
                            kept = merge.state().clone();
                            world.reading = Reading::Idle;
                        }
                        acked = end;
                    }
                    Step::Fail(_) => {}
                    _ => {
                        // What is written to the database stays; the window is gone.
                        merge = super::tests::merge(kept.clone());
                        world.reading = Reading::Idle;
                    }
                }
            }
        }
    }
    assert!(merge.state().is_done());
    assert_eq!(handler.rows, world.rows);
}

fn steps(faults: bool) -> impl Strategy<Value = Vec<Step>> {
    let count = 0..25_usize;
    let usual = prop_oneof![
        6 => any::<u64>().prop_map(Step::Mutate),
        3 => Just(Step::Read),
        3 => count.clone().prop_map(Step::Deliver),
        1 => Just(Step::SchemaChange),
    ];
    let fault = prop_oneof![
        count.clone().prop_map(Step::Fail),
        (0..8_usize).prop_map(Step::Rewind),
        (count, any::<bool>()).prop_map(|(count, handled)| Step::Crash(count, handled)),
    ];
    let weight = u32::from(faults);
    proptest::collection::vec(prop_oneof![12 => usual, weight => fault], 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_row_comes_once_and_every_change_behind_it_once(steps in steps(false), size in 1..15_usize) {
        run(&steps, size);
    }

    #[test]
    fn crashes_and_repetitions_end_with_the_databases_rows(steps in steps(true), size in 1..15_usize) {
        run(&steps, size);
    }
}

/// A merge with the table's first rows done, through key 10.
fn through_ten() -> Merge {
    let mut state = SnapshotState::new([("shop", "orders")]);
    state.tables[0].key = key();
    state.tables[0].through = Some(Key(vec![super::super::key::KeyValue::Unsigned(10)]));
    merge(state)
}

fn merged(merge: &mut Merge, log: &[Bytes]) -> Vec<Change> {
    let merged = merge.merge(log.iter().map(decoded)).unwrap();
    merged
        .entries
        .iter()
        .flat_map(|raw| changes(raw).1)
        .collect()
}

#[test]
fn changes_are_handed_out_of_known_rows_only() {
    let mut merge = through_ten();
    let log = [
        change((None, Some((10, 1)))),
        change((None, Some((11, 1)))),
        change((Some((10, 1)), None)),
        change((Some((11, 1)), None)),
    ];
    let wanted = [(None, Some((10, 1))), (Some((10, 1)), None)];
    assert_eq!(merged(&mut merge, &log), wanted);
}

#[test]
fn an_update_that_moves_a_row_over_the_border_becomes_what_the_handler_can_use() {
    let mut merge = through_ten();
    let log = [
        change((Some((5, 1)), Some((20, 2)))),
        change((Some((20, 2)), Some((6, 3)))),
        change((Some((6, 3)), Some((7, 4)))),
        change((Some((21, 1)), Some((22, 2)))),
    ];
    let wanted = [
        (Some((5, 1)), None),
        (None, Some((6, 3))),
        (Some((6, 3)), Some((7, 4))),
    ];
    assert_eq!(merged(&mut merge, &log), wanted);
}

#[test]
fn other_tables_pass_and_watermarks_do_not() {
    let mut merge = through_ten();
    let other = {
        let row = wire::RowData {
            after_columns: columns(99, 1),
            ..wire::RowData::default()
        };
        entries::entry(&header("shop", "items"), wire::EventType::Insert, vec![row])
    };
    let log = [
        mark("low 7"),
        other.clone(),
        mark("high 7"),
        schema_change(),
    ];
    let merged = merge.merge(log.iter().map(decoded)).unwrap();
    assert_eq!(merged.entries, [other, schema_change()]);
    assert_eq!(merged.settled, []);
}

#[test]
fn a_schema_change_between_the_watermarks_has_the_chunk_read_again() {
    let mut merge = through_ten();
    let chunk = Chunk {
        table: 0,
        key: key(),
        low: "low".to_owned(),
        high: "high".to_owned(),
    };
    merge.begin(chunk.clone()).unwrap();
    merge.loaded(ReadAt::default(), vec![columns(11, 1)], true);
    let again = merge
        .merge(
            [mark("low"), schema_change(), mark("high")]
                .iter()
                .map(decoded),
        )
        .unwrap();
    assert!(
        matches!(again.settled[..], [Settled::Again { .. }]),
        "{:?}",
        again.settled
    );
    assert_eq!(again.entries, [schema_change()]);
    assert!(!merge.state().is_done());
    merge.begin(chunk).unwrap();
    merge.loaded(ReadAt::default(), vec![columns(11, 1)], true);
    assert_eq!(
        merged(&mut merge, &[mark("low"), mark("high")]),
        [(None, Some((11, 1)))]
    );
    assert!(merge.state().is_done());
}

#[test]
fn a_change_without_the_keys_columns_is_an_error_that_names_the_table() {
    let mut merge = through_ten();
    let row = wire::RowData {
        after_columns: vec![named("value", "1")],
        ..wire::RowData::default()
    };
    let raw = entries::entry(
        &header("shop", "orders"),
        wire::EventType::Update,
        vec![row],
    );
    let failed = merge.merge([decoded(&raw)]).unwrap_err();
    assert!(
        matches!(&failed, SnapshotError::RowImage { table, .. } if table == "shop.orders"),
        "{failed}"
    );
}

#[test]
fn another_primary_key_than_at_the_beginning_is_an_error() {
    let mut merge = through_ten();
    let mut chunk = Chunk {
        table: 0,
        key: key(),
        low: String::new(),
        high: String::new(),
    };
    chunk.key[0].name = "number".to_owned();
    assert!(matches!(merge.begin(chunk), Err(SnapshotError::State(_))));
}
