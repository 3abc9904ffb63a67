//! Hosts that vanish with everything on them, and stores that are slow, hang, are out of date or gone.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::coordinator::{RegionEvent, RegionState};
use lockkeeper_consistent_region::store::{CheckpointStore, FailingStore, FileStore, MemoryStore};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::child::{self, Child};
use crate::numbers::{Sink, Upstream, region_called, region_of};
use crate::place::{LIMIT, NUMBERS, Place, comes_into, cut, cut_completed, event};

fn half_way(upstream: &Upstream, store: Arc<dyn CheckpointStore>) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::in_store(folder, |output| region_of(upstream, output), store);
    place.period = None;
    // A round that ends with a lease on a busy machine would be taken for one that the store ended.
    place.lease = LIMIT;
    place
}

/// A host: coordinator, worker and a disk of its own. Other hosts reach the shared folder too.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Host {
    /// Where outputs appear, and the store unless it is lost with the disk.
    shared: PathBuf,
    /// What nobody else reaches.
    disk: PathBuf,
    store_on_disk: bool,
    /// The host that goes on, not the one that began.
    successor: bool,
}

impl Host {
    async fn run(self) {
        let root = match self.store_on_disk {
            true => self.disk.join("store"),
            false => self.shared.join("store"),
        };
        let opened = match self.successor {
            true => FileStore::open_existing(root),
            false => FileStore::open(root),
        };
        let store = match opened {
            Ok(store) => Arc::new(store),
            Err(error) => {
                child::say(&error.to_string());
                return;
            }
        };
        let given = if self.successor { NUMBERS } else { NUMBERS / 2 };
        let upstream = Upstream::new(NUMBERS, given);
        let place = Place::over(self.shared, store, |output| {
            region_called("numbers", &upstream, output, Sink::TakesBack)
        });
        let coordinator = place.coordinator();
        let mut events = coordinator.events();
        let mut worker = place.worker(&coordinator);
        if self.successor {
            worker.ended().await;
            child::say("ended");
        } else {
            upstream.produced(given).await;
            cut_completed(&mut events).await;
            cut_completed(&mut events).await;
            child::say("half-way");
        }
        std::future::pending::<()>().await;
    }
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_host_of_a_test() {
    if let Some(host) = child::task::<Host>() {
        host.run().await;
    }
}

/// A host comes half-way and vanishes with its disk; what its successor says.
async fn a_host_vanishes(store_on_disk: bool) -> (tempfile::TempDir, Child) {
    let folder = tempfile::tempdir().unwrap();
    let (shared, disk) = (folder.path().join("shared"), folder.path().join("disk"));
    for folder in [&shared, &disk] {
        fs::create_dir(folder).unwrap();
    }
    let host = Host {
        shared,
        disk,
        store_on_disk,
        successor: false,
    };
    let mut first = Child::start("host::a_host_of_a_test", &host);
    first.says("half-way").await;
    first.kill();
    fs::remove_dir_all(&host.disk).unwrap();
    let successor = Host {
        disk: folder.path().join("another-disk"),
        successor: true,
        ..host
    };
    let second = Child::start("host::a_host_of_a_test", &successor);
    (folder, second)
}

#[actix::test]
async fn a_region_goes_on_from_the_shared_store_when_its_whole_host_vanishes() {
    let (folder, mut second) = a_host_vanishes(false).await;
    second.says("ended").await;
    second.kill();
    let output = folder.path().join("shared/out");
    assert_eq!(
        crate::numbers::output(&output),
        crate::numbers::truth(NUMBERS)
    );
}

#[actix::test]
async fn a_store_that_vanished_with_its_host_is_named_and_never_begun_anew() {
    let (folder, mut second) = a_host_vanishes(true).await;
    let lost = folder.path().join("another-disk/store");
    let said = format!(
        "file:{}: : there is no store: it was never made here, or it was lost with its disk, and the \
         region's state with it",
        lost.display()
    );
    second.says(&said).await;
    assert!(!lost.exists(), "an empty store was made in its place");
}

#[actix::test]
async fn a_disk_that_vanishes_under_a_region_is_told_by_its_place() {
    let disk = tempfile::tempdir().unwrap();
    let root = disk.path().join("store");
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let place = half_way(&upstream, Arc::new(FileStore::open(&root).unwrap()));
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    coordinator.cut().await.unwrap();
    let completed = cut_completed(&mut events).await;
    fs::remove_dir_all(&root).unwrap();
    coordinator.cut().await.unwrap();
    let failed = event(&mut events, |event| {
        matches!(
            event,
            RegionEvent::StoreFailed { .. } | RegionEvent::CutAborted { .. }
        )
    })
    .await;
    let (RegionEvent::StoreFailed { reason } | RegionEvent::CutAborted { reason, .. }) = failed
    else {
        unreachable!();
    };
    assert!(reason.contains(root.to_str().unwrap()), "{reason}");
    assert_eq!(coordinator.status().completed, completed);
    assert!(
        !root.join("objects").exists(),
        "an empty store was made in its place"
    );
    worker.stop();
    coordinator.halt().await;
}

#[actix::test]
async fn a_store_slower_than_the_drain_timeout_ends_the_round_and_a_faster_one_completes_the_next()
{
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let mut place = half_way(&upstream, Arc::clone(&store) as _);
    // Rounds that are not held take some milliseconds.
    place.drain_timeout = Duration::from_secs(3);
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;

    store.hold_writes();
    coordinator.cut().await.unwrap();
    let aborted = event(&mut events, |event| {
        matches!(event, RegionEvent::CutAborted { .. })
    })
    .await;
    assert!(
        matches!(aborted, RegionEvent::CutAborted { .. }),
        "{aborted:?}"
    );
    assert_eq!(coordinator.status().completed, 0);
    store.release_writes();
    event(&mut events, |event| {
        matches!(event, RegionEvent::ResetCompleted { .. })
    })
    .await;
    // On a busy machine this one may take longer too.
    cut(&coordinator, &mut events).await;
    upstream.release();
    place.finish(&coordinator, &mut worker).await;
}

#[actix::test]
async fn a_store_that_hangs_is_told_by_the_watchdog_while_tuples_flow() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let mut place = half_way(&upstream, Arc::clone(&store) as _);
    place.period = Some(Duration::from_millis(20));
    store.hold_writes();
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    let held = Arc::clone(&store);
    let waiting = spawn_blocking(move || held.wait_for_held_writes(LIMIT));
    assert!(waiting.await.unwrap(), "nothing is written");
    let no_cut = event(&mut events, |event| {
        matches!(
            event,
            RegionEvent::NoCut {
                state: RegionState::CheckpointPending | RegionState::Draining,
                ..
            }
        )
    })
    .await;
    assert!(matches!(no_cut, RegionEvent::NoCut { .. }), "{no_cut:?}");
    assert_eq!(coordinator.status().completed, 0);
    store.release_writes();
    upstream.release();
    place.finish(&coordinator, &mut worker).await;
}

#[actix::test]
async fn a_store_that_gives_back_old_state_is_noticed_and_the_cut_before_is_used() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let upstream = Upstream::new(NUMBERS, NUMBERS / 4);
    let place = half_way(&upstream, Arc::clone(&store) as _);
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    let mut cuts = Vec::new();
    for end in [NUMBERS / 4, NUMBERS / 2] {
        upstream.release_to(end);
        upstream.produced(end).await;
        coordinator.cut().await.unwrap();
        cuts.push(cut_completed(&mut events).await);
    }
    let objects = store.list_objects().unwrap();
    let of = |seq: u64| {
        let name = objects
            .iter()
            .find(|name| name.starts_with(&format!("{seq}.")) && name.ends_with(".counts.0"));
        name.unwrap().clone()
    };
    store.read_stale(&of(cuts[1]), &of(cuts[0]));
    coordinator.reset(false, "to read it").await.unwrap();
    let fell_back = event(&mut events, |event| {
        matches!(event, RegionEvent::FellBack { .. })
    })
    .await;
    let RegionEvent::FellBack { from, reason } = fell_back else {
        unreachable!();
    };
    assert_eq!(from, cuts[1]);
    assert!(reason.contains("counts"), "{reason}");
    upstream.release();
    place.finish(&coordinator, &mut worker).await;
}
