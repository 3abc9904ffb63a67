//! A whole region: the coordinator, workers and operators, with a store and files.

use std::sync::Arc;
use std::time::Duration;

use crate::coordinator::{
    CoordinatorHandle, CoordinatorSettings, RegionCoordinator, RegionEvent, RegionState, Shape,
};
use crate::graph::Region;
use crate::point::Hook;
use crate::sink::FileSink;
use crate::store::{CheckpointStore, FailingStore, FileStore, MemoryStore};
use crate::worker::{RegionWorker, WorkerConfig, WorkerEnd, WorkerHandle};

use super::operators::{Counts, Fault, Faults, Numbers};
use super::{KEYS, NUMBERS, output, region, truth};

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(120);

fn coordinator(region: &Region, store: &Arc<dyn CheckpointStore>) -> CoordinatorHandle {
    coordinator_with_lease(Duration::from_secs(2), region, store)
}

fn coordinator_with_lease(
    lease: Duration,
    region: &Region,
    store: &Arc<dyn CheckpointStore>,
) -> CoordinatorHandle {
    let settings = CoordinatorSettings {
        period: Some(Duration::from_millis(20)),
        reset_backoff: Duration::from_millis(1),
        lease,
        ..CoordinatorSettings::new(region.name(), Shape::from(region))
    };
    RegionCoordinator::start_local(settings, Arc::clone(store), Hook::default()).unwrap()
}

fn worker(
    region: &Region,
    store: &Arc<dyn CheckpointStore>,
    coordinator: &CoordinatorHandle,
) -> WorkerHandle {
    let (link, inbox) = coordinator.way().connect();
    let config = WorkerConfig::new("a");
    RegionWorker::start(
        region.clone(),
        Arc::clone(store),
        Arc::new(link),
        inbox,
        config,
    )
}

async fn completed(coordinator: &CoordinatorHandle) {
    let reached = tokio::time::timeout(LIMIT, coordinator.reached(RegionState::Completed)).await;
    assert_eq!(reached, Ok(true), "{:?}", coordinator.status());
}

/// Waits for the next completed cut.
async fn next_cut(events: &mut tokio::sync::broadcast::Receiver<RegionEvent>) -> u64 {
    loop {
        match tokio::time::timeout(LIMIT, events.recv())
            .await
            .expect("no cut")
            .unwrap()
        {
            RegionEvent::CutCompleted(cut) => return cut.seq,
            RegionEvent::Failed { reason } => panic!("{reason}"),
            _ => {}
        }
    }
}

async fn survives(fault: Fault) {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let failing = Arc::new(FailingStore::new(MemoryStore::new()));
    let store: Arc<dyn CheckpointStore> = Arc::clone(&failing) as _;
    let region = region(&faults, folder.path());
    let coordinator = coordinator(&region, &store);
    let mut events = coordinator.events();
    let mut worker = worker(&region, &store, &coordinator);
    faults.allow_up_to(NUMBERS / 2);
    faults.produced_reaches(NUMBERS / 2).await;
    next_cut(&mut events).await;
    next_cut(&mut events).await;
    faults.set(fault);
    if fault == Fault::StoreFails {
        failing.fail_writes(1);
    }
    faults.allow_up_to(NUMBERS);
    completed(&coordinator).await;
    assert_eq!(
        tokio::time::timeout(LIMIT, worker.ended()).await,
        Ok(WorkerEnd::RegionEnded)
    );
    assert_eq!(output(folder.path()), truth());
    assert!(
        coordinator.status().attempt >= 2,
        "nothing was reset: {:?}",
        coordinator.status()
    );
}

#[actix_rt::test]
async fn a_region_in_one_process_survives_a_panic() {
    survives(Fault::ProcessPanics).await;
}

#[actix_rt::test]
async fn a_region_in_one_process_survives_an_operators_error() {
    survives(Fault::ProcessFails).await;
}

#[actix_rt::test]
async fn a_region_in_one_process_survives_a_stopped_actor() {
    survives(Fault::ActorStops).await;
}

#[actix_rt::test]
async fn a_region_in_one_process_survives_a_failing_prepare() {
    survives(Fault::PrepareFails).await;
}

#[actix_rt::test]
async fn a_region_in_one_process_survives_a_store_that_fails_once() {
    survives(Fault::StoreFails).await;
}

#[actix_rt::test]
async fn s25_a_stopped_region_goes_on_from_its_last_cut() {
    let folder = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let region = region(&faults, folder.path());
    let store: Arc<dyn CheckpointStore> = Arc::new(FileStore::open(data.path()).unwrap());
    let first = coordinator(&region, &store);
    let mut before = worker(&region, &store, &first);
    faults.allow_up_to(NUMBERS / 2);
    faults.produced_reaches(NUMBERS / 2).await;
    first.stop().await.unwrap();
    completed(&first).await;
    assert_eq!(before.ended().await, WorkerEnd::RegionEnded);
    first.halt().await;
    let counted: u64 = output(folder.path()).values().sum();
    assert_eq!(counted, NUMBERS / 2);

    let second = coordinator(&region, &store);
    let mut after = worker(&region, &store, &second);
    faults.allow_up_to(NUMBERS);
    completed(&second).await;
    assert_eq!(after.ended().await, WorkerEnd::RegionEnded);
    assert_eq!(output(folder.path()), truth());
    assert_eq!(faults.produced(), NUMBERS, "nothing was read twice");
}

/// numbers → left, right → sink: the source's tuples are copied, both ways join again.
#[actix_rt::test]
async fn s6_a_diamond_is_drained_as_one_and_both_ways_see_every_tuple() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let mut graph = Region::builder("diamond");
    let source = faults.clone();
    let numbers = graph.start("numbers", move |_| Numbers::new(NUMBERS, source.clone()));
    let key = |number: &u64| number % KEYS;
    let counts = faults.clone();
    let left = graph.keyed("left", numbers.clone(), 2, key, move |context| {
        Counts::new(context, counts.clone())
    });
    let counts = faults.clone();
    let right = graph.operator("right", numbers, 1, move |context| {
        Counts::new(context, counts.clone())
    });
    let out = folder.path().to_owned();
    graph.end("sink", [left, right], move |context| {
        FileSink::new(
            context,
            &out,
            "cut-",
            ".txt",
            |_, mut counts: Vec<(u64, u64)>, to| {
                counts.sort_unstable();
                assert_eq!(
                    counts.len() % 2,
                    0,
                    "each way gives each changed key: {counts:?}"
                );
                for pair in counts.chunks(2) {
                    assert_eq!(pair[0], pair[1], "both ways stand at the same cut");
                    writeln!(to, "{} {}", pair[0].0, pair[0].1)?;
                }
                Ok(())
            },
        )
    });
    let region = graph.build().unwrap();
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    // a lease that ends on a busy machine would be a reset
    let coordinator = coordinator_with_lease(LIMIT, &region, &store);
    let _worker = worker(&region, &store, &coordinator);
    let mut events = coordinator.events();
    for quarter in 1..=4 {
        faults.allow_up_to(NUMBERS / 4 * quarter);
        if quarter < 4 {
            next_cut(&mut events).await;
        }
    }
    completed(&coordinator).await;
    assert_eq!(output(folder.path()), truth());
    assert_eq!(faults.processed(), 2 * NUMBERS);
    assert_eq!(coordinator.status().attempt, 1, "nothing failed on the way");
}

#[cfg(feature = "remote")]
mod remote {
    use lockkeeper_core::RpcService;
    use lockkeeper_remote::RemoteBuilderExt;

    use super::*;
    use crate::link::remote::{PushNotice, WorkerGateway};

    async fn service() -> RpcService {
        RpcService::builder()
            .bind("127.0.0.1:0")
            .start()
            .await
            .unwrap()
    }

    /// A worker whose notices and streams come by TCP.
    async fn worker(
        name: &str,
        slots: u16,
        region: &Region,
        store: &Arc<dyn CheckpointStore>,
        coordinator: &CoordinatorHandle,
    ) -> (WorkerHandle, RpcService) {
        let (service, caller) = (service().await, service().await);
        let (link, mut notices) = coordinator.way().connect();
        let config = WorkerConfig {
            slots,
            ..WorkerConfig::new(name)
        };
        let (region, store) = (region.clone(), Arc::clone(store));
        let worker = RegionWorker::start_remote(region, store, Arc::new(link), &service, config)
            .await
            .unwrap();
        let address = worker.rpc_address().unwrap();
        actix_rt::spawn(async move {
            let gateway = caller.connect::<WorkerGateway>(&address).await.unwrap();
            while let Some(notice) = notices.next().await {
                gateway.try_send(PushNotice(notice)).unwrap();
            }
        });
        (worker, service)
    }

    #[actix_rt::test]
    async fn a_region_over_two_workers_counts_once_and_survives_the_loss_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
        let region = region(&faults, folder.path());
        let settings = CoordinatorSettings {
            period: Some(Duration::from_millis(20)),
            workers: 2,
            // On a busy machine the second worker may join some time after the first.
            lease: Duration::from_secs(3),
            lease_margin: Duration::from_millis(100),
            placement_timeout: Duration::from_secs(3),
            ..CoordinatorSettings::new(region.name(), Shape::from(&region))
        };
        let coordinator =
            RegionCoordinator::start_local(settings, Arc::clone(&store), Hook::default()).unwrap();
        let mut events = coordinator.events();
        let (mut first, _one) = worker("a", 4, &region, &store, &coordinator).await;
        let (mut second, _two) = worker("b", 4, &region, &store, &coordinator).await;
        faults.allow_up_to(NUMBERS / 4);
        faults.produced_reaches(NUMBERS / 4).await;
        next_cut(&mut events).await;
        next_cut(&mut events).await;
        let placed = coordinator.status().workers;
        assert!(
            placed.iter().all(|worker| !worker.instances.is_empty()),
            "{placed:?}"
        );
        second.stop();
        assert_eq!(second.ended().await, WorkerEnd::Stopped);
        faults.allow_up_to(NUMBERS);
        completed(&coordinator).await;
        assert_eq!(first.ended().await, WorkerEnd::RegionEnded);
        assert_eq!(output(folder.path()), truth());
    }
}
