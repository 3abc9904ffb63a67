//! A region in one process, with a folder as its store; its parts are ended and started anew.

use lockkeeper_consistent_region::coordinator::RegionState;
use lockkeeper_consistent_region::worker::WorkerEnd;

use crate::place::{LIMIT, Place, cut_completed};

#[actix::test]
async fn a_region_counts_everything_once_and_ends_by_itself() {
    let mut place = Place::new();
    place.lease = LIMIT;
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
