//! The processes of the job: started, killed, stopped, started again, and heard.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use anyhow::Context;
use lockkeeper_examples::orders::cluster::{NodeName, Role};
use lockkeeper_examples::orders::job::CANAL_PASSWORD_VARIABLE;
use lockkeeper_examples::orders::report::Report;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc::UnboundedSender;

use super::network::Network;

/// Workers of the job; coordinators are two.
pub(crate) const WORKERS: u16 = 3;

/// Processes that are never killed, so that a leak shows over the whole run. They are stopped and
/// cut off like the others.
pub(crate) fn is_witness(node: &NodeName) -> bool {
    match node.role {
        Role::Worker => node.number == WORKERS - 1,
        _ => node.number == 1,
    }
}

/// All nodes of the job.
pub(crate) fn all_nodes() -> Vec<NodeName> {
    let of = |role, count| (0..count).map(move |number| NodeName { role, number });
    of(Role::Coordinator, 2)
        .chain(of(Role::Worker, WORKERS))
        .collect()
}

/// The other coordinator.
pub(crate) fn other_coordinator(node: &NodeName) -> NodeName {
    NodeName {
        role: Role::Coordinator,
        number: 1 - node.number.min(1),
    }
}

/// What nodes tell.
#[derive(Debug)]
pub(crate) enum Told {
    /// A line of one life of a node.
    Report(NodeName, u32, Report),
    /// That life is over.
    Ended(NodeName, io::Result<ExitStatus>),
}

#[derive(Debug)]
struct Process {
    pid: Pid,
    /// It lives as long as this: the end of its input is its end.
    _stdin: ChildStdin,
}

/// The nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    program: PathBuf,
    data: PathBuf,
    logs: PathBuf,
    canal_password: String,
    network: Network,
    tell: UnboundedSender<Told>,
    running: BTreeMap<String, Process>,
    lives: BTreeMap<String, u32>,
}

impl Nodes {
    pub(crate) fn new(
        data: PathBuf,
        logs: PathBuf,
        canal_password: String,
        network: Network,
        tell: UnboundedSender<Told>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?.with_file_name("orders"),
            data,
            logs,
            canal_password,
            network,
            tell,
            running: BTreeMap::new(),
            lives: BTreeMap::new(),
        })
    }

    /// Starts a node, for the first time or again.
    pub(crate) fn start(&mut self, node: &NodeName) -> anyhow::Result<()> {
        let name = node.to_string();
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.logs.join(format!("{name}.log")))?;
        let role = name.split('-').next().unwrap_or_default();
        let mut command = self.network.command(node, &self.program);
        command
            .args(["node", "--role", role])
            .args(["--number", &node.number.to_string()])
            .args(["--host", &self.network.node(node).to_string()])
            .arg("--data")
            .arg(&self.data)
            .arg("--report-tenure")
            .env(CANAL_PASSWORD_VARIABLE, &self.canal_password)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let stdin = child.stdin.take().context("a child without input")?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.context("a child without a process id")?;
        let life = self.lives.entry(name.clone()).or_insert(0);
        *life += 1;
        self.running.insert(name, Process { pid, _stdin: stdin });
        tokio::spawn(listen(node.clone(), *life, child, self.tell.clone()));
        Ok(())
    }

    /// Signals a node that runs; gives its process id.
    pub(crate) fn signal(&self, node: &NodeName, signal: Signal) -> Option<Pid> {
        let pid = self.running.get(&node.to_string())?.pid;
        // it may have ended just now
        kill_process(pid, signal).ok().map(|()| pid)
    }

    /// Signals a process, if it is still that node's.
    pub(crate) fn signal_process(&self, node: &NodeName, pid: Pid, signal: Signal) {
        let process = self.running.get(&node.to_string());
        if process.is_some_and(|process| process.pid == pid) {
            let _ = kill_process(pid, signal);
        }
    }

    /// A life is over: its process id is nobody's any more.
    pub(crate) fn forget(&mut self, node: &NodeName) {
        self.running.remove(&node.to_string());
    }

    /// Whether it runs, or is stopped.
    pub(crate) fn is_running(&self, node: &NodeName) -> bool {
        self.running.contains_key(&node.to_string())
    }

    /// The running ones.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (&str, Pid)> {
        let running = self.running.iter();
        running.map(|(name, process)| (name.as_str(), process.pid))
    }
}

/// Passes a process's reports on until it ends.
async fn listen(node: NodeName, life: u32, mut child: Child, tell: UnboundedSender<Told>) {
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(report) => {
                    let _ = tell.send(Told::Report(node.clone(), life, report));
                }
                // the last line of one that was killed may be half of one
                Err(error) => eprintln!("chaos: {node} told {line:?}: {error}"),
            }
        }
    }
    let status = child.wait().await;
    let _ = tell.send(Told::Ended(node, status));
}

/// Whether a process was ended by SIGKILL.
pub(crate) fn was_killed(status: &io::Result<ExitStatus>) -> bool {
    let status = status.as_ref();
    status.is_ok_and(|status| status.signal() == Some(9))
}
