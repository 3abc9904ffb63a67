//! A region with its folders, and its parts as they are started in one process.

use std::fs;
use std::path::{Path, PathBuf};
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
use tokio::time::timeout;

use crate::numbers::{Upstream, output, region, region_of, truth};

pub(crate) const NUMBERS: u64 = 400_003;
/// Against a hang only.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Place {
    folder: PathBuf,
    /// Removes the folder, unless it is somebody else's.
    _folder: Option<tempfile::TempDir>,
    region: Region,
    store: Arc<dyn CheckpointStore>,
    /// How many numbers there are.
    pub(crate) numbers: u64,
    pub(crate) period: Option<Duration>,
    /// Short, so that another worker gets the name of one that was stopped; not for tests in which
    /// a lease that ends on a busy machine would be taken for something else.
    pub(crate) lease: Duration,
    pub(crate) drain_timeout: Duration,
}

impl Place {
    /// All numbers at once.
    pub(crate) fn new() -> Self {
        Self::with(|output| region(NUMBERS, output))
    }

    pub(crate) fn of(upstream: &Upstream) -> Self {
        Self::with(|output| region_of(upstream, output))
    }

    pub(crate) fn with(region: impl FnOnce(&Path) -> Region) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(FileStore::open(folder.path().join("store")).unwrap());
        Self::in_store(folder, region, store)
    }

    pub(crate) fn in_store(
        folder: tempfile::TempDir,
        region: impl FnOnce(&Path) -> Region,
        store: Arc<dyn CheckpointStore>,
    ) -> Self {
        let mut place = Self::over(folder.path().to_owned(), store, region);
        place._folder = Some(folder);
        place
    }

    /// In a folder that others use before and after.
    pub(crate) fn at(folder: PathBuf, region: impl FnOnce(&Path) -> Region) -> Self {
        let store = Arc::new(FileStore::open(folder.join("store")).unwrap());
        Self::over(folder, store, region)
    }

    /// The same, with a store that lies elsewhere.
    pub(crate) fn over(
        folder: PathBuf,
        store: Arc<dyn CheckpointStore>,
        region: impl FnOnce(&Path) -> Region,
    ) -> Self {
        let output = folder.join("out");
        fs::create_dir_all(&output).unwrap();
        Self {
            region: region(&output),
            folder,
            _folder: None,
            store,
            numbers: NUMBERS,
            period: Some(Duration::from_millis(20)),
            lease: Duration::from_millis(500),
            drain_timeout: Duration::from_secs(180),
        }
    }

    /// The same store, as another process opens it.
    #[cfg(any(feature = "redis", feature = "object-store"))]
    pub(crate) fn open_anew(&mut self, store: Arc<dyn CheckpointStore>) {
        self.store = store;
    }

    #[cfg(feature = "remote")]
    pub(crate) fn region(&self) -> Region {
        self.region.clone()
    }

    #[cfg(any(feature = "canal", feature = "remote"))]
    pub(crate) fn store(&self) -> Arc<dyn CheckpointStore> {
        Arc::clone(&self.store)
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.region.fingerprint()
    }

    /// The store's own folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("store")
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.folder.join("out")
    }

    pub(crate) fn settings(&self) -> CoordinatorSettings {
        CoordinatorSettings {
            period: self.period,
            lease: self.lease,
            drain_timeout: self.drain_timeout,
            max_consecutive_reset_attempts: 50,
            lease_margin: Duration::from_millis(50),
            ..CoordinatorSettings::for_region(&self.region)
        }
    }

    pub(crate) fn coordinator(&self) -> CoordinatorHandle {
        self.coordinator_with(Hook::default())
    }

    pub(crate) fn coordinator_with(&self, hook: Hook) -> CoordinatorHandle {
        let store = Arc::clone(&self.store);
        RegionCoordinator::start_local(self.settings(), store, hook).unwrap()
    }

    pub(crate) fn worker(&self, coordinator: &CoordinatorHandle) -> WorkerHandle {
        self.worker_with(coordinator, Hook::default())
    }

    pub(crate) fn worker_with(&self, coordinator: &CoordinatorHandle, hook: Hook) -> WorkerHandle {
        let config = WorkerConfig {
            hook,
            ..WorkerConfig::new("worker")
        };
        self.worker_as(coordinator, config)
    }

    pub(crate) fn worker_as(
        &self,
        coordinator: &CoordinatorHandle,
        config: WorkerConfig,
    ) -> WorkerHandle {
        let (link, inbox) = coordinator.way().connect();
        let (region, store) = (self.region.clone(), Arc::clone(&self.store));
        RegionWorker::start(region, store, Arc::new(link), inbox, config)
    }

    pub(crate) fn check(&self) {
        assert_eq!(output(&self.output()), truth(self.numbers));
    }

    /// Runs until the region has ended; everything was counted once.
    pub(crate) async fn finish(&self, coordinator: &CoordinatorHandle, worker: &mut WorkerHandle) {
        self.wait(coordinator, worker).await;
        self.check();
    }

    /// Runs until the region has ended.
    pub(crate) async fn wait(&self, coordinator: &CoordinatorHandle, worker: &mut WorkerHandle) {
        let ended = async {
            tokio::select! {
                end = worker.ended() => Some(end),
                _ = coordinator.reached(RegionState::Failed) => None,
            }
        };
        let ended = timeout(LIMIT, ended).await;
        let status = coordinator.status();
        assert_eq!(ended, Ok(Some(WorkerEnd::RegionEnded)), "{status:?}");
        assert!(coordinator.reached(RegionState::Completed).await);
    }
}

pub(crate) async fn event(
    events: &mut broadcast::Receiver<RegionEvent>,
    is_it: impl Fn(&RegionEvent) -> bool,
) -> RegionEvent {
    let next = async {
        loop {
            match events.recv().await.unwrap() {
                event if is_it(&event) => return event,
                RegionEvent::Failed { reason } => panic!("the region has failed: {reason}"),
                _ => {}
            }
        }
    };
    timeout(LIMIT, next).await.expect("the event did not come")
}

pub(crate) async fn cut_completed(events: &mut broadcast::Receiver<RegionEvent>) -> u64 {
    match event(events, |event| {
        matches!(event, RegionEvent::CutCompleted(_))
    })
    .await
    {
        RegionEvent::CutCompleted(cut) => cut.seq,
        other => unreachable!("{other:?}"),
    }
}

/// Asks for a cut until one is complete: a lease that ends on a busy machine ends the round.
pub(crate) async fn cut(
    coordinator: &CoordinatorHandle,
    events: &mut broadcast::Receiver<RegionEvent>,
) {
    use RegionEvent::{CutCompleted, ResetCompleted};
    loop {
        coordinator.cut().await.unwrap();
        let next = event(events, |event| {
            matches!(event, CutCompleted(_) | ResetCompleted { .. })
        });
        if let CutCompleted(_) = next.await {
            return;
        }
    }
}

/// The next time that the region comes into `state`.
pub(crate) async fn comes_into(events: &mut broadcast::Receiver<RegionEvent>, state: RegionState) {
    event(
        events,
        |event| matches!(event, RegionEvent::State { to, .. } if *to == state),
    )
    .await;
}
