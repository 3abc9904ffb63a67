//! A store that has no room for a while: the round is aborted, the region is reset, and the next
//! cut succeeds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lockkeeper_consistent_region::coordinator::{CoordinatorHandle, RegionEvent, RegionState};
use lockkeeper_consistent_region::store::{CheckpointStore, Compression, FailingStore, FileStore};
use tokio::sync::broadcast::Receiver;

use crate::numbers::{Upstream, region_of};
use crate::place::{LIMIT, NUMBERS, Place, comes_into, cut_completed, event};

fn half_way(upstream: &Upstream, store: Arc<dyn CheckpointStore>) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::in_store(folder, |output| region_of(upstream, output), store);
    place.lease = LIMIT;
    place.period = None;
    place
}

/// The next round is aborted because the store has no room, and the region goes back to the cut
/// before.
async fn a_cut_fails(coordinator: &CoordinatorHandle, events: &mut Receiver<RegionEvent>) {
    let completed = coordinator.status().completed;
    coordinator.cut().await.unwrap();
    let aborted = event(events, |event| {
        matches!(event, RegionEvent::CutAborted { .. })
    })
    .await;
    let RegionEvent::CutAborted { reason, .. } = aborted else {
        unreachable!("{aborted:?}");
    };
    assert!(reason.contains("No space left on device"), "{reason}");
    let reset = event(events, |event| {
        matches!(event, RegionEvent::ResetCompleted { .. })
    })
    .await;
    assert!(
        matches!(reset, RegionEvent::ResetCompleted { restored, .. } if restored == completed),
        "{reset:?}"
    );
}

#[actix::test]
async fn a_store_that_is_full_once_aborts_the_round_and_the_next_cut_succeeds() {
    let disk = tempfile::tempdir().unwrap();
    let store = Arc::new(FailingStore::new(FileStore::open(disk.path()).unwrap()));
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let place = half_way(&upstream, Arc::clone(&store) as _);
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    coordinator.cut().await.unwrap();
    cut_completed(&mut events).await;

    store.fail_writes(1);
    a_cut_fails(&coordinator, &mut events).await;
    coordinator.cut().await.unwrap();
    cut_completed(&mut events).await;

    upstream.release();
    place.finish(&coordinator, &mut worker).await;
}

/// A file system of 1 MiB; it is unmounted with this.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where mounting is not allowed.
    fn mount(folder: &Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(folder)
            .output()
            .ok()?;
        mounted.status.success().then(|| Self(folder.to_owned()))
    }

    /// Takes all the room that is left.
    fn fill(&self) -> PathBuf {
        let file = self.0.join("ballast");
        let full = fs::write(&file, vec![7; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        file
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a job of the region may still have a file open.
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[actix::test]
async fn a_disk_that_is_full_for_a_while_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else {
        eprintln!("skipped: a tmpfs can't be mounted here");
        return;
    };
    // The padding is to take room.
    let store = FileStore::open(folder.path()).unwrap();
    let store = Arc::new(store.with_compression(Compression::Off));
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let place = half_way(&upstream, store);
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    coordinator.cut().await.unwrap();
    cut_completed(&mut events).await;

    // There is room for the log, and not for the state.
    upstream.pad(2 << 20);
    a_cut_fails(&coordinator, &mut events).await;
    upstream.pad(0);
    coordinator.cut().await.unwrap();
    cut_completed(&mut events).await;

    // There is room for nothing at all: even the round's beginning has to wait.
    let ballast = disk.fill();
    coordinator.cut().await.unwrap();
    event(&mut events, |event| {
        matches!(event, RegionEvent::StoreFailed { .. })
    })
    .await;
    fs::remove_file(ballast).unwrap();
    cut_completed(&mut events).await;

    upstream.release();
    place.finish(&coordinator, &mut worker).await;
    coordinator.halt().await;
}
