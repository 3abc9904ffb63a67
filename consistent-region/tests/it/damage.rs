//! A completed cut that can't be read any more: the one before is used, and nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lockkeeper_consistent_region::coordinator::{CoordinatorHandle, RegionEvent, RegionState};
use lockkeeper_consistent_region::point::{Hook, Point};
use lockkeeper_consistent_region::worker::WorkerHandle;
use tokio::sync::broadcast::Receiver;

use crate::numbers::Upstream;
use crate::place::{NUMBERS, Place, comes_into, cut, cut_completed, event};

/// Changes the last byte of a file.
fn damage(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    *bytes.last_mut().unwrap() ^= 0x55;
    fs::write(file, bytes).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The newest cut's part to be damaged: in a store's folder, the cut's number.
type Which = fn(&Path, u64) -> PathBuf;

/// The state of the source in cut `seq`.
fn object(store: &Path, seq: u64) -> PathBuf {
    let folder = store.join("objects");
    let prefix = format!("{seq}.");
    let is_it = |name: &String| name.starts_with(&prefix) && name.contains("numbers");
    folder.join(names(&folder).into_iter().find(is_it).unwrap())
}

/// The entry of the log that holds the manifest of cut `seq`.
fn manifest(store: &Path, seq: u64) -> PathBuf {
    let folder = store.join("log");
    let holds = |name: &String| {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
        let entries = text.lines().filter_map(|line| {
            let entry: serde_json::Value = serde_json::from_str(line).ok()?;
            entry["manifest"]["seq"].as_u64()
        });
        name.starts_with("manifest-") && entries.into_iter().any(|found| found == seq)
    };
    folder.join(names(&folder).into_iter().find(holds).unwrap())
}

async fn fell_back(events: &mut Receiver<RegionEvent>) -> u64 {
    match event(events, |event| {
        matches!(event, RegionEvent::FellBack { .. })
    })
    .await
    {
        RegionEvent::FellBack { from, .. } => from,
        other => unreachable!("{other:?}"),
    }
}

/// A region whose source has given half of its numbers.
struct Halfway {
    place: Place,
    release: Box<dyn Fn()>,
}

impl Halfway {
    fn numbers() -> Self {
        let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
        let mut place = Place::of(&upstream);
        place.period = None;
        let release = Box::new(move || upstream.release());
        Self { place, release }
    }

    #[cfg(feature = "canal")]
    fn rows() -> Self {
        use crate::canal::{insert, region};

        const ROWS: u64 = 20_000;
        let server = lockkeeper_canal::testing::CanalServer::builder()
            .start()
            .unwrap();
        let mut place = Place::with(|output| region(&server.address().to_string(), ROWS, output));
        place.numbers = ROWS;
        place.period = None;
        insert(&server.handle(), 0, ROWS / 2);
        let release = Box::new(move || insert(&server.handle(), ROWS / 2, ROWS));
        Self { place, release }
    }

    /// Takes at least `cuts` cuts, then loses the worker; returns the newest cut.
    async fn run(&self, coordinator: &CoordinatorHandle, cuts: usize) -> u64 {
        let mut events = coordinator.events();
        let worker = self.place.worker(coordinator);
        comes_into(&mut events, RegionState::Processing).await;
        for _ in 0..cuts {
            cut(coordinator, &mut events).await;
        }
        worker.stop();
        comes_into(&mut events, RegionState::Unhealthy).await;
        coordinator.status().completed
    }

    /// The worker dies, something of the newest cut is damaged, another worker comes.
    async fn at_run_time(&self, cuts: usize, which: Which) {
        let coordinator = self.place.coordinator();
        let newest = self.run(&coordinator, cuts).await;
        damage(&which(&self.place.data(), newest));
        let mut events = coordinator.events();
        let mut worker = self.place.worker(&coordinator);
        assert_eq!(fell_back(&mut events).await, newest);
        self.finish(&coordinator, &mut worker).await;
    }

    /// Everything ends, something of the newest cut is damaged, everything is started again.
    async fn at_start(&self, cuts: usize, which: Which) {
        let coordinator = self.place.coordinator();
        let newest = self.run(&coordinator, cuts).await;
        coordinator.halt().await;
        damage(&which(&self.place.data(), newest));
        let coordinator = self.place.coordinator();
        let mut events = coordinator.events();
        let mut worker = self.place.worker(&coordinator);
        let reset = event(&mut events, |event| {
            matches!(event, RegionEvent::ResetCompleted { .. })
        })
        .await;
        assert!(
            matches!(reset, RegionEvent::ResetCompleted { restored, .. } if restored < newest),
            "{reset:?}"
        );
        self.finish(&coordinator, &mut worker).await;
    }

    async fn finish(&self, coordinator: &CoordinatorHandle, worker: &mut WorkerHandle) {
        (self.release)();
        self.place.finish(coordinator, worker).await;
    }
}

#[actix::test]
async fn a_damaged_object_is_found_at_a_reset_and_the_cut_before_is_used() {
    Halfway::numbers().at_run_time(3, object).await;
}

#[actix::test]
async fn a_damaged_object_is_found_at_start_and_the_cut_before_is_used() {
    Halfway::numbers().at_start(3, object).await;
}

#[actix::test]
async fn a_damaged_manifest_is_found_at_a_reset_and_the_cut_before_is_used() {
    Halfway::numbers().at_run_time(3, manifest).await;
}

#[actix::test]
async fn a_damaged_manifest_is_found_at_start_and_the_cut_before_is_used() {
    Halfway::numbers().at_start(3, manifest).await;
}

/// Before the first cut there is the initial state: the source still has everything.
#[actix::test]
async fn a_damaged_first_cut_is_found_at_a_reset_and_the_region_begins_anew() {
    Halfway::numbers().at_run_time(1, object).await;
}

#[actix::test]
async fn a_damaged_first_cut_is_found_at_start_and_the_region_begins_anew() {
    Halfway::numbers().at_start(1, object).await;
    Halfway::numbers().at_start(1, manifest).await;
}

#[cfg(feature = "canal")]
#[actix::test]
async fn rows_from_canal_survive_a_damaged_cut_at_a_reset() {
    Halfway::rows().at_run_time(3, object).await;
    Halfway::rows().at_run_time(1, manifest).await;
}

#[cfg(feature = "canal")]
#[actix::test]
async fn rows_from_canal_survive_a_damaged_cut_at_start() {
    Halfway::rows().at_start(3, object).await;
    Halfway::rows().at_start(3, manifest).await;
}

/// The coordinator has read the object, the worker reads it a moment later.
#[actix::test]
async fn what_is_damaged_during_a_reset_is_found_by_the_next() {
    let halfway = Halfway::numbers();
    let coordinator = halfway.place.coordinator();
    let newest = halfway.run(&coordinator, 3).await;
    let victim = Mutex::new(Some(object(&halfway.place.data(), newest)));
    let hook = Hook::new(move |point| {
        if point == Point::DuringReset
            && let Some(object) = victim.lock().unwrap().take()
        {
            damage(&object);
        }
    });
    let mut events = coordinator.events();
    let mut worker = halfway.place.worker_with(&coordinator, hook);
    assert_eq!(fell_back(&mut events).await, newest);
    halfway.finish(&coordinator, &mut worker).await;
}

/// The source has ended, the last cut is complete and not committed.
#[actix::test]
async fn a_damaged_last_cut_is_taken_anew() {
    let halfway = Halfway::numbers();
    let victim: Arc<Mutex<Option<WorkerHandle>>> = Arc::default();
    let store = halfway.place.data();
    let hook = Hook::new({
        let victim = Arc::clone(&victim);
        move |point| {
            if point == Point::AfterManifest
                && let Some(worker) = victim.lock().unwrap().take()
            {
                worker.stop();
                let newest = names(&store.join("objects"));
                let seq = newest
                    .iter()
                    .filter_map(|name| name.split_once('.')?.0.parse().ok());
                damage(&object(&store, seq.max().unwrap()));
            }
        }
    });
    let coordinator = halfway.place.coordinator_with(hook);
    let mut events = coordinator.events();
    let worker = halfway.place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    cut(&coordinator, &mut events).await;
    *victim.lock().unwrap() = Some(worker);
    (halfway.release)();
    let last = cut_completed(&mut events).await;
    comes_into(&mut events, RegionState::Unhealthy).await;
    let mut worker = halfway.place.worker(&coordinator);
    assert_eq!(fell_back(&mut events).await, last);
    halfway.place.finish(&coordinator, &mut worker).await;
}
