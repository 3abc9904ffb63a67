//! A region in one process, with a folder as its store; its parts are ended and started anew.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::coordinator::{
    CoordinatorHandle, CoordinatorSettings, RegionCoordinator, RegionEvent, RegionState,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::store::{CheckpointStore, FileStore};
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerConfig, WorkerEnd, WorkerHandle};
use tokio::sync::broadcast;

use crate::numbers::{output, region, truth};

const NUMBERS: u64 = 400_003;

struct Place {
    folder: tempfile::TempDir,
    region: Region,
    store: Arc<dyn CheckpointStore>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        let region = region(NUMBERS, &folder.path().join("out"));
        let store = Arc::new(FileStore::open(folder.path().join("store")).unwrap());
        Self {
            folder,
            region,
            store,
        }
    }

    fn coordinator(&self) -> CoordinatorHandle {
        let settings = CoordinatorSettings {
            period: Some(Duration::from_millis(20)),
            lease: Duration::from_millis(500),
            lease_margin: Duration::from_millis(50),
            ..CoordinatorSettings::for_region(&self.region)
        };
        RegionCoordinator::start_local(settings, Arc::clone(&self.store), Hook::default()).unwrap()
    }

    fn worker(&self, coordinator: &CoordinatorHandle) -> WorkerHandle {
        let (link, inbox) = coordinator.way().connect();
        let config = WorkerConfig::new("worker");
        let (region, store) = (self.region.clone(), Arc::clone(&self.store));
        RegionWorker::start(region, store, Arc::new(link), inbox, config)
    }

    fn check(&self) {
        assert_eq!(output(&self.folder.path().join("out")), truth(NUMBERS));
    }
}

async fn cut_completed(events: &mut broadcast::Receiver<RegionEvent>) -> u64 {
    loop {
        if let RegionEvent::CutCompleted(cut) = events.recv().await.unwrap() {
            return cut.seq;
        }
    }
}

#[actix::test]
async fn a_region_counts_everything_once_and_ends_by_itself() {
    let place = Place::new();
    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    assert_eq!(worker.ended().await, WorkerEnd::RegionEnded);
    assert!(coordinator.reached(RegionState::Completed).await);
    let status = coordinator.status();
    assert_eq!(status.attempt, 1, "only the start is a reset: {status:?}");
    place.check();
}

#[actix::test]
async fn a_worker_that_is_gone_is_replaced_by_one_of_its_name() {
    let place = Place::new();
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    for _ in 0..2 {
        let worker = place.worker(&coordinator);
        cut_completed(&mut events).await;
        worker.stop();
    }
    let mut worker = place.worker(&coordinator);
    assert_eq!(worker.ended().await, WorkerEnd::RegionEnded);
    place.check();
}

#[actix::test]
async fn coordinator_and_worker_start_anew_from_the_store() {
    let place = Place::new();
    for _ in 0..2 {
        let coordinator = place.coordinator();
        let mut events = coordinator.events();
        let worker = place.worker(&coordinator);
        cut_completed(&mut events).await;
        worker.stop();
        coordinator.halt().await;
    }
    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    assert_eq!(worker.ended().await, WorkerEnd::RegionEnded);
    place.check();
}

#[actix::test]
async fn a_stopped_region_goes_on_from_its_final_cut() {
    let place = Place::new();
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    cut_completed(&mut events).await;
    coordinator.stop().await.unwrap();
    assert_eq!(worker.ended().await, WorkerEnd::RegionEnded);
    coordinator.halt().await;

    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    assert_eq!(worker.ended().await, WorkerEnd::RegionEnded);
    place.check();
}
