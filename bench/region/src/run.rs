//! The work as a region within this process: coordinator and worker on the main thread, operators on arbiters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_rt::Arbiter;
use bench_harness::Failure;
use lockkeeper_consistent_region::coordinator::CompletedCut;
use lockkeeper_consistent_region::prelude::*;
use lockkeeper_consistent_region::store::Compression;
use tokio::sync::oneshot;

use crate::operators::Work;
use crate::outcome::Outcome;
use crate::threads;
use crate::work::Limit;

/// How the work is run.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Run {
    pub until: Until,
    /// Between two cuts; none: only the last one.
    pub period_ms: Option<u64>,
    /// Bytes besides the count in the state of each key.
    pub pad: usize,
    /// Threads that the operators share.
    pub arbiters: usize,
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub enum Until {
    Tuples(u64),
    Seconds(f64),
    Rounds(u64),
}

/// A region of the work with its coordinator and its only worker.
pub struct Running {
    pub coordinator: CoordinatorHandle,
    pub worker: WorkerHandle,
}

impl Running {
    pub fn start(
        work: &Work,
        run: &Run,
        store: Arc<dyn CheckpointStore>,
        arbiters: &[Arbiter],
    ) -> Result<Self, Failure> {
        let region = work.region(run.pad)?;
        let settings = CoordinatorSettings {
            period: run.period_ms.map(Duration::from_millis),
            ..CoordinatorSettings::for_region(&region)
        };
        let coordinator =
            RegionCoordinator::start_local(settings, Arc::clone(&store), Hook::default())?;
        let (link, inbox) = coordinator.way().connect();
        let config = WorkerConfig {
            arbiters: arbiters.iter().map(Arbiter::handle).collect(),
            ..WorkerConfig::new("worker")
        };
        let worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
        Ok(Self {
            coordinator,
            worker,
        })
    }

    /// Waits until the region has ended in peace.
    pub async fn finish(&mut self) -> Result<(), Failure> {
        let coordinator = self.coordinator.clone();
        tokio::select! {
            _ = self.worker.ended() => {}
            _ = coordinator.reached(RegionState::Failed) => {
                return Err(format!("the region has failed: {:?}", coordinator.status()).into());
            }
        }
        match coordinator.reached(RegionState::Completed).await {
            true => Ok(()),
            false => Err("the coordinator has ended before its region".into()),
        }
    }
}

/// Does it, in a folder of its own.
pub async fn run(run: &Run) -> Result<Outcome, Failure> {
    let folder = tempfile::tempdir()?;
    let store = FileStore::open(folder.path())?;
    // What is padded does not compress.
    let store = match run.pad {
        0 => store,
        _ => store.with_compression(Compression::Off),
    };
    let limit = match run.until {
        Until::Tuples(tuples) => Limit::at(tuples),
        Until::Seconds(_) | Until::Rounds(_) => Limit::none(),
    };
    let work = Work::new(Arc::clone(&limit));
    let arbiters: Vec<Arbiter> = (0..run.arbiters).map(|_| Arbiter::new()).collect();
    let operators = threads::of(&arbiters).await?;
    let began = Instant::now();
    let mut running = Running::start(&work, run, Arc::new(store), &arbiters)?;
    let cuts = Cuts::listen(&running.coordinator);
    match run.until {
        Until::Tuples(_) => {}
        Until::Seconds(seconds) => {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            limit.stop();
        }
        Until::Rounds(rounds) => {
            cut(&running.coordinator, &work, rounds).await?;
            limit.stop();
        }
    }
    running.finish().await?;
    let seconds = began.elapsed().as_secs_f64();
    let outcome = Outcome::now(seconds, limit.numbers())?;
    let rounds_cpu = threads::cpu_of_others(&operators)?;
    let cuts = cuts.taken().await?;
    let correct = work.seen.tuples() == limit.numbers() && work.seen.correct(limit.numbers());
    let milliseconds = |times: Vec<Duration>| -> Vec<f64> {
        times.iter().map(|time| time.as_secs_f64() * 1e3).collect()
    };
    Ok(Outcome {
        rounds: cuts.len() as u64,
        rounds_ms: milliseconds(cuts.iter().map(|cut| cut.took).collect()),
        pauses_ms: milliseconds(work.seen.pauses()),
        rounds_cpu,
        bytes: cuts.iter().map(|cut| cut.bytes).sum(),
        ..outcome.correct(correct)
    })
}

/// So many cuts of the whole state, each as soon as the one before is complete and some tuples have flowed.
async fn cut(coordinator: &CoordinatorHandle, work: &Work, rounds: u64) -> Result<(), Failure> {
    if !coordinator.reached(RegionState::Processing).await {
        return Err("the region did not start".into());
    }
    while !work.seen.every_key() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut events = coordinator.events();
    for _ in 0..rounds {
        coordinator.cut().await?;
        while !matches!(events.recv().await?, RegionEvent::CutCompleted(_)) {}
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Keeps what is told of completed cuts.
struct Cuts(oneshot::Receiver<Vec<CompletedCut>>);

impl Cuts {
    fn listen(coordinator: &CoordinatorHandle) -> Self {
        let mut events = coordinator.events();
        let (cuts, taken) = oneshot::channel();
        actix_rt::spawn(async move {
            let mut all = Vec::new();
            while let Ok(event) = events.recv().await {
                match event {
                    // The last one is taken while nothing flows.
                    RegionEvent::CutCompleted(cut) if !cut.last => all.push(*cut),
                    RegionEvent::Completed { .. } => break,
                    _ => {}
                }
            }
            let _ = cuts.send(all);
        });
        Self(taken)
    }

    async fn taken(self) -> Result<Vec<CompletedCut>, Failure> {
        Ok(self.0.await?)
    }
}
