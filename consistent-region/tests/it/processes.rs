//! Workers in processes of their own, found by election and reached over the network, that somebody
//! starts, kills and starts again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::coordinator::{
    CoordinatorSettings, ElectedCoordinator, RegionEvent, RegionState, RegionStatus,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::process::{
    LocalProcesses, ProcessEnd, ProcessSpawner, SupervisionEvent, Supervisor,
};
use lockkeeper_consistent_region::store::{CheckpointStore, FileStore};
use lockkeeper_consistent_region::worker::{WorkerConfig, WorkerEnd, WorkerProgram};
use lockkeeper_core::RpcService;
use lockkeeper_fencing::driver::LeaseFiles;
use lockkeeper_fencing::election::{ComponentId, LeaderElectionOptions, LeaderElectionService};
use lockkeeper_fencing::retrieval::{LeaderRetrieval, LeaderRetrievalService};
use lockkeeper_remote::RemoteBuilderExt;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::child;
use crate::numbers::{Upstream, output, region_of, truth};
use crate::place::{LIMIT, NUMBERS, cut_completed, event};

/// Source and sink run in the test's own process, so that it can hold the numbers back.
const HERE: &str = "here";
/// The counters run in processes.
const THERE: &str = "there";

fn component() -> ComponentId {
    ComponentId::new("numbers").unwrap()
}

fn leader(folder: &Path) -> LeaderRetrieval {
    let leases = LeaderRetrievalService::new(LeaseFiles::new(folder.join("election")));
    leases.retrieve(component()).unwrap()
}

fn config(worker: &str, slots: u16, labels: &[&str]) -> WorkerConfig {
    WorkerConfig {
        slots,
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        ..WorkerConfig::new(worker)
    }
}

/// What a worker's process is started for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    worker: String,
    slots: u16,
    labels: Vec<String>,
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_worker_of_a_test() {
    let Some(task) = child::task::<Task>() else {
        return;
    };
    let Task {
        folder,
        worker,
        slots,
        labels,
    } = task;
    // Its source runs elsewhere: the graph alone has to be the same.
    let region = region_of(&Upstream::new(NUMBERS, NUMBERS), &folder.join("out"));
    let store = Arc::new(FileStore::open_existing(folder.join("store")).unwrap());
    let service = RpcService::builder()
        .bind("127.0.0.1:0")
        .start()
        .await
        .unwrap();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let program = WorkerProgram::new(region, store, config(&worker, slots, &labels));
    let end = program.run(&service, leader(&folder)).await.unwrap();
    assert!(matches!(end, WorkerEnd::RegionEnded | WorkerEnd::Stopped));
    service.terminate().await.unwrap();
}

/// The coordinator, and the worker with source and sink, in this process.
struct Cluster {
    folder: tempfile::TempDir,
    upstream: Upstream,
    coordinator: ElectedCoordinator,
    elections: LeaderElectionService,
    service: RpcService,
    here: JoinHandle<WorkerEnd>,
    events: broadcast::Receiver<RegionEvent>,
}

impl Cluster {
    /// The first placement waits for so many workers in processes.
    async fn start(given: u64, processes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        let upstream = Upstream::new(NUMBERS, given);
        let region = region_of(&upstream, &out);
        let store: Arc<dyn CheckpointStore> =
            Arc::new(FileStore::open(folder.path().join("store")).unwrap());
        // Workers take only a store that is there as a whole.
        store.guard_store().unwrap();
        let service = RpcService::builder()
            .bind("127.0.0.1:0")
            .start()
            .await
            .unwrap();
        let leases = LeaseFiles::new(folder.path().join("election"));
        let options = LeaderElectionOptions::default();
        let elections = LeaderElectionService::start(leases, options).unwrap();
        let coordinator = ElectedCoordinator::start(
            settings(&region, processes),
            Arc::clone(&store),
            Hook::default(),
            &service,
            elections.election(component()),
        )
        .await
        .unwrap();
        let events = coordinator.handle().events();
        let here = WorkerProgram::new(region, store, config(HERE, 2, &[HERE]));
        let (to_here, leader) = (service.clone(), leader(folder.path()));
        let here = actix_rt::spawn(async move {
            let never = std::future::pending();
            here.run_until(&to_here, leader, never).await.unwrap()
        });
        Self {
            folder,
            upstream,
            coordinator,
            elections,
            service,
            here,
            events,
        }
    }

    /// Starts workers as processes: their names, slots and labels.
    fn processes(
        &self,
        workers: &[(&'static str, u16, &'static [&'static str])],
    ) -> LocalProcesses {
        let (folder, workers) = (self.folder.path().to_owned(), workers.to_vec());
        LocalProcesses::new(move |worker| {
            let (_, slots, labels) = workers.iter().find(|(name, ..)| *name == worker).unwrap();
            let task = Task {
                folder: folder.clone(),
                worker: worker.to_owned(),
                slots: *slots,
                labels: labels.iter().map(|&label| label.to_owned()).collect(),
            };
            let mut command = child::command("processes::a_worker_of_a_test", &task);
            command.stdout(Stdio::null());
            command
        })
    }

    async fn produced(&self, end: u64) {
        let produced = timeout(LIMIT, self.upstream.produced(end)).await;
        assert!(
            produced.is_ok(),
            "the source does not start: {:?}",
            self.status()
        );
    }

    async fn joined(&mut self, name: &str) {
        let joined = |event: &RegionEvent| matches!(event, RegionEvent::WorkerJoined { worker, .. } if worker == name);
        event(&mut self.events, joined).await;
    }

    async fn reset_completed(&mut self) {
        let completed = |event: &RegionEvent| matches!(event, RegionEvent::ResetCompleted { .. });
        event(&mut self.events, completed).await;
    }

    fn status(&self) -> RegionStatus {
        self.coordinator.handle().status()
    }

    /// What runs on a worker.
    fn on(&self, name: &str) -> Vec<String> {
        let status = self.status();
        let worker = status.workers.iter().find(|worker| worker.worker == name);
        let instances = worker
            .into_iter()
            .flat_map(|worker| worker.instances.iter());
        instances.map(ToString::to_string).collect()
    }

    /// Lets the rest of the numbers go, and waits until the region and its workers have ended.
    async fn finish(self) {
        self.upstream.release();
        let ended = timeout(LIMIT, self.here).await;
        let end = ended.expect("the region does not end").unwrap();
        assert_eq!(end, WorkerEnd::RegionEnded);
        let mut status = self.coordinator.handle().watch();
        let finished = status.wait_for(|status| status.finished);
        let told = timeout(LIMIT, finished).await;
        assert!(told.is_ok(), "a worker does not learn of the end");
        assert_eq!(output(&self.folder.path().join("out")), truth(NUMBERS));
        self.coordinator.close().await.unwrap();
        self.elections.close().await;
        self.service.terminate().await.unwrap();
    }
}

fn settings(region: &Region, processes: usize) -> CoordinatorSettings {
    let mut settings = CoordinatorSettings {
        period: Some(Duration::from_millis(20)),
        max_consecutive_reset_attempts: 50,
        placement_timeout: Duration::from_millis(300),
        workers: 1 + processes,
        ..CoordinatorSettings::for_region(region)
    };
    for shape in &mut settings.shape.instances {
        let label = match shape.instance.operator.as_str() {
            "counts" => THERE,
            _ => HERE,
        };
        shape.labels.push(label.to_owned());
    }
    settings
}

fn kill(processes: &LocalProcesses, worker: &str) {
    let pid = processes.process_id(worker).unwrap();
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

async fn supervised(
    events: &mut broadcast::Receiver<SupervisionEvent>,
    expected: SupervisionEvent,
) {
    let next = async { while events.recv().await.unwrap() != expected {} };
    let told = timeout(LIMIT, next).await;
    assert!(told.is_ok(), "{expected:?} does not come");
}

#[actix::test]
async fn a_killed_worker_process_is_started_again_and_every_number_counts_once() {
    let mut cluster = Cluster::start(NUMBERS / 2, 2).await;
    let workers: [(_, _, &[_]); 2] = [("a", 1, &[THERE]), ("b", 1, &[THERE])];
    let processes = Arc::new(cluster.processes(&workers));
    let spawner: Arc<dyn ProcessSpawner> = Arc::clone(&processes) as _;
    let mut kept = Supervisor::new(spawner).start(["a", "b"]);
    let mut told = kept.events();
    cluster.produced(NUMBERS / 2).await;
    cut_completed(&mut cluster.events).await;
    for worker in ["a", "b"] {
        assert_eq!(cluster.on(worker).len(), 1, "{:?}", cluster.status());
    }

    kill(&processes, "a");
    let worker = || "a".to_owned();
    let end = ProcessEnd::Signaled(9);
    let killed = SupervisionEvent::Ended {
        worker: worker(),
        end,
    };
    supervised(&mut told, killed).await;
    supervised(&mut told, SupervisionEvent::Started { worker: worker() }).await;
    cluster.joined("a").await;
    cluster.reset_completed().await;
    assert_eq!(cluster.on("a").len(), 1, "{:?}", cluster.status());

    cluster.finish().await;
    // In peace: nothing is started again.
    timeout(LIMIT, kept.ended()).await.expect("it goes on");
    for worker in ["a", "b"] {
        let ended = timeout(LIMIT, processes.ended(worker)).await.unwrap();
        assert_eq!(ended, Ok(ProcessEnd::Exited(0)));
    }
}

#[actix::test]
async fn operators_go_only_to_processes_with_their_labels_and_a_spare_one_takes_over() {
    let mut cluster = Cluster::start(NUMBERS / 2, 2).await;
    let workers: [(_, _, &[_]); 4] = [
        ("a", 2, &[THERE]),
        ("other", 64, &[]),
        ("spare", 2, &["more", THERE]),
        ("late", 64, &["more"]),
    ];
    let processes = cluster.processes(&workers);
    let counters = ["counts[0]", "counts[1]"];
    processes.start("a").await.unwrap();
    processes.start("other").await.unwrap();
    cluster.produced(NUMBERS / 2).await;
    assert_eq!(cluster.on("a"), counters, "{:?}", cluster.status());
    assert_eq!(cluster.on(HERE), ["numbers[0]", "sink[0]"]);

    // One that has the label and came later has nothing to do until a place is free.
    processes.start("spare").await.unwrap();
    cluster.joined("spare").await;
    assert_eq!(cluster.on("spare").len(), 0);
    kill(&processes, "a");
    cluster.reset_completed().await;
    assert_eq!(cluster.on("spare"), counters, "{:?}", cluster.status());

    // Nobody is left who has it: the region says what waits, whoever else comes.
    processes.stop("spare").await.unwrap();
    let mut status = cluster.coordinator.handle().watch();
    let waits = status.wait_for(|status| status.state == RegionState::Unhealthy);
    let waits = timeout(LIMIT, waits).await;
    let waiting = waits.expect("the region goes on").unwrap().waiting.clone();
    let waiting: Vec<_> = waiting.iter().map(ToString::to_string).collect();
    assert_eq!(waiting, counters);
    processes.start("late").await.unwrap();
    cluster.joined("late").await;
    assert_eq!(cluster.status().state, RegionState::Unhealthy);

    processes.start("a").await.unwrap();
    cluster.reset_completed().await;
    assert_eq!(cluster.on("a"), counters, "{:?}", cluster.status());
    for worker in ["other", "late"] {
        assert_eq!(cluster.on(worker).len(), 0, "{:?}", cluster.status());
    }
    cluster.finish().await;
}
