//! Sinks of the user's own in a whole region: one in two phases, one whose target recognises repeats,
//! and an operator whose system outside goes back with the region.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Context};
use lockkeeper_consistent_region::coordinator::{RegionEvent, RegionState};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::operator::{
    Committer, Cut, Operator, OperatorError, Output, Prepared,
};
use lockkeeper_consistent_region::sink::{
    Delivery, IdempotentSink, IdempotentTarget, OutputId, SinkOperator, TwoPhaseSink,
};
use lockkeeper_consistent_region::store::MemoryStore;
use lockkeeper_consistent_region::worker::WorkerEnd;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::numbers::{Upstream, numbers};
use crate::place::{LIMIT, Place, comes_into, cut_completed, event};

const NUMBERS: u64 = 2_000;

/// Runs `build`'s region over two cuts, resets it in between with numbers on their way, and waits for
/// its end.
async fn over_a_reset(build: impl FnOnce(&Upstream) -> Region) {
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let mut place = Place::with(|_| build(&upstream));
    place.period = None;
    // A round that ends with a lease on a busy machine would not be taken again.
    place.lease = LIMIT;
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    timeout(LIMIT, upstream.produced(NUMBERS / 4))
        .await
        .unwrap();
    coordinator.cut().await.unwrap();
    cut_completed(&mut events).await;
    timeout(LIMIT, upstream.produced(NUMBERS / 2))
        .await
        .unwrap();
    coordinator
        .reset(false, "to see what comes twice")
        .await
        .unwrap();
    event(
        &mut events,
        |event| matches!(event, RegionEvent::ResetCompleted { restored, .. } if *restored > 0),
    )
    .await;
    upstream.release();
    let ended = timeout(LIMIT, worker.ended()).await;
    assert_eq!(
        ended,
        Ok(WorkerEnd::RegionEnded),
        "{:?}",
        coordinator.status()
    );
    coordinator.halt().await;
}

/// A two-phase sink over two maps.
#[derive(Default)]
struct Ledger {
    staged: Mutex<BTreeMap<String, Vec<u64>>>,
    committed: Mutex<BTreeMap<u64, (String, Vec<u64>)>>,
}

/// The sink of one instance: instances come and go, the ledger stays.
struct LedgerSink(Arc<Ledger>);

impl TwoPhaseSink for LedgerSink {
    type Tuple = u64;

    fn stage(&self, cut: Cut, tuples: Vec<u64>) -> Result<Vec<u8>, OperatorError> {
        let name = format!("{}.{}.{}", cut.seq, cut.term, cut.attempt);
        self.0.staged.lock().unwrap().insert(name.clone(), tuples);
        Ok(name.into_bytes())
    }
}

impl Committer for LedgerSink {
    fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        let name = String::from_utf8(token.to_vec()).unwrap();
        let mut committed = self.0.committed.lock().unwrap();
        if let Some((by, _)) = committed.get(&seq) {
            assert_eq!(*by, name, "two attempts were committed as {seq}");
            return Ok(());
        }
        let staged = self.0.staged.lock().unwrap().remove(&name);
        let Some(staged) = staged else {
            return Err(OperatorError::Permanent(format!("{name} is gone")));
        };
        committed.insert(seq, (name, staged));
        Ok(())
    }

    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError> {
        let mut staged = self.0.staged.lock().unwrap();
        staged.retain(|name, _| retained.iter().any(|token| token == name.as_bytes()));
        Ok(())
    }
}

#[actix::test]
async fn s27_a_sink_of_the_users_own_has_every_tuple_once() {
    let ledger = Arc::new(Ledger::default());
    let sink = Arc::clone(&ledger);
    over_a_reset(move |upstream| {
        let mut graph = Region::builder("ledger");
        let source = numbers(upstream, &mut graph);
        graph.end("sink", source, move |context| {
            SinkOperator::of(context, LedgerSink(Arc::clone(&sink)))
        });
        graph.build().unwrap()
    })
    .await;
    let committed = ledger.committed.lock().unwrap();
    let numbers: Vec<u64> = committed
        .values()
        .flat_map(|(_, numbers)| numbers.clone())
        .collect();
    assert_eq!(numbers, (0..NUMBERS).collect::<Vec<_>>());
    assert!(ledger.staged.lock().unwrap().is_empty());
}

/// A ledger whose commits wait at a gate.
struct GatedSink {
    ledger: LedgerSink,
    gate: watch::Receiver<bool>,
    stagings: watch::Sender<usize>,
}

impl TwoPhaseSink for GatedSink {
    type Tuple = u64;

    fn stage(&self, cut: Cut, tuples: Vec<u64>) -> Result<Vec<u8>, OperatorError> {
        let staged = self.ledger.stage(cut, tuples);
        self.stagings.send_modify(|stagings| *stagings += 1);
        staged
    }
}

impl Committer for GatedSink {
    fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        let mut gate = self.gate.clone();
        let opened = timeout(LIMIT, gate.wait_for(|open| *open));
        Runtime::new().unwrap().block_on(async {
            opened.await.unwrap().unwrap();
        });
        self.ledger.commit(seq, token)
    }

    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError> {
        self.ledger.abort_all_except(retained)
    }
}

/// A restart from the second cut would commit what that one has staged, and nothing before.
#[actix::test]
async fn p6_a_cut_is_not_complete_while_the_one_before_is_not_committed() {
    let ledger = Arc::new(Ledger::default());
    let (open, gate) = watch::channel(false);
    let (stagings, mut staged) = watch::channel(0);
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let mut place = Place::with(|_| {
        let ledger = Arc::clone(&ledger);
        let mut graph = Region::builder("gated");
        let source = numbers(&upstream, &mut graph);
        graph.end("sink", source, move |context| {
            let sink = GatedSink {
                ledger: LedgerSink(Arc::clone(&ledger)),
                gate: gate.clone(),
                stagings: stagings.clone(),
            };
            SinkOperator::of(context, sink)
        });
        graph.build().unwrap()
    });
    (place.period, place.lease) = (None, LIMIT);
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    let half = timeout(LIMIT, upstream.produced(NUMBERS / 2));
    half.await.unwrap();
    coordinator.cut().await.unwrap();
    cut_completed(&mut events).await;
    // The last cut begins by itself.
    upstream.release();
    let twice = timeout(LIMIT, staged.wait_for(|stagings| *stagings == 2));
    twice.await.unwrap().unwrap();
    let early = timeout(Duration::from_millis(500), cut_completed(&mut events)).await;
    assert!(early.is_err(), "the second cut is complete");
    assert!(ledger.committed.lock().unwrap().is_empty());

    open.send(true).unwrap();
    cut_completed(&mut events).await;
    let ended = timeout(LIMIT, worker.ended()).await;
    assert_eq!(ended, Ok(WorkerEnd::RegionEnded));
    let committed = ledger.committed.lock().unwrap();
    let numbers = committed.values().map(|(_, numbers)| numbers.len());
    assert_eq!(numbers.sum::<usize>(), usize::try_from(NUMBERS).unwrap());
}

/// Takes each id once. The first delivery of one number is taken, and its answer is lost.
struct Queue {
    taken: Mutex<BTreeMap<OutputId, u64>>,
    loses_the_answer_at: Mutex<Option<u64>>,
}

impl IdempotentTarget<u64> for Queue {
    fn deliver(&self, id: &OutputId, number: &u64) -> Result<Delivery, OperatorError> {
        let before = self.taken.lock().unwrap().insert(id.clone(), *number);
        if self
            .loses_the_answer_at
            .lock()
            .unwrap()
            .take_if(|at| at == number)
            .is_some()
        {
            return Err(OperatorError::Retry("the connection was lost".to_owned()));
        }
        Ok(match before {
            None => Delivery::Taken,
            Some(before) => {
                assert_eq!(before, *number, "{id} is another output now");
                Delivery::Duplicate
            }
        })
    }
}

#[actix::test]
async fn a_target_that_recognises_repeats_has_every_output_once_although_answers_are_lost() {
    let queue = Arc::new(Queue {
        taken: Mutex::default(),
        loses_the_answer_at: Mutex::new(Some(NUMBERS / 4 - 1)),
    });
    let (target, store) = (Arc::clone(&queue), Arc::new(MemoryStore::new()));
    over_a_reset(move |upstream| {
        let mut graph = Region::builder("queue");
        let source = numbers(upstream, &mut graph);
        graph.end("sink", source, move |context| {
            let target = Arc::clone(&target) as Arc<dyn IdempotentTarget<u64>>;
            IdempotentSink::new(context, Arc::clone(&store) as _, target)
        });
        graph.build().unwrap()
    })
    .await;
    assert!(
        queue.loses_the_answer_at.lock().unwrap().is_none(),
        "no answer was lost"
    );
    let taken = queue.taken.lock().unwrap();
    let numbers: Vec<u64> = taken.values().copied().collect();
    assert_eq!(numbers, (0..NUMBERS).collect::<Vec<_>>());
}

/// A system outside that is changed while tuples come. It remembers how long it was at each cut.
#[derive(Default)]
struct Outside {
    numbers: Mutex<Vec<u64>>,
    versions: Mutex<BTreeMap<u64, usize>>,
}

struct OutsideVersions(Arc<Outside>);

impl Committer for OutsideVersions {
    fn commit(&self, _: u64, _: &[u8]) -> Result<(), OperatorError> {
        Ok(())
    }

    fn can_take_back(&self) -> bool {
        true
    }

    fn take_back_above(&self, seq: u64) -> Result<(), OperatorError> {
        let mut versions = self.0.versions.lock().unwrap();
        let length = versions.get(&seq).copied().unwrap_or(0);
        versions.retain(|version, _| *version <= seq);
        let mut numbers = self.0.numbers.lock().unwrap();
        numbers.truncate(length);
        Ok(())
    }

    fn abort_all_except(&self, _: &[Vec<u8>]) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// Writes each number to the system when it comes; has a count of its own as its state.
struct Writer {
    outside: Arc<Outside>,
    count: u64,
}

impl Actor for Writer {
    type Context = Context<Self>;
}

impl Operator for Writer {
    type Input = u64;
    type Output = ();
    const STATE_TYPE: &'static str = "count";

    fn process(&mut self, batch: Vec<u64>, _: &mut Output<()>) -> Result<(), OperatorError> {
        let mut outside = self.outside.numbers.lock().unwrap();
        for number in batch {
            if number != self.count || outside.len() as u64 != self.count {
                let (count, outside) = (self.count, outside.len());
                return Err(OperatorError::Permanent(format!(
                    "{number} comes to an operator at {count} and a system at {outside}"
                )));
            }
            outside.push(number);
            self.count += 1;
        }
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        let length = self.outside.numbers.lock().unwrap().len();
        self.outside
            .versions
            .lock()
            .unwrap()
            .insert(cut.seq, length);
        let count = self.count;
        Ok(Prepared {
            state: Some(Box::new(move |to: &mut dyn Write| write!(to, "{count}"))),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        let mut text = String::new();
        state.read_to_string(&mut text)?;
        self.count = text.parse().unwrap();
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.count = 0;
        Ok(())
    }

    fn committer(&self) -> Option<Arc<dyn Committer>> {
        Some(Arc::new(OutsideVersions(Arc::clone(&self.outside))))
    }
}

#[actix::test]
async fn a_system_outside_goes_back_with_the_region() {
    let outside = Arc::new(Outside::default());
    let system = Arc::clone(&outside);
    over_a_reset(move |upstream| {
        let mut graph = Region::builder("outside");
        let source = numbers(upstream, &mut graph);
        graph.end("writer", source, move |_| Writer {
            outside: Arc::clone(&system),
            count: 0,
        });
        graph.build().unwrap()
    })
    .await;
    let numbers = outside.numbers.lock().unwrap();
    assert_eq!(*numbers, (0..NUMBERS).collect::<Vec<_>>());
}
