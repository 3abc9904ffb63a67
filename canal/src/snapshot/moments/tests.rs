//! A table that is changed by dice while it is read as of a moment, and a stream that lags behind,
//! begins again, names wrong files after a rotation, and survives crashes.

use proptest::prelude::*;

use super::*;
use crate::snapshot::entries;
use crate::snapshot::key::KeyValue;
use crate::snapshot::simulation::*;

/// A place in the binlog: as it is, and as Canal's server names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    file: u32,
    named: u32,
    offset: i64,
}

/// The database and its binlog.
#[derive(Debug)]
struct World {
    rows: Rows,
    log: Vec<(Place, i64, Change)>,
    place: Place,
    /// Milliseconds, in whole seconds.
    clock: i64,
}

fn journal(file: u32) -> String {
    format!("binlog.{file:06}")
}

impl World {
    fn new() -> Self {
        Self {
            rows: (0..40).map(|id| (id, id)).collect(),
            log: Vec::new(),
            place: Place {
                file: 7,
                named: 7,
                offset: 4,
            },
            clock: 1_000_000,
        }
    }

    fn mutate(&mut self, dice: u64) {
        if let Some(change) = mutate(&mut self.rows, dice) {
            self.log.push((self.place.clone(), self.clock, change));
            self.place.offset += 10;
        }
    }

    /// Begins a new file, which Canal's server names as the one before until it is `noticed`.
    fn rotate(&mut self, noticed: bool) {
        // Never in the second of a moment: who takes one sees to it.
        self.clock += 1000;
        self.place.file += 1;
        self.place.offset = 4;
        if noticed {
            self.place.named = self.place.file;
        }
        self.clock += 1000;
    }

    fn moment(&mut self) -> Taken {
        let moment = Moment {
            journal: journal(self.place.file),
            offset: self.place.offset,
            from: self.clock,
            until: self.clock,
        };
        Taken {
            moment,
            rows: self.rows.clone(),
        }
    }

    fn entry(&self, at: usize) -> Entry {
        let (place, time, made) = &self.log[at];
        let mut header = header("shop", "orders");
        header.logfile_name = journal(place.named);
        header.logfile_offset = place.offset;
        header.execute_time = *time;
        decoded(&change_at(&header, *made))
    }
}

/// The transaction that sees the table as of its moment.
#[derive(Debug, Clone)]
struct Taken {
    moment: Moment,
    rows: Rows,
}

/// One step of the dice.
#[derive(Debug, Clone, Copy)]
enum Step {
    Mutate(u64),
    Read,
    Deliver(usize),
    /// The clock goes on, and the binlog's next file begins.
    Rotate(bool),
    /// The connection to the database is lost.
    Lose,
    /// The handler takes a chunk's rows and fails then.
    RefuseRows,
    /// The handler takes a batch's entries and fails then.
    Fail(usize),
    /// The stream begins again some entries before.
    Rewind(usize),
    /// The process is killed while the next chunk or batch is handled, before or after the handler
    /// was done, and started again.
    Crash(usize, bool),
}

/// What becomes of what is handed out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Handled,
    Failed,
    /// With the process; whether the handler was done.
    Killed(bool),
}

struct Process {
    world: World,
    machine: Moments,
    kept: SnapshotState,
    acked: usize,
    taken: Option<Taken>,
    handler: Handler,
    exact: bool,
}

impl Process {
    fn hand_out(&mut self, raw: &[bytes::Bytes]) {
        for raw in raw {
            match self.exact {
                true => self.handler.strictly(raw),
                false => self.handler.over(raw),
            }
        }
    }

    fn restart(&mut self) {
        self.machine = Moments::new(self.kept.clone());
        self.taken = None;
    }

    fn read(&mut self, size: usize, fate: Fate) {
        if self.taken.is_none() {
            self.taken = Some(self.world.moment());
            self.machine.begin(0, &key()).unwrap();
        }
        let Taken { moment, rows } = self.taken.clone().unwrap();
        let from = self.machine.state().tables[0].through.as_ref().map(id_of);
        let behind = rows
            .iter()
            .filter(|(id, _)| from.is_none_or(|from| **id > from));
        let chunk = behind.take(size).map(|(id, value)| columns(*id, *value));
        let chunk: Vec<_> = chunk.collect();
        let to = bound(&key(), &chunk, chunk.len() < size).unwrap();
        self.machine.attempt(0, to.clone(), &moment);
        self.kept = self.machine.state().clone();
        let raw = entries::inserts("shop", "orders", &entries::ReadAt::default(), chunk);
        if fate != Fate::Killed(false) {
            self.hand_out(&raw);
        }
        match fate {
            Fate::Handled => {
                self.machine.handed_out(0, to);
                self.kept = self.machine.state().clone();
            }
            Fate::Failed => {}
            Fate::Killed(_) => self.restart(),
        }
    }

    fn deliver(&mut self, count: usize, fate: Fate) {
        let end = self.acked.saturating_add(count).min(self.world.log.len());
        let batch: Vec<_> = (self.acked..end).map(|at| self.world.entry(at)).collect();
        let mut next = self.machine.clone();
        let merged = next.merge(batch).unwrap();
        if fate != Fate::Killed(false) {
            self.hand_out(&merged.entries);
        }
        match fate {
            Fate::Handled => {
                self.machine = next;
                self.kept = self.machine.state().clone();
                self.acked = end;
            }
            Fate::Failed => {}
            Fate::Killed(_) => self.restart(),
        }
    }

    fn go_on(&mut self, count: usize, size: usize, fate: Fate) {
        match self.machine.state().is_done() {
            false => self.read(size, fate),
            true => self.deliver(count, fate),
        }
    }
}

fn run(steps: &[Step], size: usize) {
    let fault = |step: &Step| {
        matches!(
            step,
            Step::Rewind(_)
                | Step::Crash(..)
                | Step::Fail(_)
                | Step::RefuseRows
                | Step::Rotate(false)
        )
    };
    let state = SnapshotState::new([("shop", "orders")]);
    let mut process = Process {
        world: World::new(),
        machine: Moments::new(state.clone()),
        kept: state,
        acked: 0,
        taken: None,
        handler: Handler::default(),
        exact: !steps.iter().any(fault),
    };
    // Then all of it is read and delivered.
    let rest = std::iter::repeat_n([Step::Read, Step::Deliver(usize::MAX)], 100);
    for step in steps.iter().copied().chain(rest.flatten()) {
        let done = process.machine.state().is_done();
        match step {
            Step::Mutate(dice) => process.world.mutate(dice),
            Step::Rotate(noticed) => process.world.rotate(noticed),
            Step::Rewind(back) => process.acked = process.acked.saturating_sub(back),
            Step::Lose => process.taken = None,
            Step::Read if !done => process.read(size, Fate::Handled),
            Step::RefuseRows if !done => process.read(size, Fate::Failed),
            Step::Deliver(count) if done => process.deliver(count, Fate::Handled),
            Step::Fail(count) if done => process.deliver(count, Fate::Failed),
            Step::Crash(count, handled) => process.go_on(count, size, Fate::Killed(handled)),
            _ => {}
        }
    }
    assert!(process.machine.state().is_done());
    assert_eq!(process.handler.rows, process.world.rows);
}

fn steps(faults: bool) -> impl Strategy<Value = Vec<Step>> {
    let count = 0..25_usize;
    let usual = prop_oneof![
        6 => any::<u64>().prop_map(Step::Mutate),
        3 => Just(Step::Read),
        3 => count.clone().prop_map(Step::Deliver),
        1 => Just(Step::Rotate(true)),
        1 => Just(Step::Lose),
    ];
    let fault = prop_oneof![
        count.clone().prop_map(Step::Fail),
        Just(Step::RefuseRows),
        Just(Step::Rotate(false)),
        (0..8_usize).prop_map(Step::Rewind),
        (count, any::<bool>()).prop_map(|(count, handled)| Step::Crash(count, handled)),
    ];
    let weight = u32::from(faults) * 2;
    proptest::collection::vec(prop_oneof![12 => usual, weight => fault], 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_row_comes_once_and_every_change_behind_the_moment_once(steps in steps(false), size in 1..15_usize) {
        run(&steps, size);
    }

    #[test]
    fn crashes_rotations_and_repetitions_end_with_the_databases_rows(steps in steps(true), size in 1..15_usize) {
        run(&steps, size);
    }
}

fn numbered(id: u64) -> Bound {
    Bound::Row(Key(vec![KeyValue::Unsigned(id)]))
}

fn moment(offset: i64) -> Moment {
    Moment {
        journal: journal(7),
        offset,
        from: i64::MAX,
        until: i64::MAX,
    }
}

/// Read up to 10 as of offset 100, and the rest as of 200.
fn of_two_moments() -> Moments {
    let mut machine = Moments::new(SnapshotState::new([("shop", "orders")]));
    machine.begin(0, &key()).unwrap();
    machine.attempt(0, numbered(10), &moment(100));
    machine.handed_out(0, numbered(10));
    machine.attempt(0, Bound::End, &moment(200));
    machine.handed_out(0, Bound::End);
    machine
}

fn at(offset: i64, made: Change) -> Entry {
    let mut header = header("shop", "orders");
    header.logfile_name = journal(7);
    header.logfile_offset = offset;
    decoded(&change_at(&header, made))
}

fn merged(machine: &mut Moments, batch: Vec<Entry>) -> Vec<Change> {
    let merged = machine.merge(batch).unwrap();
    let changes_of = merged.entries.iter().flat_map(|raw| changes(raw).1);
    changes_of.collect()
}

#[test]
fn changes_are_handed_out_from_the_moment_of_their_row_on() {
    let mut machine = of_two_moments();
    let batch = vec![
        at(99, (Some((5, 1)), Some((5, 2)))),
        at(100, (Some((5, 2)), Some((5, 3)))),
        at(110, (Some((15, 1)), Some((15, 2)))),
        at(120, (Some((6, 1)), Some((16, 1)))),
        at(130, (Some((16, 1)), Some((7, 1)))),
        at(200, (Some((15, 2)), None)),
    ];
    let wanted = [
        (Some((5, 2)), Some((5, 3))),
        (Some((6, 1)), None),
        (None, Some((7, 1))),
        (Some((15, 2)), None),
    ];
    assert_eq!(merged(&mut machine, batch), wanted);
}

#[test]
fn a_moment_that_was_passed_is_forgotten_and_no_position_is_compared_any_more() {
    let mut machine = of_two_moments();
    assert!(machine.state().has_moments());
    merged(&mut machine, vec![at(200, (Some((15, 1)), None))]);
    assert!(!machine.state().has_moments());
    // As after a fail-over of the database, whose binlog begins anew.
    let batch = vec![at(4, (Some((16, 1)), None))];
    assert_eq!(merged(&mut machine, batch), [(Some((16, 1)), None)]);
}

#[test]
fn a_snapshot_that_watermarks_began_goes_on_as_of_a_moment() {
    let mut state = SnapshotState::new([("shop", "orders")]);
    state.tables[0].key = key();
    state.tables[0].through = Some(Key(vec![KeyValue::Unsigned(10)]));
    state.tables[0].attempted = Some(numbered(12));
    let mut machine = Moments::new(state);
    machine.begin(0, &key()).unwrap();
    machine.attempt(0, Bound::End, &moment(200));
    machine.handed_out(0, Bound::End);
    let batch = vec![
        at(150, (Some((10, 1)), None)),
        at(151, (Some((12, 1)), None)),
        at(152, (Some((13, 1)), None)),
    ];
    let wanted = [(Some((10, 1)), None), (Some((12, 1)), None)];
    assert_eq!(merged(&mut machine, batch), wanted);
}

#[test]
fn another_primary_key_than_at_the_beginning_is_an_error() {
    let mut machine = of_two_moments();
    let mut other = key();
    other[0].name = "number".to_owned();
    assert!(matches!(
        machine.begin(0, &other),
        Err(SnapshotError::State(_))
    ));
}
