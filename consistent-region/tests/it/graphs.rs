//! Graphs of every shape, run whole: several and wide start operators, fan-in, parallel operators
//! with and without keys, wide ends, control ports, autonomous operators and ports.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker};

use actix::{Actor, Context, Handler, Message};
use lockkeeper_consistent_region::coordinator::RegionState;
use lockkeeper_consistent_region::graph::{Region, RegionBuilder, TopologyError};
use lockkeeper_consistent_region::operator::{
    AutonomousPort, ControlPort, Cut, InstanceContext, Operator, OperatorError, Output, Prepared,
    Produced, RegionHandle, StartOperator,
};
use lockkeeper_consistent_region::protocol::InstanceId;
use lockkeeper_consistent_region::worker::WorkerEnd;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::place::{LIMIT, Place, comes_into, cut_completed};

const NUMBERS: u64 = 60_000;
const KEYS: u64 = 16;
/// How far a start operator goes ahead of what came back to it.
const WINDOW: u64 = 1_000;

/// Holds start operators in the middle of their numbers until it is opened.
#[derive(Clone, Default)]
struct Sluice(Arc<(AtomicBool, Mutex<Vec<Waker>>)>);

impl Sluice {
    fn opened() -> Self {
        let sluice = Self::default();
        sluice.open();
        sluice
    }

    fn open(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        self.0.1.lock().unwrap().drain(..).for_each(Waker::wake);
    }

    fn is_open(&self, task: &task::Context<'_>) -> bool {
        self.0.1.lock().unwrap().push(task.waker().clone());
        self.0.0.load(Ordering::SeqCst)
    }
}

/// Each instance gives its share of the numbers.
struct Share {
    step: u64,
    next: u64,
    sluice: Sluice,
    /// The greatest number that came back by the control port; `None`: nothing is waited for.
    came_back: Option<u64>,
}

impl Share {
    fn new(context: &InstanceContext, sluice: Sluice) -> Self {
        Self {
            step: context.width().into(),
            next: context.instance().index.into(),
            sluice,
            came_back: None,
        }
    }
}

impl Actor for Share {
    type Context = Context<Self>;
}

impl Operator for Share {
    type Input = ();
    type Output = u64;
    const STATE_TYPE: &'static str = "share";

    fn process(&mut self, _: Vec<()>, _: &mut Output<u64>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        let next = self.next;
        let write = move |to: &mut dyn Write| to.write_all(&next.to_le_bytes());
        Ok(Prepared {
            state: Some(Box::new(write)),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        let mut next = [0; 8];
        state.read_exact(&mut next)?;
        self.next = u64::from_le_bytes(next);
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.next %= self.step;
        Ok(())
    }
}

impl StartOperator for Share {
    fn poll_produce(
        &mut self,
        task: &mut task::Context<'_>,
        output: &mut Output<u64>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        if self.next >= NUMBERS {
            return Poll::Ready(Ok(Produced::End));
        }
        if self.next >= NUMBERS / 2 && !self.sluice.is_open(task) {
            return Poll::Pending;
        }
        if self.came_back.is_some_and(|back| self.next > back + WINDOW) {
            // The control port wakes the instance, whatever it waits for.
            return Poll::Pending;
        }
        for _ in 0..50 {
            if self.next < NUMBERS {
                output.emit(self.next);
                self.next += self.step;
            }
        }
        Poll::Ready(Ok(Produced::More))
    }
}

impl ControlPort for Share {
    type Control = u64;

    fn control(&mut self, batch: Vec<u64>) -> Result<(), OperatorError> {
        let newest = batch.into_iter().max().unwrap_or(0);
        let back = self.came_back.get_or_insert(0);
        *back = newest.max(*back);
        Ok(())
    }
}

/// Gives on what it takes.
struct Pass;

impl Actor for Pass {
    type Context = Context<Self>;
}

impl Operator for Pass {
    type Input = u64;
    type Output = u64;

    fn process(&mut self, batch: Vec<u64>, output: &mut Output<u64>) -> Result<(), OperatorError> {
        output.extend(batch);
        Ok(())
    }
}

/// What the ends have counted up to the last complete cut, instance by instance.
type Counted = Arc<Mutex<BTreeMap<InstanceId, BTreeMap<u64, u64>>>>;

/// Counts by key.
struct Tally {
    instance: InstanceId,
    counts: BTreeMap<u64, u64>,
    prepared: BTreeMap<u64, u64>,
    counted: Counted,
    outside: watch::Sender<u64>,
}

impl Tally {
    fn new(context: &InstanceContext, counted: &Counted) -> Self {
        Self {
            instance: context.instance().clone(),
            counts: BTreeMap::new(),
            prepared: BTreeMap::new(),
            counted: Arc::clone(counted),
            outside: watch::Sender::new(0),
        }
    }

    fn count(&mut self, batch: Vec<u64>) {
        for number in batch {
            *self.counts.entry(number % KEYS).or_default() += 1;
        }
    }
}

impl Actor for Tally {
    type Context = Context<Self>;
}

impl Operator for Tally {
    type Input = u64;
    type Output = ();
    const STATE_TYPE: &'static str = "tally";

    fn process(&mut self, batch: Vec<u64>, _: &mut Output<()>) -> Result<(), OperatorError> {
        self.count(batch);
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        self.prepared.clone_from(&self.counts);
        let counts = self.counts.clone();
        Ok(Prepared {
            state: Some(Box::new(move |to| {
                serde_json::to_writer(to, &counts).map_err(Into::into)
            })),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        self.counts = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Permanent(error.to_string()))?;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.counts.clear();
        Ok(())
    }

    fn region_checkpointed(&mut self, _: u64, _: u64) -> Result<(), OperatorError> {
        let mut counted = self.counted.lock().unwrap();
        counted.insert(self.instance.clone(), self.prepared.clone());
        Ok(())
    }
}

impl AutonomousPort for Tally {
    type Outside = u64;

    fn process_outside(
        &mut self,
        batch: Vec<u64>,
        _: &mut Output<()>,
    ) -> Result<(), OperatorError> {
        self.outside.send_modify(|seen| *seen += batch.len() as u64);
        self.count(batch);
        Ok(())
    }
}

#[derive(Message)]
#[rtype(result = "u64")]
struct HowMany;

impl Handler<HowMany> for Tally {
    type Result = u64;

    fn handle(&mut self, _: HowMany, _: &mut Context<Self>) -> u64 {
        self.counts.values().sum()
    }
}

/// Every number so many times.
fn truth(times: u64) -> BTreeMap<u64, u64> {
    (0..KEYS)
        .map(|key| (key, times * ((NUMBERS + KEYS - 1 - key) / KEYS)))
        .collect()
}

fn total(counted: &Counted) -> BTreeMap<u64, u64> {
    let mut total = BTreeMap::new();
    for counts in counted.lock().unwrap().values() {
        for (key, count) in counts {
            *total.entry(*key).or_default() += count;
        }
    }
    total
}

fn key(number: &u64) -> u64 {
    number % KEYS
}

/// Adds the end that counts.
fn counted_by(
    graph: &mut RegionBuilder,
    stream: lockkeeper_consistent_region::graph::Stream<u64>,
    width: u16,
) -> Counted {
    let counted = Counted::default();
    let shared = Arc::clone(&counted);
    graph.keyed_end("tally", stream, width, key, move |context| {
        Tally::new(&context, &shared)
    });
    counted
}

/// Runs until the end, with a reset by hand in the middle.
async fn runs_with_a_reset(region: Region, sluice: &Sluice) {
    let mut place = Place::with(|_| region);
    place.lease = LIMIT;
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    cut_completed(&mut events).await;
    coordinator.reset(false, "by hand").await.unwrap();
    comes_into(&mut events, RegionState::Processing).await;
    sluice.open();
    let end = timeout(LIMIT, worker.ended()).await;
    assert_eq!(
        end,
        Ok(WorkerEnd::RegionEnded),
        "{:?}",
        coordinator.status()
    );
    assert!(coordinator.reached(RegionState::Completed).await);
    assert_eq!(coordinator.status().attempt, 2);
}

#[actix::test]
async fn several_wide_starts_meet_in_parallel_operators_and_wide_ends_count_everything_once() {
    let sluice = Sluice::default();
    let mut graph = Region::builder("wide");
    let (one, other) = (sluice.clone(), sluice.clone());
    let wide = graph.parallel_start("wide", 3, move |context| Share::new(&context, one.clone()));
    let narrow = graph.start("narrow", move |context| Share::new(&context, other.clone()));
    let passed = graph.operator("pass", [wide, narrow], 2, |_| Pass);
    let counted = counted_by(&mut graph, passed, 2);
    let region = graph.build().unwrap();
    assert_eq!(region.members().starts.len(), 2);
    runs_with_a_reset(region, &sluice).await;
    assert_eq!(counted.lock().unwrap().len(), 2, "both instances count");
    assert_eq!(total(&counted), truth(2));
}

#[actix::test]
async fn a_loop_over_a_control_port_lets_the_start_go_on_and_the_region_be_drained() {
    let sluice = Sluice::default();
    let mut graph = Region::builder("loop");
    let held = sluice.clone();
    let numbers = graph.start("numbers", move |context| Share {
        came_back: Some(0),
        ..Share::new(&context, held.clone())
    });
    let passed = graph.operator("pass", numbers, 1, |_| Pass);
    graph.control::<Share>("numbers", passed.clone());
    let counted = counted_by(&mut graph, passed, 1);
    runs_with_a_reset(graph.build().unwrap(), &sluice).await;
    assert_eq!(total(&counted), truth(1));
}

/// Sees everything, is asked nothing.
struct Display(Arc<AtomicU64>);

impl Actor for Display {
    type Context = Context<Self>;
}

impl Operator for Display {
    type Input = u64;
    type Output = ();

    fn process(&mut self, batch: Vec<u64>, _: &mut Output<()>) -> Result<(), OperatorError> {
        self.0.fetch_add(batch.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        Err(OperatorError::Permanent("it takes no part".to_owned()))
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        Err(OperatorError::Permanent("it is not reset".to_owned()))
    }
}

#[actix::test]
async fn an_autonomous_end_sees_every_tuple_and_takes_no_part_in_cuts_and_resets() {
    let sluice = Sluice::default();
    let seen = Arc::new(AtomicU64::new(0));
    let mut graph = Region::builder("display");
    let (held, shown) = (sluice.clone(), Arc::clone(&seen));
    let numbers = graph.start("numbers", move |context| Share::new(&context, held.clone()));
    let _nothing = graph.autonomous("display", numbers.clone(), 1, move |_| {
        Display(Arc::clone(&shown))
    });
    let counted = counted_by(&mut graph, numbers, 1);
    let region = graph.build().unwrap();
    assert_eq!(region.members().all.len(), 2, "the display is no member");
    runs_with_a_reset(region, &sluice).await;
    assert_eq!(total(&counted), truth(1));
    let seen = seen.load(Ordering::SeqCst);
    assert!(seen >= NUMBERS / 2, "{seen}");
}

#[actix::test]
async fn tuples_from_outside_count_for_the_cut_that_follows_them() {
    let sluice = Sluice::default();
    let (outside, mut seen) = watch::channel(0);
    let counted = Counted::default();
    let mut graph = Region::builder("outside");
    let held = sluice.clone();
    let numbers = graph.start("numbers", move |context| Share::new(&context, held.clone()));
    let others = graph.autonomous_start("others", |context| Share::new(&context, Sluice::opened()));
    let shared = Arc::clone(&counted);
    graph.end("tally", numbers, move |context| Tally {
        outside: outside.clone(),
        ..Tally::new(&context, &shared)
    });
    graph.autonomous_port::<Tally>("tally", others);
    let mut place = Place::with(|_| graph.build().unwrap());
    place.lease = LIMIT;
    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    let all = seen.wait_for(|seen| *seen == NUMBERS);
    timeout(LIMIT, all).await.unwrap().unwrap();
    sluice.open();
    let end = timeout(LIMIT, worker.ended()).await;
    assert_eq!(end, Ok(WorkerEnd::RegionEnded));
    assert_eq!(total(&counted), truth(2), "both came once");
}

#[actix::test]
async fn an_operator_answers_messages_of_its_own_while_it_takes_part_in_cuts() {
    let sluice = Sluice::default();
    let mut graph = Region::builder("messages");
    let held = sluice.clone();
    let numbers = graph.start("numbers", move |context| Share::new(&context, held.clone()));
    let counted = counted_by(&mut graph, numbers, 1);
    let mut place = Place::with(|_| graph.build().unwrap());
    place.lease = LIMIT;
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    cut_completed(&mut events).await;
    let instance = InstanceId {
        operator: "tally".to_owned(),
        index: 0,
    };
    let tally = worker.operator::<Tally>(instance.clone()).await.unwrap();
    assert!(tally.send(HowMany).await.unwrap() <= NUMBERS / 2);
    let other = worker.operator::<Pass>(instance).await;
    assert!(other.is_none(), "it is another type");
    sluice.open();
    let end = timeout(LIMIT, worker.ended()).await;
    assert_eq!(end, Ok(WorkerEnd::RegionEnded));
    assert_eq!(total(&counted), truth(1));
}

#[test]
fn s1_ports_are_added_only_to_operators_that_have_them_and_mistakes_name_both() {
    let numbers = |graph: &mut RegionBuilder| {
        graph.start("numbers", |context| Share::new(&context, Sluice::opened()))
    };
    let mut graph = Region::builder("mistakes");
    let stream = numbers(&mut graph);
    graph.control::<Share>("nobody", stream);
    let operator = "nobody".to_owned();
    assert_eq!(
        graph.build().unwrap_err(),
        TopologyError::UnknownOperator { operator }
    );

    let mut graph = Region::builder("mistakes");
    let stream = numbers(&mut graph);
    let passed = graph.operator("pass", stream, 1, |_| Pass);
    graph.control::<Share>("pass", passed);
    let error = graph.build().unwrap_err();
    assert!(
        matches!(&error, TopologyError::WrongOperator { operator, .. } if operator == "pass"),
        "{error}"
    );

    let mut graph = Region::builder("mistakes");
    let stream = numbers(&mut graph);
    let counted = Counted::default();
    graph.end("tally", stream.clone(), move |context| {
        Tally::new(&context, &counted)
    });
    graph.autonomous_port::<Tally>("tally", stream);
    let operator = "tally".to_owned();
    assert_eq!(
        graph.build().unwrap_err(),
        TopologyError::ConsistentIntoAutonomousPort { operator, port: 1 }
    );

    let mut graph = Region::builder("mistakes");
    let _stream = numbers(&mut graph);
    graph.needs("nobody", "disk");
    let operator = "nobody".to_owned();
    assert_eq!(
        graph.build().unwrap_err(),
        TopologyError::UnknownOperator { operator }
    );
}
