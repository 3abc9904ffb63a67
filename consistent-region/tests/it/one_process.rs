//! A region in one process, with a folder as its store; its parts are ended and started anew.

use std::time::Duration;

use lockkeeper_consistent_region::coordinator::{RegionEvent, RegionState};
use lockkeeper_consistent_region::worker::{GetStatus, WorkerEnd};
use tokio::time::timeout;

use crate::numbers::{Upstream, output};
use crate::place::{LIMIT, NUMBERS, Place, cut_completed, event};

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
async fn a_stopped_worker_gives_its_name_back_at_once() {
    let mut place = Place::new();
    // longer than anybody waits here
    place.lease = LIMIT * 100;
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    cut_completed(&mut events).await;
    worker.stop();
    assert_eq!(worker.ended().await, WorkerEnd::Stopped);
    assert_eq!(coordinator.status().workers, []);
    let mut worker = place.worker(&coordinator);
    place.finish(&coordinator, &mut worker).await;
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

/// The sum of all counts: how many numbers are in the last cut.
fn counted(place: &Place) -> u64 {
    output(&place.output()).values().sum()
}

#[actix::test]
async fn a_paused_region_takes_nothing_in_takes_cuts_and_goes_on() {
    let upstream = Upstream::new(NUMBERS, NUMBERS / 4);
    let mut place = Place::of(&upstream);
    // workers learn of a pause four times in a lease
    place.lease = Duration::from_secs(4);
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    let pausing = async {
        while counted(&place) < NUMBERS / 4 {
            cut_completed(&mut events).await;
        }
        coordinator.pause_sources().await.unwrap();
        assert!(coordinator.status().sources_paused_since_unix_ms.is_some());
        while !worker
            .address()
            .send(GetStatus)
            .await
            .unwrap()
            .sources_paused
        {
            cut_completed(&mut events).await;
        }
    };
    timeout(LIMIT, pausing)
        .await
        .expect("the worker does not pause");

    upstream.release();
    for _ in 0..4 {
        cut_completed(&mut events).await;
    }
    assert_eq!(counted(&place), NUMBERS / 4);

    // also for instances that are reset
    coordinator.reset(false, "the test").await.unwrap();
    event(&mut events, |event| {
        matches!(event, RegionEvent::ResetCompleted { .. })
    })
    .await;
    for _ in 0..2 {
        cut_completed(&mut events).await;
    }
    assert_eq!(counted(&place), NUMBERS / 4);

    coordinator.resume_sources().await.unwrap();
    assert_eq!(coordinator.status().sources_paused_since_unix_ms, None);
    place.finish(&coordinator, &mut worker).await;
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
