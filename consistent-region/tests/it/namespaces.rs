//! A host that vanishes at once: its network, its disk, and all its processes, a coordinator and two
//! workers among them. Another host, which stood by, goes on from the shared store.
//!
//! Where namespaces are not permitted this is skipped, says so, and tells how often.

mod network;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::coordinator::{
    CoordinatorHandle, CoordinatorSettings, ElectedCoordinator, RegionState,
};
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::process::{LocalProcesses, ProcessSpawner};
use lockkeeper_consistent_region::store::{CheckpointStore, FileStore};
use lockkeeper_consistent_region::worker::{WorkerConfig, WorkerProgram};
use lockkeeper_core::RpcService;
use lockkeeper_fencing::driver::LeaseFiles;
use lockkeeper_fencing::election::{ComponentId, LeaderElectionOptions, LeaderElectionService};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use lockkeeper_remote::RemoteBuilderExt;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use self::network::Network;
use crate::child::{self, Child};
use crate::numbers::{Sink, Upstream, output, region_called, truth};
use crate::place::{NUMBERS, cut_completed};

const LEASE: Duration = Duration::from_secs(2);
/// What a worker's process prints when its source has given all that it was given.
const PRODUCED: &str = "all is produced";

fn component() -> ComponentId {
    ComponentId::new("numbers").unwrap()
}

/// What a host's first process, or a worker's on it, is started for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Host {
    number: u8,
    /// What all hosts reach: checkpoints, output, and the place of the election.
    shared: PathBuf,
    /// What nobody else reaches.
    disk: PathBuf,
    /// How many numbers a source on this host has.
    given: u64,
    workers: [String; 2],
    /// The worker that a process is; none: the first one.
    worker: Option<String>,
}

impl Host {
    /// The first begins, the second stands by.
    fn new(number: u8, folder: &std::path::Path) -> Self {
        let (given, workers) = match number {
            1 => (NUMBERS / 2, ["a", "b"]),
            _ => (NUMBERS, ["c", "d"]),
        };
        let disk = folder.join(format!("disk-{number}"));
        fs::create_dir(&disk).unwrap();
        Self {
            number,
            shared: folder.join("shared"),
            disk,
            given,
            workers: workers.map(str::to_owned),
            worker: None,
        }
    }

    async fn service(&self) -> RpcService {
        let builder = RpcService::builder().bind(format!("{}:0", Network::address(self.number)));
        builder.allow_insecure(true).start().await.unwrap()
    }

    fn leases(&self) -> LeaseFiles {
        LeaseFiles::new(self.shared.join("election"))
    }

    async fn work(&self, worker: &str) {
        let upstream = Upstream::new(NUMBERS, self.given);
        let out = self.shared.join("out");
        let region = region_called("numbers", &upstream, &out, Sink::TakesBack);
        let store = Arc::new(FileStore::open_existing(self.shared.join("store")).unwrap());
        let leaders = LeaderRetrievalService::new(self.leases());
        // The two of a host take all four instances.
        let config = WorkerConfig {
            slots: 2,
            ..WorkerConfig::new(worker)
        };
        let given = self.given;
        actix_rt::spawn(async move {
            upstream.produced(given).await;
            child::say(PRODUCED);
        });
        let program = WorkerProgram::new(region, store, config);
        let leader = leaders.retrieve(component()).unwrap();
        program.run(&self.service().await, leader).await.unwrap();
    }

    async fn coordinator(&self) -> (ElectedCoordinator, LeaderElectionService) {
        let upstream = Upstream::new(NUMBERS, self.given);
        let out = self.shared.join("out");
        let region = region_called("numbers", &upstream, &out, Sink::TakesBack);
        let settings = CoordinatorSettings {
            period: Some(Duration::from_millis(50)),
            lease: LEASE,
            lease_margin: Duration::from_millis(500),
            placement_timeout: Duration::from_millis(300),
            max_consecutive_reset_attempts: 50,
            workers: 2,
            ..CoordinatorSettings::for_region(&region)
        };
        let store = Arc::new(FileStore::open(self.shared.join("store")).unwrap());
        let options = LeaderElectionOptions::default();
        let elections = LeaderElectionService::start(self.leases(), options).unwrap();
        let election = elections.election(component());
        let hook = Hook::default();
        let service = self.service().await;
        let coordinator = ElectedCoordinator::start(settings, store, hook, &service, election);
        (coordinator.await.unwrap(), elections)
    }

    /// The host's workers, and what comes when one of them has produced all.
    async fn processes(&self) -> (LocalProcesses, mpsc::Receiver<()>) {
        let (sender, produced) = mpsc::channel(1);
        let host = self.clone();
        let command = move |worker: &str| {
            let task = Host {
                worker: Some(worker.to_owned()),
                ..host.clone()
            };
            let mut command = child::command("namespaces::a_process_of_a_test", &task);
            let log = File::create(host.disk.join(format!("{worker}.log"))).unwrap();
            command.stdout(Stdio::piped()).stderr(log);
            command
        };
        let processes = LocalProcesses::new(command).with_pipes(move |_, mut pipes| {
            let sender = sender.clone();
            actix_rt::spawn(async move {
                let mut lines = BufReader::new(pipes.stdout.take().unwrap()).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line.ends_with(PRODUCED) {
                        let _ = sender.try_send(());
                    }
                }
                drop(pipes);
            });
        });
        for worker in &self.workers {
            processes.start(worker).await.unwrap();
        }
        (processes, produced)
    }

    async fn run(self) {
        if let Some(worker) = &self.worker {
            return self.work(worker).await;
        }
        let (coordinator, _elections) = self.coordinator().await;
        let (_processes, mut produced) = self.processes().await;
        match self.number {
            1 => begin(coordinator.handle(), &mut produced).await,
            _ => {
                child::say("stands by");
                assert!(coordinator.handle().reached(RegionState::Completed).await);
                child::say("ended");
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Half of the numbers are counted, cuts are complete, and the other host's workers are there.
async fn begin(coordinator: &CoordinatorHandle, produced: &mut mpsc::Receiver<()>) {
    let mut events = coordinator.events();
    produced.recv().await.unwrap();
    cut_completed(&mut events).await;
    cut_completed(&mut events).await;
    child::say("half-way");
    let mut status = coordinator.watch();
    let all = status.wait_for(|status| status.workers.len() == 4).await;
    all.unwrap();
    child::say("all are there");
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_process_of_a_test() {
    if let Some(host) = child::task::<Host>() {
        host.run().await;
    }
}

#[actix::test]
async fn another_host_goes_on_when_one_vanishes_with_its_network_disk_and_processes() {
    let test = "another_host_goes_on_when_one_vanishes_with_its_network_disk_and_processes";
    let Some(network) = Network::new(test) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("shared/out");
    fs::create_dir_all(&out).unwrap();
    let store = FileStore::open(folder.path().join("shared/store")).unwrap();
    store.guard_store().unwrap();
    let start = |number: u8| {
        let host = Host::new(number, folder.path());
        let command = child::command("namespaces::a_process_of_a_test", &host);
        (Child::spawn(network.on(number, &command)), host)
    };
    let (mut one, host) = start(1);
    one.says("half-way").await;
    let (mut other, _) = start(2);
    other.says("stands by").await;
    one.says("all are there").await;

    // With its first process all others of the host are killed.
    one.kill();
    network.remove(1);
    fs::remove_dir_all(&host.disk).unwrap();
    other.says("ended").await;
    other.kill();
    assert_eq!(output(&out), truth(NUMBERS));
}
