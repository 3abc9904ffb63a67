//! This test binary, started again as a process that can be killed and stopped.
//!
//! A test that is meant to be such a process is `#[ignore]`d, and does nothing without a [`task`].

use std::io::{BufRead, BufReader};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lockkeeper_consistent_region::point::{Hook, Point};
use nix::sys::signal::raise;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::place::LIMIT;

/// What a started process is to do, as JSON.
const VARIABLE: &str = "LOCKKEEPER_REGION_TEST_TASK";
const SAYS: &str = "says: ";

/// What this process was started for; `None` in the test run itself. It ends when the one who
/// started it does.
pub(crate) fn task<T: DeserializeOwned>() -> Option<T> {
    let task = std::env::var(VARIABLE).ok()?;
    std::thread::spawn(|| {
        // Who started this process holds the other end, and writes nothing.
        let _ = std::io::stdin().lock().lines().next();
        kill_myself();
        // The first process of a namespace can't be killed from within.
        process::abort();
    });
    Some(serde_json::from_str(&task).unwrap())
}

pub(crate) fn kill_myself() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Stops this process; the calling thread goes no step further. A signal to the process might be
/// taken by another thread, and this one would go on for a moment.
pub(crate) fn stop_myself() {
    raise(nix::sys::signal::Signal::SIGSTOP).unwrap();
}

/// Kills this process when it comes to `point` for the `times`th time since it has handed on tuples; in a
/// reset, which comes before that, at once.
pub(crate) fn dies_at(point: Point, times: u32) -> Hook {
    let emitted = AtomicBool::new(point == Point::DuringReset);
    let left = AtomicU32::new(times);
    Hook::new(move |reached| {
        emitted.fetch_or(reached == Point::Emitting, Ordering::SeqCst);
        if reached == point
            && emitted.load(Ordering::SeqCst)
            && left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            kill_myself();
        }
    })
}

/// For who started this process.
pub(crate) fn say(what: &str) {
    // The harness leaves its own line open.
    println!("\n{SAYS}{what}");
}

/// Starts `test`, the full name of an ignored test of this binary, with that task. It needs a pipe
/// for its standard input.
pub(crate) fn command(test: &str, task: &impl Serialize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture"]);
    command.env(VARIABLE, serde_json::to_string(task).unwrap());
    command
}

/// A started process; it is ended with this.
pub(crate) struct Child {
    child: process::Child,
    said: mpsc::UnboundedReceiver<String>,
}

impl Child {
    /// `test` is the full name of an ignored test of this binary.
    pub(crate) fn start(test: &str, task: &impl Serialize) -> Self {
        Self::spawn(command(test, task))
    }

    /// Starts what [`command`] gave, however it was wrapped.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
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
        Self { child, said }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until it says that.
    pub(crate) async fn says(&mut self, what: &str) {
        let said = async {
            while let Some(said) = self.said.recv().await {
                if said == what {
                    return true;
                }
            }
            false
        };
        let said = timeout(LIMIT, said).await;
        assert_eq!(said, Ok(true), "the process did not say {what:?}");
    }

    /// Waits until a signal has stopped it.
    pub(crate) async fn stopped(&self) {
        let status = self.waited(WaitOptions::UNTRACED).await;
        assert!(status.stopped(), "{status:?}");
    }

    /// Waits until it was killed, and not ended in any other way.
    pub(crate) async fn killed(&mut self) {
        let status = self.waited(WaitOptions::empty()).await;
        assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()));
    }

    async fn waited(&self, options: WaitOptions) -> rustix::process::WaitStatus {
        let pid = self.pid();
        let waiting = spawn_blocking(move || waitpid(Some(pid), options));
        let waited = timeout(LIMIT, waiting)
            .await
            .expect("it did not come to its point");
        let (_, status) = waited.unwrap().unwrap().unwrap();
        status
    }

    /// Stops it from outside, wherever it is.
    pub(crate) async fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        self.stopped().await;
    }

    /// Goes on after it was stopped.
    pub(crate) fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
