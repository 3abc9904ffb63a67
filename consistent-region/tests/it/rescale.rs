//! Widths that change through a cut: the sum over all keys stays what it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Context};
use lockkeeper_consistent_region::coordinator::{
    CoordinatorHandle, CoordinatorSettings, RegionCoordinator, RegionState, read_savepoint,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Prepared, WriteState,
};
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::protocol::InstanceId;
use lockkeeper_consistent_region::state::{KeyedState, Loaded, Loader, Rescale};
use lockkeeper_consistent_region::store::{CheckpointStore, FileStore};
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerConfig, WorkerEnd, WorkerHandle};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::numbers::{Upstream, numbers};
use crate::place::LIMIT;

const KEYS: u64 = 500;

/// What every instance holds, and how much all of them have counted since they were made.
#[derive(Clone)]
struct Seen {
    held: Arc<Mutex<BTreeMap<InstanceId, BTreeMap<u64, u64>>>>,
    counted: Arc<watch::Sender<u64>>,
}

impl Seen {
    fn new() -> Self {
        Self {
            held: Arc::default(),
            counted: Arc::new(watch::Sender::new(0)),
        }
    }
}

struct Counts {
    context: InstanceContext,
    counts: KeyedState<u64, u64>,
    seen: Seen,
}

impl Actor for Counts {
    type Context = Context<Self>;
}

impl Operator for Counts {
    type Input = u64;
    type Output = ();
    const STATE_TYPE: &'static str = "counts";
    const RESCALE: Rescale = Rescale::ByKey;

    fn process(&mut self, batch: Vec<u64>, _: &mut Output<()>) -> Result<(), OperatorError> {
        let count = batch.len() as u64;
        for number in batch {
            *self.counts.entry(number % KEYS) += 1;
        }
        self.seen.counted.send_modify(|counted| *counted += count);
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        let held = self.counts.iter().map(|(key, count)| (*key, *count));
        let instance = self.context.instance().clone();
        self.seen
            .held
            .lock()
            .unwrap()
            .insert(instance, held.collect());
        Ok(self.counts.prepare(cut))
    }

    fn changes(&mut self, cut: Cut) -> Result<Option<WriteState>, OperatorError> {
        Ok(self.counts.changes(cut))
    }

    fn loader(&self) -> Option<Loader> {
        Some(self.counts.loader(&self.context))
    }

    fn loaded(&mut self, state: Loaded) -> Result<(), OperatorError> {
        self.counts.take(state)
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.counts.clear();
        Ok(())
    }
}

/// Says nothing about other widths.
struct Fixed(Counts);

impl Actor for Fixed {
    type Context = Context<Self>;
}

impl Operator for Fixed {
    type Input = u64;
    type Output = ();
    const STATE_TYPE: &'static str = "counts";

    fn process(&mut self, batch: Vec<u64>, output: &mut Output<()>) -> Result<(), OperatorError> {
        self.0.process(batch, output)
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        self.0.prepare(cut)
    }

    fn loader(&self) -> Option<Loader> {
        self.0.loader()
    }

    fn loaded(&mut self, state: Loaded) -> Result<(), OperatorError> {
        self.0.loaded(state)
    }
}

fn region(width: u16, upstream: &Upstream, seen: &Seen) -> Region {
    let mut graph = Region::builder("rescale");
    let numbers = numbers(upstream, &mut graph);
    let seen = seen.clone();
    let key = |number: &u64| number % KEYS;
    graph.keyed_end("counts", numbers, width, key, move |context| Counts {
        context,
        counts: KeyedState::new().incremental(),
        seen: seen.clone(),
    });
    graph.build().unwrap()
}

fn settings(region: &Region) -> CoordinatorSettings {
    CoordinatorSettings {
        // What is counted anew after a lease that ends on a busy machine would be taken for more. The
        // next worker waits for it.
        lease: Duration::from_secs(4),
        lease_margin: Duration::from_millis(50),
        ..CoordinatorSettings::for_region(region)
    }
}

fn start(region: &Region, store: &Arc<dyn CheckpointStore>) -> (CoordinatorHandle, WorkerHandle) {
    let settings = settings(region);
    let (store, hook) = (Arc::clone(store), Hook::default());
    let coordinator = RegionCoordinator::start_local(settings, Arc::clone(&store), hook).unwrap();
    let (link, inbox) = coordinator.way().connect();
    let (region, config) = (region.clone(), WorkerConfig::new("worker"));
    let worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
    (coordinator, worker)
}

fn truth(numbers: u64) -> BTreeMap<u64, u64> {
    (0..KEYS)
        .map(|key| (key, (numbers + KEYS - 1 - key) / KEYS))
        .collect()
}

/// Counts the numbers of one width up to `end`, cutting now and then, and stops with a savepoint.
async fn counts_on(
    width: u16,
    from: u64,
    end: u64,
    upstream: &Upstream,
    store: &Arc<dyn CheckpointStore>,
) {
    let seen = Seen::new();
    let (coordinator, mut worker) = start(&region(width, upstream, &seen), store);
    let mut counted = seen.counted.subscribe();
    for quarter in 1..=4 {
        let now = from + (end - from) / 4 * quarter;
        upstream.release_to(if quarter == 4 { end } else { now });
        let all = counted.wait_for(|counted| *counted >= now - from);
        timeout(LIMIT, all).await.unwrap().unwrap();
        coordinator
            .savepoint(format!("at-{width}-{quarter}"))
            .await
            .unwrap();
    }
    let all = counted.wait_for(|counted| *counted == end - from);
    timeout(LIMIT, all).await.unwrap().unwrap();
    coordinator.stop().await.unwrap();
    assert_eq!(
        timeout(LIMIT, worker.ended()).await,
        Ok(WorkerEnd::RegionEnded),
        "{:?}",
        coordinator.status()
    );
    coordinator.halt().await;

    let held = seen.held.lock().unwrap().clone();
    assert_eq!(held.len(), usize::from(width));
    let all: Vec<(u64, u64)> = held.values().flatten().map(|(k, c)| (*k, *c)).collect();
    let distinct: BTreeMap<u64, u64> = all.iter().copied().collect();
    assert_eq!(all.len(), distinct.len(), "a key has one owner");
    assert_eq!(distinct, truth(end), "width {width}");
}

#[actix::test]
async fn s28_widths_change_from_2_to_3_to_1_and_every_key_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn CheckpointStore> = Arc::new(FileStore::open(folder.path()).unwrap());
    let upstream = Upstream::new(u64::MAX, 0);
    counts_on(2, 0, 10_000, &upstream, &store).await;
    counts_on(3, 10_000, 17_000, &upstream, &store).await;
    counts_on(1, 17_000, 23_500, &upstream, &store).await;
    // The first cut of each width is whole, whatever was saved before it.
    for width in [2_u16, 3, 1] {
        let first = read_savepoint(store.as_ref(), &format!("at-{width}-1")).unwrap();
        let counts = |record: &&lockkeeper_consistent_region::manifest::ObjectRecord| {
            record.instance.operator == "counts"
        };
        let objects = first.manifest.objects.iter().filter(counts);
        assert_eq!(objects.clone().count(), usize::from(width));
        assert!(objects.into_iter().all(|record| record.base.is_empty()));
    }
    // Later ones say what changed.
    let later = read_savepoint(store.as_ref(), "at-2-2").unwrap();
    assert!(
        later
            .manifest
            .objects
            .iter()
            .any(|record| !record.base.is_empty())
    );
}

#[actix::test]
async fn s28_an_operator_that_does_not_say_how_is_refused_another_width_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn CheckpointStore> = Arc::new(FileStore::open(folder.path()).unwrap());
    let upstream = Upstream::new(u64::MAX, 0);
    let fixed = |width| {
        let seen = Seen::new();
        let mut graph = Region::builder("fixed");
        let numbers = numbers(&upstream, &mut graph);
        let counted = seen.counted.subscribe();
        let key = |number: &u64| number % KEYS;
        graph.keyed_end("fixed", numbers, width, key, move |context| {
            Fixed(Counts {
                context,
                counts: KeyedState::new(),
                seen: seen.clone(),
            })
        });
        (graph.build().unwrap(), counted)
    };
    let (region, mut counted) = fixed(2);
    let (coordinator, mut worker) = start(&region, &store);
    upstream.release_to(1_000);
    let all = counted.wait_for(|counted| *counted == 1_000);
    timeout(LIMIT, all).await.unwrap().unwrap();
    coordinator.stop().await.unwrap();
    worker.ended().await;
    coordinator.halt().await;

    let (region, _) = fixed(3);
    let (coordinator, _worker) = start(&region, &store);
    timeout(LIMIT, coordinator.reached(RegionState::Failed))
        .await
        .unwrap();
    let reason = coordinator.status().reason.unwrap();
    for part in ["fixed", "saved by 2 instances", "by 3", "RESCALE"] {
        assert!(reason.contains(part), "{reason}");
    }
    coordinator.halt().await;

    // Nothing was touched: with the width as it was the region goes on.
    let settings = CoordinatorSettings {
        clear_failure: true,
        ..settings(&fixed(2).0)
    };
    let (region, mut counted) = fixed(2);
    let coordinator =
        RegionCoordinator::start_local(settings, Arc::clone(&store), Hook::default()).unwrap();
    let (link, inbox) = coordinator.way().connect();
    let config = WorkerConfig::new("worker");
    let _worker = RegionWorker::start(region, Arc::clone(&store), Arc::new(link), inbox, config);
    upstream.release_to(1_500);
    let more = counted.wait_for(|counted| *counted == 500);
    timeout(LIMIT, more).await.unwrap().unwrap();
}
