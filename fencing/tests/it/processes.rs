//! Elections between real processes: killed, and stopped beyond their lease.
//!
//! The test binary starts itself again as the child; what a child tells its parent begins with `@`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockkeeper_fencing::driver::LeaseFiles;
use lockkeeper_fencing::election::{
    Callback, ComponentId, ElectionError, LeaderContender, LeaderElectionOptions,
    LeaderElectionService, Leadership,
};
use rustix::process::{Pid, Signal, kill_process};

const FOLDER: &str = "LOCKKEEPER_TEST_LEASE_FOLDER";
const SESSION_MS: &str = "LOCKKEEPER_TEST_LEASE_SESSION_MS";
/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(120);

/// Tells its parent what it is told, and keeps the last leadership for the acting code.
struct Teller {
    last: Arc<Mutex<Option<Leadership>>>,
}

impl LeaderContender for Teller {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let epoch = leadership.token.epoch;
        *self.last.lock().unwrap() = Some(leadership);
        tell(&format!("granted {epoch}"));
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> Callback {
        tell("revoked");
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
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let session = std::env::var(SESSION_MS).unwrap().parse().unwrap();
    let leases = LeaseFiles::new(folder).with_session(Duration::from_millis(session));
    let service = LeaderElectionService::start(leases, LeaderElectionOptions::default()).unwrap();
    let election = service.election(ComponentId::new("child").unwrap());
    let last = Arc::new(Mutex::new(None));
    election.start(Teller { last: last.clone() }).await.unwrap();
    // The acting code: the clock is read right before the effect, whatever was told before.
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "act" => {
                let last: Leadership = last.lock().unwrap().clone().unwrap();
                let verdict = if last.deadline.check().is_ok() {
                    "acted"
                } else {
                    "refused"
                };
                tell(&format!("{verdict} {}", last.token.epoch));
            }
            _ => break,
        }
    }
    service.close().await;
}

struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    told: Receiver<String>,
}

impl Process {
    fn start(folder: &Path, session: Duration) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--nocapture"])
            .env(FOLDER, folder)
            .env(SESSION_MS, session.as_millis().to_string())
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
        let orders = child.stdin.take();
        Process {
            child,
            orders,
            told,
        }
    }

    fn told(&self) -> String {
        self.told.recv_timeout(LIMIT).unwrap()
    }

    fn granted(&self) -> u64 {
        let told = self.told();
        let epoch = told
            .strip_prefix("granted ")
            .unwrap_or_else(|| panic!("told was {told:?}"));
        epoch.parse().unwrap()
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn after_kill_9_the_next_one_leads_long_before_the_lease_expires() {
    let folder = tempfile::tempdir().unwrap();
    let session = Duration::from_secs(60);
    let mut leader = Process::start(folder.path(), session);
    let first = leader.granted();
    let standby = Process::start(folder.path(), session);
    // The standby contends once its alive file is there.
    let began = Instant::now();
    let alive = || {
        let names = std::fs::read_dir(folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("alive-")).count()
    };
    while alive() < 2 {
        assert!(began.elapsed() < LIMIT, "the standby did not begin");
        std::thread::yield_now();
    }
    leader.child.kill().unwrap();
    let killed = Instant::now();
    assert!(standby.granted() > first);
    let elapsed = killed.elapsed();
    println!("fail-over after kill -9: {elapsed:?}");
    assert!(
        elapsed < session / 4,
        "the lease's expiry was waited for: {elapsed:?}"
    );
}

#[test]
fn a_leader_that_was_stopped_beyond_its_lease_refuses_its_own_effect() {
    let folder = tempfile::tempdir().unwrap();
    // The first one has to lead until it is stopped, however busy the machine is.
    let session = Duration::from_secs(5);
    let mut old = Process::start(folder.path(), session);
    let first = old.granted();
    old.order("act");
    assert_eq!(old.told(), format!("acted {first}"));
    let mut new = Process::start(folder.path(), session);
    old.signal(Signal::STOP);
    let second = new.granted();
    assert!(second > first);
    // The first thing it does after it goes on is the effect.
    old.order("act");
    old.signal(Signal::CONT);
    let mut told = [old.told(), old.told()];
    told.sort();
    assert_eq!(told, [format!("refused {first}"), "revoked".to_owned()]);
    new.order("act");
    assert_eq!(new.told(), format!("acted {second}"));
}

#[test]
fn a_leader_that_leaves_is_followed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let session = Duration::from_secs(60);
    let mut leader = Process::start(folder.path(), session);
    let first = leader.granted();
    let standby = Process::start(folder.path(), session);
    leader.order("leave");
    assert_eq!(leader.told(), "revoked");
    assert!(standby.granted() > first);
}
