//! Worker processes as children of this one.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::spawner::{ProcessEnd, ProcessSpawner, SpawnError};

/// Starts worker processes as children of this process.
///
/// A child is waited for as soon as it ends, so that none stays a zombie, and is killed when this
/// is dropped. Against an end of this process in which nothing is dropped (SIGKILL), the child has
/// to call [`end_with_parent`](super::end_with_parent): this process holds the other end of its
/// standard input. Needs a tokio runtime; Unix only.
pub struct LocalProcesses {
    command: CommandOf,
    pipes: Option<TakePipes>,
    grace: Duration,
    processes: Mutex<HashMap<String, Process>>,
}

type CommandOf = Box<dyn Fn(&str) -> Command + Send + Sync>;
type TakePipes = Box<dyn Fn(&str, Pipes) + Send + Sync>;

/// The ends of a started process's pipes that this process holds: those that its command made
/// pipes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Pipes {
    /// What is written here the process reads. Always there; a process that has called
    /// [`end_with_parent`](super::end_with_parent) ends when it is dropped.
    pub stdin: Option<ChildStdin>,
    /// What the process prints. Has to be read: a full pipe stops the process.
    pub stdout: Option<ChildStdout>,
    /// What the process prints to standard error; the same.
    pub stderr: Option<ChildStderr>,
}

struct Process {
    pid: u32,
    stop: watch::Sender<bool>,
    end: watch::Receiver<Option<ProcessEnd>>,
    /// Owns the child: it is killed with it.
    keeper: AbortHandle,
}

impl LocalProcesses {
    /// `command` gives what is started for a worker: its program, arguments and environment, and
    /// where its output goes. Its standard input becomes a pipe.
    pub fn new(command: impl Fn(&str) -> Command + Send + Sync + 'static) -> Self {
        Self {
            command: Box::new(command),
            pipes: None,
            grace: Duration::from_secs(20),
            processes: Mutex::new(HashMap::new()),
        }
    }

    /// Hands the pipes of each started process to `take`, which keeps them. Without it they are
    /// held until the process has ended.
    #[must_use]
    pub fn with_pipes(mut self, take: impl Fn(&str, Pipes) + Send + Sync + 'static) -> Self {
        self.pipes = Some(Box::new(take));
        self
    }

    /// How long a process may take to end after SIGTERM, before SIGKILL. Default 20 s.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The id of a worker's process while it runs.
    #[must_use]
    pub fn process_id(&self, worker: &str) -> Option<u32> {
        let processes = self.processes();
        let process = processes.get(worker)?;
        process.end.borrow().is_none().then_some(process.pid)
    }

    fn spawn(&self, worker: &str) -> Result<(), SpawnError> {
        let not_started = |reason: String| SpawnError::NotStarted {
            worker: worker.to_owned(),
            reason,
        };
        let mut processes = self.processes();
        if let Some(process) = processes.get(worker)
            && process.end.borrow().is_none()
        {
            let worker = worker.to_owned();
            return Err(SpawnError::Runs { worker });
        }
        let mut command = tokio::process::Command::from((self.command)(worker));
        command.stdin(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| not_started(e.to_string()))?;
        let pid = child
            .id()
            .ok_or_else(|| not_started("it has no process id".to_owned()))?;
        let pipes = Pipes {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        let held = match &self.pipes {
            Some(take) => {
                take(worker, pipes);
                None
            }
            None => Some(pipes),
        };
        let (stop, stopping) = watch::channel(false);
        let (ended, end) = watch::channel(None);
        let grace = self.grace;
        let keeper = tokio::spawn(async move {
            let end = keep(child, stopping, grace).await;
            drop(held);
            ended.send_replace(Some(end));
        });
        let process = Process {
            pid,
            stop,
            end,
            keeper: keeper.abort_handle(),
        };
        processes.insert(worker.to_owned(), process);
        Ok(())
    }

    fn processes(&self) -> MutexGuard<'_, HashMap<String, Process>> {
        // Nothing in here can panic half-way through a change.
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn end_of(&self, worker: &str) -> Option<watch::Receiver<Option<ProcessEnd>>> {
        self.processes().get(worker).map(|found| found.end.clone())
    }
}

/// Waits for the end of the child, and brings it about when that is wanted.
async fn keep(
    mut child: Child,
    mut stopping: watch::Receiver<bool>,
    grace: Duration,
) -> ProcessEnd {
    let stopped = async {
        if stopping.wait_for(|stop| *stop).await.is_err() {
            // Nobody is left who could stop it.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        status = child.wait() => return end_of(status),
        () = stopped => {}
    }
    // It was not waited for yet: nobody else can have its id.
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let Some(pid) = pid {
        // It may have ended just now.
        let _ = kill_process(pid, Signal::TERM);
    }
    match timeout(grace, child.wait()).await {
        Ok(status) => end_of(status),
        Err(_) => {
            tracing::warn!(
                ?pid,
                ?grace,
                "a process did not end by SIGTERM: it is killed"
            );
            let _ = child.start_kill();
            end_of(child.wait().await)
        }
    }
}

fn end_of(status: std::io::Result<ExitStatus>) -> ProcessEnd {
    let Ok(status) = status else {
        return ProcessEnd::Unknown;
    };
    let signaled = || status.signal().map(ProcessEnd::Signaled);
    let exited = status.code().map(ProcessEnd::Exited);
    exited.or_else(signaled).unwrap_or(ProcessEnd::Unknown)
}

impl ProcessSpawner for LocalProcesses {
    fn start<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), SpawnError>> {
        Box::pin(async move { self.spawn(worker) })
    }

    fn stop<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), SpawnError>> {
        Box::pin(async move {
            if let Some(process) = self.processes().get(worker) {
                process.stop.send_replace(true);
            }
            self.ended(worker).await.map(|_| ())
        })
    }

    fn is_alive<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<bool, SpawnError>> {
        Box::pin(async move { Ok(self.process_id(worker).is_some()) })
    }

    fn ended<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<ProcessEnd, SpawnError>> {
        Box::pin(async move {
            let Some(mut end) = self.end_of(worker) else {
                return Ok(ProcessEnd::Unknown);
            };
            let ended = end.wait_for(Option::is_some).await;
            Ok(ended
                .ok()
                .and_then(|end| *end)
                .unwrap_or(ProcessEnd::Unknown))
        })
    }
}

impl Drop for LocalProcesses {
    fn drop(&mut self) {
        for process in self.processes().values() {
            process.keeper.abort();
        }
    }
}

impl fmt::Debug for LocalProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = self.processes();
        let running: Vec<_> = processes
            .iter()
            .filter(|(_, process)| process.end.borrow().is_none())
            .map(|(worker, process)| (worker, process.pid))
            .collect();
        f.debug_struct("LocalProcesses")
            .field("running", &running)
            .finish_non_exhaustive()
    }
}

impl From<LocalProcesses> for Arc<dyn ProcessSpawner> {
    fn from(processes: LocalProcesses) -> Self {
        Arc::new(processes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::ProcessIdentity;
    use super::*;

    /// Against a hang only.
    const LIMIT: Duration = Duration::from_secs(60);

    fn sleeper(_: &str) -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    async fn end(processes: &LocalProcesses) -> ProcessEnd {
        let ended = timeout(LIMIT, processes.ended("w")).await;
        ended.expect("the process does not end").unwrap()
    }

    fn is_known(pid: u32) -> bool {
        std::path::Path::new(&format!("/proc/{pid}")).exists()
    }

    #[actix_rt::test]
    async fn a_started_process_is_told_alive_until_it_ends_and_how_and_leaves_no_zombie() {
        let processes = LocalProcesses::new(sleeper);
        assert_eq!(processes.is_alive("w").await, Ok(false));
        processes.start("w").await.unwrap();
        assert_eq!(processes.is_alive("w").await, Ok(true));
        let runs = processes.start("w").await;
        assert!(matches!(runs, Err(SpawnError::Runs { worker }) if worker == "w"));
        let pid = processes.process_id("w").unwrap();
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        assert_eq!(end(&processes).await, ProcessEnd::Signaled(9));
        assert_eq!(processes.is_alive("w").await, Ok(false));
        assert!(!is_known(pid), "a zombie is left");
        processes.start("w").await.unwrap();
        assert_ne!(processes.process_id("w").unwrap(), pid);
        processes.stop("w").await.unwrap();
        assert_eq!(end(&processes).await, ProcessEnd::Signaled(15));
    }

    #[actix_rt::test]
    async fn what_does_not_end_in_time_is_killed() {
        let stubborn = |_: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]);
            command.stdout(Stdio::piped());
            command
        };
        let (sender, mut ready) = tokio::sync::mpsc::channel(1);
        let processes = LocalProcesses::new(stubborn)
            .with_grace(Duration::from_millis(50))
            .with_pipes(move |_, pipes| {
                let _ = sender.try_send(pipes);
            });
        processes.start("w").await.unwrap();
        let mut pipes = ready.recv().await.unwrap();
        let mut said = [0; 5];
        let stdout = pipes.stdout.as_mut().unwrap();
        tokio::io::AsyncReadExt::read_exact(stdout, &mut said)
            .await
            .unwrap();
        processes.stop("w").await.unwrap();
        assert_eq!(end(&processes).await, ProcessEnd::Signaled(9));
    }

    #[actix_rt::test]
    async fn what_can_not_be_started_is_named() {
        let processes = LocalProcesses::new(|_| Command::new("/no/such/program"));
        let error = processes.start("w").await.unwrap_err();
        assert!(matches!(&error, SpawnError::NotStarted { worker, .. } if worker == "w"));
        assert_eq!(end(&processes).await, ProcessEnd::Unknown);
    }

    #[actix_rt::test]
    async fn processes_end_with_who_started_them() {
        let processes = LocalProcesses::new(sleeper);
        processes.start("w").await.unwrap();
        let pid = processes.process_id("w").unwrap();
        let identity = ProcessIdentity::of(pid).unwrap();
        drop(processes);
        let gone = async {
            while !identity.is_gone() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LIMIT, gone).await.expect("it lives on");
    }
}
