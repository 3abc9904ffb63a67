//! Operators without state in one long chain that nothing flows through: what a round costs by itself.

use std::sync::Arc;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use actix::{Actor, Context};
use bench_harness::Failure;
use bench_harness::cell::cpu_seconds;
use lockkeeper_consistent_region::prelude::*;

use crate::outcome::Outcome;

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

/// So many rounds one after the other; then `seconds` of a round each second, whose processor time is told.
pub async fn run(operators: u64, rounds: u64, seconds: u64) -> Result<Outcome, Failure> {
    let asked = Chain::start(operators, None)?;
    if !asked.coordinator.reached(RegionState::Processing).await {
        return Err("the region did not start".into());
    }
    let mut events = asked.coordinator.events();
    let mut rounds_ms = Vec::new();
    for round in 0..=rounds {
        asked.coordinator.cut().await?;
        let took = completed(&mut events).await?;
        // The first one finds nothing in the caches.
        if round > 0 {
            rounds_ms.push(took.as_secs_f64() * 1e3);
        }
    }
    asked.stop().await?;

    let periodic = Chain::start(operators, Some(Duration::from_secs(1)))?;
    let mut events = periodic.coordinator.events();
    completed(&mut events).await?;
    let (began, before) = (Instant::now(), cpu_seconds(0)?);
    for _ in 0..seconds {
        completed(&mut events).await?;
    }
    let outcome = Outcome {
        seconds: began.elapsed().as_secs_f64(),
        cpu: cpu_seconds(0)? - before,
        rounds: rounds_ms.len() as u64,
        rounds_ms,
        ..Outcome::default()
    };
    periodic.stop().await?;
    Ok(outcome.correct(true))
}

struct Chain {
    coordinator: CoordinatorHandle,
    worker: WorkerHandle,
}

impl Chain {
    fn start(operators: u64, period: Option<Duration>) -> Result<Self, Failure> {
        let mut graph = Region::builder("chain");
        let mut stream = graph.start("source", |_| Nothing);
        for index in 1..operators {
            stream = graph.operator(format!("inner-{index}"), stream, 1, |_| Nothing);
        }
        drop(stream);
        let region = graph.build()?;
        let store = Arc::new(MemoryStore::new());
        let settings = CoordinatorSettings {
            period,
            ..CoordinatorSettings::for_region(&region)
        };
        let coordinator =
            RegionCoordinator::start_local(settings, Arc::clone(&store) as _, Hook::default())?;
        let (link, inbox) = coordinator.way().connect();
        let config = WorkerConfig {
            slots: u16::MAX,
            ..WorkerConfig::new("worker")
        };
        let worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
        Ok(Self {
            coordinator,
            worker,
        })
    }

    async fn stop(mut self) -> Result<(), Failure> {
        self.coordinator.stop().await?;
        self.worker.ended().await;
        self.coordinator.halt().await;
        Ok(())
    }
}

/// How long the next round took.
async fn completed(
    events: &mut tokio::sync::broadcast::Receiver<RegionEvent>,
) -> Result<Duration, Failure> {
    loop {
        match events.recv().await? {
            RegionEvent::CutCompleted(cut) => return Ok(cut.took),
            RegionEvent::Failed { reason } => return Err(reason.into()),
            _ => {}
        }
    }
}
