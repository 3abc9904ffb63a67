//! A start operator whose own threads emit under permits, and decide when a cut is taken.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::thread;

use actix::{Actor, Context};
use futures_executor::block_on;
use lockkeeper_consistent_region::coordinator::RegionState;
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::graph::topology::TriggerKind;
use lockkeeper_consistent_region::operator::{
    Cut, InstanceContext, InstanceOver, MadeConsistent, Operator, OperatorError, Output, Permit,
    Prepared, Produced, RegionHandle, StartOperator, Submissions, Submitter, submissions,
};
use lockkeeper_consistent_region::sink::FileSink;
use lockkeeper_consistent_region::testing::Counts;
use lockkeeper_consistent_region::worker::WorkerEnd;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::numbers::KEYS;
use crate::place::{LIMIT, NUMBERS, Place};

const THREADS: usize = 4;
/// A cut is asked for after so many numbers.
const A_CUT: u64 = NUMBERS / 8;
/// Smaller than a batch, so that threads wait for room.
const ROOM: usize = 16;

/// What the threads have seen.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    completed: u64,
    pending: u64,
    resets: u64,
    all: bool,
}

#[derive(Clone, Copy)]
enum Waiting {
    Blocking,
    NonBlocking,
}

#[derive(Clone)]
struct Shared {
    /// The next number; changed only under a permit, or while nobody has one.
    next: Arc<Mutex<u64>>,
    seen: Arc<watch::Sender<Seen>>,
    waiting: Waiting,
}

struct Threaded {
    shared: Shared,
    numbers: Submissions<u64>,
}

impl Threaded {
    fn new(context: &InstanceContext, seen: Arc<watch::Sender<Seen>>, waiting: Waiting) -> Self {
        let (submitter, numbers) = submissions(ROOM);
        let shared = Shared {
            next: Arc::default(),
            seen,
            waiting,
        };
        for _ in 0..THREADS {
            let (region, submitter) = (context.region().clone(), submitter.clone());
            let shared = shared.clone();
            thread::spawn(move || shared.produce(&region, &submitter));
        }
        Self { shared, numbers }
    }
}

impl Shared {
    /// Until the instance is over or every number is in a complete cut.
    fn produce(&self, region: &RegionHandle, submitter: &Submitter<u64>) {
        while let Ok(mut permit) = block_on(region.permit()) {
            let number = {
                let mut next = self.next.lock().unwrap();
                let number = *next;
                *next = (number + 1).min(NUMBERS);
                number
            };
            if number == NUMBERS {
                match block_on(permit.make_consistent()) {
                    Ok(MadeConsistent::Completed { .. }) => {
                        return self.seen.send_modify(|seen| seen.all = true);
                    }
                    Ok(_) => continue,
                    Err(InstanceOver) => return,
                }
            }
            if block_on(submitter.submit(&permit, number)).is_err() {
                continue;
            }
            if number % A_CUT == A_CUT - 1 {
                let Ok(made) = block_on(self.make_consistent(&mut permit)) else {
                    return;
                };
                self.seen.send_modify(|seen| match made {
                    MadeConsistent::Completed { .. } => seen.completed += 1,
                    MadeConsistent::CheckpointPending { .. } => seen.pending += 1,
                    MadeConsistent::Reset { .. } => seen.resets += 1,
                    other => panic!("{other:?}"),
                });
            }
        }
    }

    async fn make_consistent(&self, permit: &mut Permit) -> Result<MadeConsistent, InstanceOver> {
        match self.waiting {
            Waiting::Blocking => permit.make_consistent().await,
            Waiting::NonBlocking => permit.make_consistent_non_blocking().await,
        }
    }

    fn set(&self, next: u64) {
        *self.next.lock().unwrap() = next;
    }
}

impl Actor for Threaded {
    type Context = Context<Self>;
}

impl Operator for Threaded {
    type Input = ();
    type Output = u64;
    const STATE_TYPE: &'static str = "position";

    fn process(&mut self, _: Vec<()>, _: &mut Output<u64>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn drain(&mut self, output: &mut Output<u64>) -> Result<(), OperatorError> {
        self.numbers.drain(output);
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        let next = *self.shared.next.lock().unwrap();
        let write = move |to: &mut dyn Write| to.write_all(&next.to_le_bytes());
        Ok(Prepared {
            state: Some(Box::new(write)),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        let mut next = [0; 8];
        state.read_exact(&mut next)?;
        self.numbers.clear();
        self.shared.set(u64::from_le_bytes(next));
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.numbers.clear();
        self.shared.set(0);
        Ok(())
    }
}

impl StartOperator for Threaded {
    fn poll_produce(
        &mut self,
        task: &mut task::Context<'_>,
        output: &mut Output<u64>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        self.numbers
            .poll(task, output, 100)
            .map(|()| Ok(Produced::More))
    }
}

fn region(output: &Path, seen: Arc<watch::Sender<Seen>>, waiting: Waiting) -> Region {
    let mut graph = Region::builder("permits").trigger(TriggerKind::OperatorDriven);
    let numbers = graph.start("threads", move |context| {
        Threaded::new(&context, Arc::clone(&seen), waiting)
    });
    let key = |number: &u64| number % KEYS;
    let counts = graph.keyed("counts", numbers, 2, key, |_| Counts::of_keys(KEYS));
    let folder = output.to_owned();
    graph.end("sink", counts, move |context| {
        FileSink::new(context, &folder, "cut-", ".txt", |_, counts, to| {
            for (key, count) in counts {
                writeln!(to, "{key} {count}")?;
            }
            Ok(())
        })
    });
    graph.build().unwrap()
}

/// Threads emit everything; the region is reset by hand after their first cut.
async fn loses_nothing(waiting: Waiting) -> Seen {
    let (sender, mut seen) = watch::channel(Seen::default());
    let sender = Arc::new(sender);
    let mut place = Place::with(|output| region(output, Arc::clone(&sender), waiting));
    place.period = None;
    place.lease = LIMIT;
    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    let first = seen.wait_for(|seen| seen.completed + seen.pending > 0);
    timeout(LIMIT, first).await.unwrap().unwrap();
    coordinator.reset(false, "by hand").await.unwrap();
    timeout(LIMIT, seen.wait_for(|seen| seen.all))
        .await
        .unwrap()
        .unwrap();
    coordinator.stop().await.unwrap();
    assert_eq!(
        timeout(LIMIT, worker.ended()).await,
        Ok(WorkerEnd::RegionEnded)
    );
    assert!(coordinator.reached(RegionState::Completed).await);
    place.check();
    assert_eq!(coordinator.status().attempt, 2, "the start and one by hand");
    *seen.borrow()
}

#[actix::test]
async fn s26_threads_with_permits_cut_by_make_consistent_and_a_reset_loses_nothing() {
    let seen = loses_nothing(Waiting::Blocking).await;
    assert!(seen.completed > 0 && seen.pending == 0, "{seen:?}");
}

#[actix::test]
async fn s26_make_consistent_non_blocking_goes_on_while_the_state_is_written() {
    let seen = loses_nothing(Waiting::NonBlocking).await;
    assert!(seen.completed + seen.pending > 0, "{seen:?}");
}
