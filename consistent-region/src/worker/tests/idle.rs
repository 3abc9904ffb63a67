//! A region without state and without tuples: what it writes, and how often it is woken.

use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use actix::{Actor, Context};

use crate::coordinator::{
    CompletedCut, CoordinatorSettings, RegionCoordinator, RegionEvent, RegionState,
};
use crate::graph::Region;
use crate::operator::{Operator, OperatorError, Output, Produced, RegionHandle, StartOperator};
use crate::operator::{forget_polls, polls};
use crate::point::Hook;
use crate::store::{CheckpointStore, MemoryStore};
use crate::worker::{GetStatus, RegionWorker, WorkerConfig, WorkerHandle};

const OPERATORS: u64 = 40;
/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(60);

struct Nothing;

impl Actor for Nothing {
    type Context = Context<Self>;
}

impl Operator for Nothing {
    type Input = ();
    type Output = ();

    fn process(&mut self, _: Vec<()>, _: &mut Output<()>) -> Result<(), OperatorError> {
        Ok(())
    }
}

impl StartOperator for Nothing {
    fn poll_produce(
        &mut self,
        _: &mut task::Context<'_>,
        _: &mut Output<()>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        Poll::Pending
    }
}

struct Idle {
    store: Arc<MemoryStore>,
    coordinator: crate::coordinator::CoordinatorHandle,
    events: tokio::sync::broadcast::Receiver<RegionEvent>,
    worker: WorkerHandle,
}

impl Idle {
    async fn start() -> Self {
        let mut graph = Region::builder("idle");
        let mut stream = graph.start("source", |_| Nothing);
        for index in 1..OPERATORS {
            stream = graph.operator(format!("inner-{index}"), stream, 1, |_| Nothing);
        }
        let region = graph.build().unwrap();
        let store = Arc::new(MemoryStore::new());
        let shared = || Arc::clone(&store) as Arc<dyn CheckpointStore>;
        // However long this thread has to wait for its turn, no lease ends meanwhile.
        let settings = CoordinatorSettings {
            lease: LIMIT * 10,
            resend: LIMIT * 10,
            ..CoordinatorSettings::for_region(&region)
        };
        let coordinator =
            RegionCoordinator::start_local(settings, shared(), Hook::default()).unwrap();
        let (link, inbox) = coordinator.way().connect();
        let config = WorkerConfig::new("a");
        let worker = RegionWorker::start(region, shared(), Arc::new(link), inbox, config);
        let events = coordinator.events();
        // Before that nobody takes commands.
        let mut status = coordinator.watch();
        let opened = status.wait_for(|status| status.state != RegionState::Opening);
        opened.await.unwrap();
        Self {
            store,
            coordinator,
            events,
            worker,
        }
    }

    async fn cut(&mut self) -> CompletedCut {
        self.coordinator.cut().await.unwrap();
        let completed = async {
            loop {
                if let RegionEvent::CutCompleted(cut) = self.events.recv().await.unwrap() {
                    return *cut;
                }
            }
        };
        tokio::time::timeout(LIMIT, completed)
            .await
            .expect("no cut")
    }

    /// Lets everybody on this thread do what there is to do.
    async fn let_everybody_work(&self) {
        for _ in 0..100 {
            self.worker.address().send(GetStatus).await.unwrap();
            tokio::task::yield_now().await;
        }
    }
}

#[actix_rt::test]
async fn s12_operators_without_state_write_nothing_and_cuts_complete_all_the_same() {
    let mut idle = Idle::start().await;
    for _ in 0..3 {
        let cut = idle.cut().await;
        assert_eq!(cut.bytes, 0);
        assert_eq!(cut.timings.len() as u64, OPERATORS);
    }
    assert_eq!(idle.store.list_objects().unwrap(), Vec::<String>::new());
}

/// Whatever wakes an operator costs: a few things may in a cut, and none again and again (P10).
#[actix_rt::test]
async fn p10_an_idle_operator_is_woken_a_few_times_for_a_cut_and_rests_between_two() {
    const CUTS: u64 = 20;
    let mut idle = Idle::start().await;
    idle.cut().await;
    idle.let_everybody_work().await;
    forget_polls();
    let mut last = 0;
    for _ in 0..CUTS {
        last = idle.cut().await.seq;
    }
    let a_cut = polls() / (CUTS * OPERATORS);
    assert!(
        (1..=16).contains(&a_cut),
        "{a_cut} polls an operator and cut"
    );
    // What follows the last cut (commits) comes to its end, and then there is nothing to do: over
    // 2,000 turns of everybody else.
    while idle
        .worker
        .address()
        .send(GetStatus)
        .await
        .unwrap()
        .completed
        < last
    {
        tokio::task::yield_now().await;
    }
    idle.let_everybody_work().await;
    forget_polls();
    for _ in 0..20 {
        idle.let_everybody_work().await;
    }
    let between = polls() / OPERATORS;
    assert!(between <= 16, "{between} polls an operator");
    assert_eq!(idle.coordinator.status().attempt, 1, "nothing was reset");
}
