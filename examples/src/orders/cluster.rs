//! Starts the processes of the cluster, reads their reports, kills them by plan, starts them again.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::armed::{Arm, Order};
use super::chaos::Kill;
use super::outcome::Measured;
use super::overview::{Overview, Wish};
use super::report::Report;
use crate::signals::Signals;

/// A process of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeName {
    /// Coordinator or worker.
    pub role: Role,
    /// 0, 1, …
    pub number: u16,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Role {
    /// Contends for leadership and drives the region.
    Coordinator,
    /// Runs operators.
    Worker,
    /// Everything in one process.
    Alone,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
            Self::Alone => "alone",
        }
    }
}

impl std::fmt::Display for NodeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.role.name(), self.number)
    }
}

/// Without progress for so long the run is given up.
const STUCK_AFTER: Duration = Duration::from_secs(120);
/// How long a process is stopped: beyond every lease of the job.
const STOP_FOR: Duration = Duration::from_secs(6);
/// How often a process may end by itself before the run is given up.
const MOST_CRASHES: u32 = 20;
/// How long a final cut that a signal or an operator wants may take: less than what systemd and
/// Kubernetes give a program that is to end.
const FINAL_CUT: Duration = Duration::from_secs(50);
/// How long the processes may take to close their endpoints.
const CLOSING: Duration = Duration::from_secs(5);

/// A process that runs.
struct Node {
    stdin: ChildStdin,
    pid: Option<Pid>,
}

enum Event {
    Report(NodeName, Report),
    Ended(NodeName, io::Result<ExitStatus>),
}

/// The running cluster.
pub struct Cluster {
    data: PathBuf,
    nodes: HashMap<NodeName, Node>,
    /// Ends every process when it is dropped: the tasks own the children.
    tasks: tokio::task::JoinSet<()>,
    events: mpsc::UnboundedReceiver<Event>,
    report_to: mpsc::UnboundedSender<Event>,
    plan: std::vec::IntoIter<Kill>,
    armed: Option<Kill>,
    kills: u64,
    crashes: u32,
    /// Since when a final cut is wanted.
    finishing: Option<tokio::time::Instant>,
    measured: Measured,
    overview: Option<Overview>,
    /// What the overview's processes are to be asked.
    wishes: mpsc::UnboundedReceiver<Wish>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("data", &self.data)
            .field("nodes", &self.nodes.keys())
            .field("armed", &self.armed)
            .finish_non_exhaustive()
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// With the region's last cut.
    Completed,
    /// The region failed, and why.
    Failed(String),
    /// With a final cut, because a signal or an operator asked for it: the job goes on when it is
    /// started again.
    Interrupted,
}

impl Cluster {
    /// Starts two coordinators and `workers` workers on the job in `data`; without workers one
    /// process that is both. With an overview they tell how they are.
    ///
    /// # Errors
    /// When a process can't be started.
    pub fn start(
        data: &Path,
        workers: u16,
        plan: Vec<Kill>,
        overview: Option<(Overview, mpsc::UnboundedReceiver<Wish>)>,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(data.join("kills"))?;
        let (overview, wishes) = match overview {
            Some((overview, wishes)) => (Some(overview), wishes),
            // nobody will ask
            None => (None, mpsc::unbounded_channel().1),
        };
        let (report_to, events) = mpsc::unbounded_channel();
        let mut cluster = Self {
            data: data.to_owned(),
            nodes: HashMap::new(),
            tasks: tokio::task::JoinSet::new(),
            events,
            report_to,
            plan: plan.into_iter(),
            armed: None,
            kills: 0,
            crashes: 0,
            finishing: None,
            measured: Measured::default(),
            overview,
            wishes,
        };
        let coordinators = if workers == 0 { 0 } else { 2 };
        let alone = u16::from(workers == 0);
        for (role, count) in [
            (Role::Coordinator, coordinators),
            (Role::Worker, workers),
            (Role::Alone, alone),
        ] {
            for number in 0..count {
                cluster.spawn(NodeName { role, number })?;
            }
        }
        Ok(cluster)
    }

    fn spawn(&mut self, node: NodeName) -> anyhow::Result<()> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.data.join(format!("{node}.log")))?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("node")
            .arg("--data")
            .arg(&self.data)
            .arg("--role")
            .arg(node.role.name())
            .arg("--number")
            .arg(node.number.to_string())
            .args(self.overview.as_ref().map(|_| "--status"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {node}"))?;
        let stdin = child
            .stdin
            .take()
            .context("a child without standard input")?;
        if let Some(overview) = &self.overview {
            overview.started(&node.to_string(), child.id());
        }
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        self.nodes.insert(node.clone(), Node { stdin, pid });
        let report_to = self.report_to.clone();
        self.tasks.spawn(follow(node, child, report_to));
        Ok(())
    }

    /// Runs until the region has ended. Passes on what its processes report, and each second how
    /// far it is.
    ///
    /// # Errors
    /// When processes can't be started, end too often by themselves, nothing goes on any more, or a
    /// second signal asks for the end.
    pub async fn run(
        mut self,
        mut reported: impl FnMut(&Report),
        mut every_second: impl FnMut(&Measured),
    ) -> anyhow::Result<(End, Measured)> {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        let mut signals = Signals::take()?;
        let mut progress = ((0, 0), tokio::time::Instant::now());
        loop {
            tokio::select! {
                Some(event) = self.events.recv() => match event {
                    Event::Report(_, Report::Completed) if self.finishing.is_some() => {
                        return Ok(self.finish(End::Interrupted).await);
                    }
                    Event::Report(_, Report::Completed) => {
                        return Ok(self.finish(End::Completed).await);
                    }
                    Event::Report(_, Report::Failed { reason }) => {
                        return Ok(self.finish(End::Failed(reason)).await);
                    }
                    Event::Report(_, Report::StopAsked) => self.wind_down().await,
                    Event::Report(node, report) => {
                        reported(&report);
                        self.take(&node, &report);
                    }
                    Event::Ended(node, status) => self.restart(node, &status).await?,
                },
                Some(wish) = self.wishes.recv() => self.pass_on(&wish).await,
                () = signals.next() => self.signalled().await?,
                _ = second.tick() => {
                    every_second(&self.measured);
                    if self.finishing.is_some_and(|since| since.elapsed() > FINAL_CUT) {
                        bail!("there was no final cut within {FINAL_CUT:?}; the job goes on from its last cut");
                    }
                    let mark = (self.measured.processed(), self.measured.last_cut());
                    if mark != progress.0 {
                        progress = (mark, tokio::time::Instant::now());
                    }
                    if mark.0 > 0 && progress.1.elapsed() > STUCK_AFTER {
                        bail!(
                            "nothing was processed for {STUCK_AFTER:?}; the logs are in {}",
                            self.data.display()
                        );
                    }
                }
            }
            self.arm_next().await;
        }
    }

    /// Asks for a final cut; the second time gives up at once.
    async fn signalled(&mut self) -> anyhow::Result<()> {
        if self.finishing.is_some() {
            bail!("ended at once, by a second signal; the job goes on from its last cut");
        }
        self.wind_down().await;
        Ok(())
    }

    /// Asks for a final cut, whoever leads until it is there.
    async fn wind_down(&mut self) {
        self.finishing.get_or_insert_with(tokio::time::Instant::now);
        self.plan = Vec::new().into_iter();
        self.tell_all(&Order::Finish).await;
    }

    /// The region has ended, and its processes do; one that does not in time is killed.
    async fn finish(mut self, end: End) -> (End, Measured) {
        self.tell_all(&Order::End).await;
        let closing = async {
            while !self.nodes.is_empty() {
                if let Some(Event::Ended(node, _)) = self.events.recv().await {
                    self.nodes.remove(&node);
                }
            }
        };
        if tokio::time::timeout(CLOSING, closing).await.is_err() {
            tracing::warn!(nodes = ?self.nodes.keys(), "not closed in time, killed");
        }
        (end, self.measured)
    }

    fn take(&mut self, node: &NodeName, report: &Report) {
        if let Report::Kill { at, .. } = report
            && let Some(kill) = self.armed.take()
        {
            tracing::info!(%node, point = %kill.point, "killed");
            self.kills += 1;
            self.measured.killed(kill, *at);
        }
        if let Report::Stop { .. } = report
            && let Some(stop) = self.armed.take()
        {
            self.kills += 1;
            self.measured.stopped(stop.point);
            self.continue_later(node);
        }
        self.measured.take(report);
        if let Some(overview) = &self.overview {
            overview.take(&node.to_string(), report);
            overview.measure(&self.measured);
        }
    }

    /// Asks a process for what the overview was asked for.
    async fn pass_on(&mut self, wish: &Wish) {
        let order = serde_json::to_string(&Order::Act(wish.act.clone()));
        let mut nodes = self.nodes.iter_mut();
        let node = nodes.find(|(name, _)| name.to_string() == wish.process);
        let passed_on = match (order, node) {
            (Ok(order), Some((_, node))) => {
                let line = format!("{order}\n");
                node.stdin.write_all(line.as_bytes()).await.is_ok()
            }
            _ => false,
        };
        if let (false, Some(overview)) = (passed_on, &self.overview) {
            overview.refuse(wish);
        }
    }

    /// Continues a stopped process when its lease has been over for long.
    fn continue_later(&mut self, node: &NodeName) {
        let Some(pid) = self.nodes.get(node).and_then(|node| node.pid) else {
            return;
        };
        self.tasks.spawn(async move {
            tokio::time::sleep(STOP_FOR).await;
            // a process that was ended meanwhile needs nothing
            let _ = kill_process(pid, Signal::CONT);
        });
    }

    /// Sets the next kill, once the region has recovered from the last one.
    async fn arm_next(&mut self) {
        if self.armed.is_some() || self.measured.processed() == 0 {
            return;
        }
        let recovered = self.measured.has_recovered();
        let Some(next) = self.plan.as_slice().first().copied() else {
            return;
        };
        if !recovered && !next.needs_a_reset() {
            return;
        }
        self.plan.next();
        self.armed = Some(next);
        let order = Order::Arm(Arm {
            point: next.point.to_string(),
            times: next.times,
            stop: next.stop,
            token: self
                .data
                .join("kills")
                .join(format!("{}-{}", std::process::id(), self.kills)),
        });
        self.tell_all(&order).await;
    }

    async fn tell_all(&mut self, order: &Order) {
        for node in self.nodes.values_mut() {
            node.tell(order).await;
        }
    }

    async fn restart(
        &mut self,
        node: NodeName,
        status: &io::Result<ExitStatus>,
    ) -> anyhow::Result<()> {
        if let Some(overview) = &self.overview {
            overview.ended(&node.to_string(), status.as_ref().ok().copied());
        }
        use std::os::unix::process::ExitStatusExt;
        let killed = status
            .as_ref()
            .is_ok_and(|status| status.signal() == Some(9));
        if !killed {
            self.crashes += 1;
            tracing::error!(%node, ?status, "ended by itself");
            if self.crashes > MOST_CRASHES {
                bail!("{node} ended by itself, the last of {MOST_CRASHES} such ends; see its log");
            }
        }
        self.spawn(node.clone())?;
        // without it the final cut would not come: its instances have to be somewhere
        if self.finishing.is_some()
            && let Some(node) = self.nodes.get_mut(&node)
        {
            node.tell(&Order::Finish).await;
        }
        Ok(())
    }
}

impl Node {
    async fn tell(&mut self, order: &Order) {
        let Ok(mut line) = serde_json::to_string(order) else {
            return;
        };
        line.push('\n');
        // a process that has just ended is started again; others have the order
        let _ = self.stdin.write_all(line.as_bytes()).await;
    }
}

/// Passes a child's reports on until it ends.
async fn follow(node: NodeName, mut child: Child, report_to: mpsc::UnboundedSender<Event>) {
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(report) => {
                    let _ = report_to.send(Event::Report(node.clone(), report));
                }
                Err(error) => tracing::warn!(%node, %error, line, "no report"),
            }
        }
    }
    let status = child.wait().await;
    let _ = report_to.send(Event::Ended(node, status));
}
