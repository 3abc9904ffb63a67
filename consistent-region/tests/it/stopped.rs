//! Processes that stop (SIGSTOP) between a check of their lease and what they were about to do, for
//! longer than the lease: after SIGCONT nothing of it takes hold. The truth is a closed form.
//!
//! The processes are this test binary, started again; each is ended by who started it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_canal::testing::CanalServer;
use lockkeeper_consistent_region::coordinator::{
    CoordinatorSettings, ElectedCoordinator, RegionEvent,
};
use lockkeeper_consistent_region::link::remote::RemoteLink;
use lockkeeper_consistent_region::point::{Hook, Point};
use lockkeeper_consistent_region::store::{CheckpointStore, FileStore};
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerConfig};
use lockkeeper_core::RpcService;
use lockkeeper_fencing::driver::file::LeaseFiles;
use lockkeeper_fencing::election::{ComponentId, LeaderElectionOptions, LeaderElectionService};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use lockkeeper_remote::RemoteBuilderExt;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;

use crate::canal::{insert, region};
use crate::child::stop_myself;
use crate::numbers::{output, truth};
use crate::place::{LIMIT, cut_completed, event};

const ROWS: u64 = 12_000;
/// Of a leader: it has to keep it until it is stopped, however busy the machine is.
const SESSION: Duration = Duration::from_secs(4);
/// Of a worker: likewise.
const LEASE: Duration = Duration::from_secs(4);
const COMPONENT: &str = "numbers";
/// What a started process is to do, as JSON.
const VARIABLE: &str = "LOCKKEEPER_REGION_TEST_PROCESS";
const SAYS: &str = "says: ";

/// What the processes of one test share.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    folder: PathBuf,
    canal: String,
}

/// One of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    job: Job,
    role: Role,
    name: String,
    /// Where it stops itself once it is armed.
    stops_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Role {
    Coordinator,
    Worker,
}

impl Job {
    fn output(&self) -> PathBuf {
        self.folder.join("out")
    }

    fn armed(&self, name: &str) -> PathBuf {
        self.folder.join(format!("armed-{name}"))
    }

    fn store(&self) -> Arc<dyn CheckpointStore> {
        Arc::new(FileStore::open(self.folder.join("store")).unwrap())
    }

    fn region(&self) -> lockkeeper_consistent_region::graph::Region {
        region(&self.canal, ROWS, &self.output())
    }

    fn leases(&self) -> LeaseFiles {
        LeaseFiles::new(self.folder.join("leases")).with_session(SESSION)
    }

    async fn coordinate(&self, hook: Hook) -> (ElectedCoordinator, LeaderElectionService) {
        self.coordinate_with(1, hook).await
    }

    /// The first placement waits for so many workers, and spreads over them.
    async fn coordinate_with(
        &self,
        workers: usize,
        hook: Hook,
    ) -> (ElectedCoordinator, LeaderElectionService) {
        let settings = CoordinatorSettings {
            period: Some(Duration::from_millis(100)),
            lease: LEASE,
            lease_margin: Duration::from_millis(300),
            // the first placement waits so long for its workers at most
            placement_timeout: match workers {
                1 => Duration::from_millis(200),
                _ => Duration::from_secs(6),
            },
            workers,
            ..CoordinatorSettings::for_region(&self.region())
        };
        let service = service().await;
        let options = LeaderElectionOptions::default();
        let elections = LeaderElectionService::start(self.leases(), options).unwrap();
        let election = elections.election(ComponentId::new(COMPONENT).unwrap());
        let coordinator =
            ElectedCoordinator::start(settings, self.store(), hook, &service, election)
                .await
                .unwrap();
        (coordinator, elections)
    }
}

async fn service() -> RpcService {
    RpcService::builder()
        .bind("127.0.0.1:0")
        .start()
        .await
        .unwrap()
}

impl Task {
    /// Stops the whole process at its point, once, when the test has armed it.
    fn hook(&self) -> Hook {
        let Some(point) = &self.stops_at else {
            return Hook::default();
        };
        let point: Point = point.parse().unwrap();
        let armed = self.job.armed(&self.name);
        Hook::new(move |reached| {
            if reached == point && fs::remove_file(&armed).is_ok() {
                stop_myself();
            }
        })
    }

    async fn run(self) {
        match self.role {
            Role::Coordinator => self.coordinator().await,
            Role::Worker => self.worker().await,
        }
    }

    async fn coordinator(self) {
        let (coordinator, _elections) = self.job.coordinate(self.hook()).await;
        let mut events = coordinator.handle().events();
        let mut token = coordinator.token();
        loop {
            tokio::select! {
                changed = token.changed() => {
                    changed.unwrap();
                    match *token.borrow_and_update() {
                        Some(_) => say("leads"),
                        None => say("follows"),
                    }
                }
                event = events.recv() => match event.unwrap() {
                    RegionEvent::CutCompleted(_) => say("cut"),
                    RegionEvent::Failed { reason } => panic!("{reason}"),
                    _ => {}
                },
            }
        }
    }

    async fn worker(self) {
        let service = service().await;
        let retrieval = LeaderRetrievalService::new(self.job.leases());
        let leader = retrieval
            .retrieve(ComponentId::new(COMPONENT).unwrap())
            .unwrap();
        let link = RemoteLink::new(service.clone(), leader, Duration::from_secs(1));
        let config = WorkerConfig {
            hook: self.hook(),
            ..WorkerConfig::new(&self.name)
        };
        let (region, store) = (self.job.region(), self.job.store());
        let mut worker =
            RegionWorker::start_remote(region, store, Arc::new(link), &service, config)
                .await
                .unwrap();
        say(&format!("ended: {:?}", worker.ended().await));
    }
}

fn say(what: &str) {
    // The harness leaves its own line open.
    println!("\n{SAYS}{what}");
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_process_of_a_test() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    std::thread::spawn(|| {
        // Who started this process holds the other end, and writes nothing.
        let _ = std::io::stdin().lock().lines().next();
        let _ = kill_process(getpid(), Signal::KILL);
    });
    let task: Task = serde_json::from_str(&task).unwrap();
    task.run().await;
}

/// A started process; it is ended with this.
struct Process {
    task: Task,
    child: process::Child,
    said: mpsc::UnboundedReceiver<String>,
}

impl Process {
    fn start(job: &Job, role: Role, name: &str, stops_at: Option<Point>) -> Self {
        let task = Task {
            job: job.clone(),
            role,
            name: name.to_owned(),
            stops_at: stops_at.map(|point| point.to_string()),
        };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["stopped::a_process_of_a_test", "--exact"])
            .args(["--ignored", "--nocapture"])
            .env(VARIABLE, serde_json::to_string(&task).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, said) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(said) = line.strip_prefix(SAYS) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { task, child, said }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until it says that.
    async fn says(&mut self, what: &str) {
        let name = self.task.name.clone();
        let said = async {
            while let Some(said) = self.said.recv().await {
                if said == what {
                    return true;
                }
            }
            false
        };
        let said = timeout(LIMIT, said).await;
        assert_eq!(said, Ok(true), "{name} did not say {what:?}");
    }

    /// From now on it stops when it comes to its point.
    fn arm(&self) {
        fs::write(self.task.job.armed(&self.task.name), "").unwrap();
    }

    async fn stopped(&self) {
        let pid = self.pid();
        let waiting =
            tokio::task::spawn_blocking(move || waitpid(Some(pid), WaitOptions::UNTRACED));
        let (_, status) = timeout(LIMIT, waiting)
            .await
            .expect("it did not come to its point")
            .unwrap()
            .unwrap()
            .unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Fixture {
    _folder: tempfile::TempDir,
    job: Job,
    server: CanalServer,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = CanalServer::builder().start().unwrap();
        let job = Job {
            folder: folder.path().to_owned(),
            canal: server.address().to_string(),
        };
        fs::create_dir(job.output()).unwrap();
        insert(&server.handle(), 0, ROWS / 4);
        Self {
            _folder: folder,
            job,
            server,
        }
    }

    fn insert(&self, quarter: u64) {
        let (from, to) = (ROWS / 4 * (quarter - 1), ROWS / 4 * quarter);
        insert(&self.server.handle(), from, to);
    }

    fn check(&self) {
        assert_eq!(output(&self.job.output()), truth(ROWS));
    }
}

/// What is published.
fn published(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

async fn joined(events: &mut broadcast::Receiver<RegionEvent>, name: &str) {
    event(
        events,
        |event| matches!(event, RegionEvent::WorkerJoined { worker, .. } if worker == name),
    )
    .await;
}

async fn a_worker_stops_at(point: Point) {
    one_of_workers_stops_at(point, 1).await;
}

/// The first worker, by name, has the source; with two workers it hands half of the rows over.
async fn one_of_workers_stops_at(point: Point, workers: usize) {
    let fixture = Fixture::new();
    let job = &fixture.job;
    let (coordinator, _elections) = job.coordinate_with(workers, Hook::default()).await;
    let mut events = coordinator.handle().events();
    let first = Process::start(job, Role::Worker, "first", Some(point));
    let _second = (workers > 1).then(|| Process::start(job, Role::Worker, "second", None));
    cut_completed(&mut events).await;
    if workers > 1 {
        let status = coordinator.handle().status();
        let of_first = status
            .workers
            .iter()
            .find(|worker| worker.worker == "first");
        let instances = &of_first.unwrap().instances;
        let has_source = instances
            .iter()
            .any(|instance| instance.operator == "numbers");
        assert!(
            has_source && instances.len() < 4,
            "nothing is handed over: {status:?}"
        );
    }
    let mut spare = Process::start(job, Role::Worker, "spare", None);
    joined(&mut events, "spare").await;

    first.arm();
    fixture.insert(2);
    first.stopped().await;
    event(
        &mut events,
        |event| matches!(event, RegionEvent::WorkerLost { worker, .. } if worker == "first"),
    )
    .await;
    event(&mut events, |event| {
        matches!(event, RegionEvent::ResetCompleted { .. })
    })
    .await;
    fixture.insert(3);
    cut_completed(&mut events).await;
    cut_completed(&mut events).await;

    let before = published(&job.output());
    first.go_on();
    joined(&mut events, "first").await;
    let after = published(&job.output());
    for (name, content) in before {
        assert_eq!(after.get(&name), Some(&content), "{name} was changed");
    }
    fixture.insert(4);
    spare.says("ended: RegionEnded").await;
    fixture.check();
    coordinator.close().await.unwrap();
}

#[actix::test]
async fn a_worker_stopped_between_check_and_get_reads_nothing_that_counts() {
    a_worker_stops_at(Point::BetweenCheckAndGet).await;
}

#[actix::test]
async fn a_worker_stopped_between_check_and_ack_acknowledges_nothing_that_counts() {
    a_worker_stops_at(Point::BetweenCheckAndAck).await;
}

#[actix::test]
async fn a_worker_stopped_between_check_and_stage_stages_nothing_that_counts() {
    a_worker_stops_at(Point::BetweenCheckAndStage).await;
}

#[actix::test]
async fn a_worker_stopped_between_check_and_commit_commits_nothing_anew() {
    a_worker_stops_at(Point::BetweenCheckAndCommit).await;
}

#[actix::test]
async fn a_worker_stopped_between_check_and_hand_over_hands_over_nothing_that_counts() {
    one_of_workers_stops_at(Point::BetweenCheckAndHandOver, 2).await;
}

/// Its successor leads when it goes on: its record is in nobody's history, its message is refused.
#[actix::test]
async fn a_coordinator_stopped_between_record_and_message_orders_nothing_any_more() {
    let fixture = Fixture::new();
    let job = &fixture.job;
    let point = Point::BetweenRecordAndMessage;
    let mut first = Process::start(job, Role::Coordinator, "first", Some(point));
    first.says("leads").await;
    let mut second = Process::start(job, Role::Coordinator, "second", None);
    let mut worker = Process::start(job, Role::Worker, "worker", None);
    first.says("cut").await;

    first.arm();
    fixture.insert(2);
    first.stopped().await;
    second.says("leads").await;
    fixture.insert(3);
    second.says("cut").await;
    second.says("cut").await;

    first.go_on();
    first.says("follows").await;
    fixture.insert(4);
    worker.says("ended: RegionEnded").await;
    fixture.check();
}
