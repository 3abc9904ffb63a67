//! Leaders as real processes that are stopped where it hurts, and continued after another one leads:
//! before the check of the deadline, between check and write, and between write and second look.
//!
//! The test binary starts itself again as the child; what a child tells its parent begins with `@`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_fencing::driver::LeaseFiles;
use lockkeeper_fencing::election::{
    Callback, ComponentId, ElectionError, LeaderContender, LeaderElectionOptions,
    LeaderElectionService, Leadership,
};
use lockkeeper_fencing::guard::{
    Creation, EpochGuard, FileGuardStore, GuardError, GuardStore, Guarded, ManifestId, read_newest,
};
use rustix::process::{Pid, Signal, kill_process};

const PLACE: &str = "LOCKKEEPER_TEST_STOPPED";
/// Waited for once a stop; a leader has to keep it until it is stopped, however busy the machine is.
const SESSION: Duration = Duration::from_secs(5);
/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(120);
/// No access is the one to stop before.
const NEVER: usize = usize::MAX;

/// Where an election and a guarded series are.
#[derive(Clone)]
pub(crate) struct Place {
    /// `file`, `zookeeper` or `etcd`.
    pub(crate) driver: &'static str,
    /// The server's address; empty for files.
    pub(crate) address: String,
    /// The folder, or what nodes and keys begin with.
    pub(crate) root: String,
}

impl Place {
    fn to_text(&self) -> String {
        format!("{}|{}|{}", self.driver, self.address, self.root)
    }

    fn store(&self) -> Box<dyn GuardStore> {
        let root = format!("{}/series", self.root);
        match self.driver {
            "file" => Box::new(FileGuardStore::open(root).unwrap()),
            #[cfg(feature = "zookeeper")]
            "zookeeper" => {
                use lockkeeper_fencing::guard::ZooKeeperGuardStore;
                Box::new(ZooKeeperGuardStore::new(&self.address, root).unwrap())
            }
            #[cfg(feature = "etcd")]
            "etcd" => {
                use lockkeeper_fencing::guard::EtcdGuardStore;
                let server = format!("http://{}", self.address);
                Box::new(EtcdGuardStore::new([server], format!("{root}/")).unwrap())
            }
            other => panic!("no driver {other}"),
        }
    }

    fn elections(&self) -> LeaderElectionService {
        let options = LeaderElectionOptions::default();
        let root = format!("{}/election", self.root);
        match self.driver {
            "file" => {
                let leases = LeaseFiles::new(root).with_session(SESSION);
                LeaderElectionService::start(leases, options)
            }
            #[cfg(feature = "zookeeper")]
            "zookeeper" => {
                use lockkeeper_fencing::driver::ZooKeeper;
                let ensemble = ZooKeeper::new(&self.address, root).unwrap();
                LeaderElectionService::start(ensemble.with_session(SESSION), options)
            }
            #[cfg(feature = "etcd")]
            "etcd" => {
                use lockkeeper_fencing::driver::Etcd;
                let cluster = Etcd::new([format!("http://{}", self.address)], root);
                LeaderElectionService::start(cluster.with_session(SESSION), options)
            }
            other => panic!("no driver {other}"),
        }
        .unwrap()
    }
}

/// What the parent orders, line by line.
type Orders = Arc<Mutex<Receiver<String>>>;

/// A failpoint: right before one access to the store it waits for its parent, who stops the process
/// there. (A signal that it sent to itself could come a moment later.)
#[derive(Debug)]
struct Stopping {
    inner: Box<dyn GuardStore>,
    before: Arc<AtomicUsize>,
    orders: Orders,
}

impl Stopping {
    fn pass(&self) {
        let left = self.before.load(Ordering::SeqCst);
        if left == NEVER {
            return;
        }
        self.before
            .store(left.checked_sub(1).unwrap_or(NEVER), Ordering::SeqCst);
        if left == 0 {
            tell("stopping");
            let order = self.orders.lock().unwrap().recv().unwrap();
            assert_eq!(order, "go on");
        }
    }
}

impl GuardStore for Stopping {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        self.pass();
        self.inner.create_if_absent(name, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        self.pass();
        self.inner.list(prefix)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        self.inner.read(name)
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        self.inner.remove(name)
    }
}

struct Teller(Arc<Mutex<Option<Leadership>>>);

impl LeaderContender for Teller {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        *self.0.lock().unwrap() = Some(leadership);
        tell("granted");
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> Callback {
        Box::pin(async {})
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        eprintln!("{error}");
        Box::pin(async {})
    }
}

fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{what}").unwrap();
    out.flush().unwrap();
}

/// Not a test by itself: what the children run. Without its environment it does nothing.
#[tokio::test]
async fn child() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let parts: Vec<&str> = place.split('|').collect();
    let driver = ["file", "zookeeper", "etcd"];
    let place = Place {
        driver: driver.into_iter().find(|name| *name == parts[0]).unwrap(),
        address: parts[1].to_owned(),
        root: parts[2].to_owned(),
    };
    let (sender, orders) = channel();
    std::thread::spawn(move || {
        for order in std::io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(order);
        }
    });
    let orders = Arc::new(Mutex::new(orders));
    let last = Arc::new(Mutex::new(None));
    let before = Arc::new(AtomicUsize::new(NEVER));
    let store: Arc<dyn GuardStore> = Arc::new(Stopping {
        inner: place.store(),
        before: before.clone(),
        orders: orders.clone(),
    });
    let service = place.elections();
    let election = service.election(ComponentId::new("child").unwrap());
    election.start(Teller(last.clone())).await.unwrap();
    let mut guard = None;
    loop {
        let Ok(order) = orders.lock().unwrap().recv() else {
            break;
        };
        let leadership = last.lock().unwrap().clone().unwrap();
        match order.split_once(' ') {
            None if order == "enter" => {
                let entered = EpochGuard::enter_with(store.clone(), &leadership.token).unwrap();
                let mut entered = entered.done().unwrap();
                // What has refused the former leader until now is gone.
                assert!(entered.prune().unwrap().is_done());
                guard = Some(entered);
                tell("entered");
            }
            // The acting code: check, then write. It is stopped before so many accesses of the write.
            Some(("act", stop)) => {
                if leadership.deadline.check().is_err() {
                    tell("refused");
                    continue;
                }
                before.store(stop.parse().unwrap_or(NEVER), Ordering::SeqCst);
                let guard: &mut EpochGuard = guard.as_mut().unwrap();
                let sequence = guard.newest().map_or(0, |newest| newest.sequence) + 1;
                let text = sequence.to_string();
                match guard.publish(sequence, text.as_bytes()) {
                    Ok(Guarded::Done(manifest)) => tell(&format!("acted {manifest}")),
                    Ok(Guarded::SteppedDown { .. }) => tell("stepped down"),
                    Err(error) => tell(&format!("failed {error}")),
                }
            }
            _ => break,
        }
    }
    service.close().await;
}

pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
    told: Receiver<String>,
}

impl Process {
    fn start(place: &Place) -> Self {
        Process::start_within(place, None)
    }

    /// A process in that network namespace.
    pub(crate) fn start_within(place: &Place, namespace: Option<&str>) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = match namespace {
            Some(namespace) => {
                let mut within = Command::new("ip");
                within.args(["netns", "exec", namespace]).arg(program);
                within
            }
            None => Command::new(program),
        };
        let mut child = command
            .args(["--exact", "stopped::child", "--nocapture"])
            .env(PLACE, place.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, told) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test harness may have begun the line.
                if let Some((_, line)) = line.split_once('@') {
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        let orders = child.stdin.take().unwrap();
        Process {
            child,
            orders,
            told,
        }
    }

    /// A process that leads and has entered the series.
    fn leading(place: &Place) -> Self {
        let mut process = Process::start(place);
        process.expect("granted");
        process.enter();
        process
    }

    pub(crate) fn enter(&mut self) {
        self.order("enter");
        self.expect("entered");
    }

    pub(crate) fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    fn told(&self) -> String {
        self.told.recv_timeout(LIMIT).unwrap()
    }

    pub(crate) fn expect(&self, expected: &str) {
        assert_eq!(self.told(), expected);
    }

    pub(crate) fn acted(&mut self) -> ManifestId {
        self.order("act never");
        let told = self.told();
        let manifest = told
            .strip_prefix("acted ")
            .unwrap_or_else(|| panic!("{told}"));
        let (sequence, epoch) = manifest.split_once('.').unwrap();
        let (sequence, epoch) = (sequence.parse().unwrap(), epoch.parse().unwrap());
        ManifestId { sequence, epoch }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What is told about its last order; grants may be told meanwhile.
    pub(crate) fn verdict(&self) -> String {
        loop {
            let told = self.told();
            if told != "granted" {
                return told;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stopped before the check: the first thing it does when it goes on is the effect.
pub(crate) fn stopped_before_the_check(place: &Place) {
    let mut old = Process::leading(place);
    let first = old.acted();
    let mut new = Process::start(place);
    old.signal(Signal::STOP);
    new.expect("granted");
    old.order("act never");
    old.signal(Signal::CONT);
    let verdict = old.verdict();
    assert_eq!(verdict, "refused");
    new.enter();
    continues(place, &mut new, first);
}

/// Stopped before that access of the write, after the check has said yes. The new leader acts
/// before the old one goes on.
pub(crate) fn stopped_between_check_and_write(place: &Place) {
    const BEFORE_THE_CREATION: usize = 0;
    const BEFORE_THE_SECOND_LOOK: usize = 1;
    for stop in [BEFORE_THE_CREATION, BEFORE_THE_SECOND_LOOK] {
        let place = Place {
            root: format!("{}/{stop}", place.root),
            ..place.clone()
        };
        let mut old = Process::leading(&place);
        let first = old.acted();
        old.order(&format!("act {stop}"));
        old.expect("stopping");
        old.signal(Signal::STOP);
        let mut new = Process::leading(&place);
        let second = new.acted();
        assert!(second.epoch > first.epoch);
        let before = read_newest(place.store().as_ref()).unwrap();
        old.signal(Signal::CONT);
        old.order("go on");
        let verdict = old.verdict();
        // A store's own session may be over too: then the outcome is unknown, and it ends as well.
        let ended = verdict == "stepped down" || verdict.starts_with("failed ");
        assert!(ended, "stopped before access {stop}: {verdict}");
        let after = read_newest(place.store().as_ref()).unwrap();
        assert_eq!(before, after, "an effect of the old leader took hold");
        assert_eq!(after.unwrap().0, second);
        continues(&place, &mut new, second);
    }
}

/// The new leader goes on with the history.
fn continues(place: &Place, new: &mut Process, after: ManifestId) {
    let next = new.acted();
    assert!(next.sequence > after.sequence);
    let (newest, _) = read_newest(place.store().as_ref()).unwrap().unwrap();
    assert_eq!(newest, next);
}

fn files(folder: &tempfile::TempDir) -> Place {
    Place {
        driver: "file",
        address: String::new(),
        root: folder.path().to_str().unwrap().to_owned(),
    }
}

#[test]
fn a_leader_on_lease_files_that_was_stopped_before_the_check_refuses() {
    let folder = tempfile::tempdir().unwrap();
    stopped_before_the_check(&files(&folder));
}

#[test]
fn a_leader_on_lease_files_that_was_stopped_in_a_write_has_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    stopped_between_check_and_write(&files(&folder));
}
