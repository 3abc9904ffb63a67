//! Carries faults out: who is hit is decided when it happens, by who leads and who is well.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use lockkeeper_examples::orders::cluster::{NodeName, Role};
use rustix::process::{Pid, Signal};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::disk::Disk;
use super::network::{Network, Server, Way, both};
use super::nodes::{Nodes, all_nodes, is_witness, other_coordinator};
use super::schedule::{Fault, Kind};

/// How long a leader that must not be killed is stopped, so that the other one leads: the session at
/// ZooKeeper and what an election takes on top.
const DEPOSE: Duration = Duration::from_secs(8);

/// A fault that goes on.
#[derive(Debug)]
struct Active {
    kind: Option<Kind>,
    hits: Vec<NodeName>,
    what: What,
}

#[derive(Debug)]
enum What {
    Killed,
    Stopped(Pid),
    Cut(Vec<Way>),
    Restarting(&'static str),
    DiskFull,
}

/// How a fault began.
#[derive(Debug)]
pub(crate) enum Begun {
    /// Under this number, with this target; it is to be ended after that time, if it has one.
    Now(u64, String, Option<Duration>),
    /// Not yet: nobody is there to be hit, or the leader must be deposed first.
    Later(Option<(u64, String, Duration)>),
}

/// A fault that is over: who may be started again.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) kind: Option<Kind>,
    pub(crate) start: Vec<NodeName>,
}

/// The faults that go on.
#[derive(Debug)]
pub(crate) struct Faults {
    network: Network,
    pub(crate) disk: Option<Disk>,
    services: PathBuf,
    logs: PathBuf,
    active: BTreeMap<u64, Active>,
    next: u64,
    restarts: JoinSet<(u64, anyhow::Result<()>)>,
}

impl Faults {
    pub(crate) fn new(
        network: Network,
        disk: Option<Disk>,
        services: PathBuf,
        logs: PathBuf,
    ) -> Self {
        Self {
            network,
            disk,
            services,
            logs,
            active: BTreeMap::new(),
            next: 0,
            restarts: JoinSet::new(),
        }
    }

    /// Begins a fault.
    pub(crate) async fn begin(
        &mut self,
        fault: &Fault,
        nodes: &Nodes,
        leader: Option<&NodeName>,
    ) -> anyhow::Result<Begun> {
        let well = |node: &&NodeName| nodes.is_running(node) && !self.is_hit(node);
        let all = all_nodes();
        let workers: Vec<&NodeName> = all
            .iter()
            .filter(|node| node.role == Role::Worker)
            .filter(well)
            .collect();
        let mortal: Vec<&NodeName> = workers
            .iter()
            .copied()
            .filter(|node| !is_witness(node))
            .collect();
        let leader_well = leader.filter(well);
        let standby = leader.map(other_coordinator);
        let standby = standby.as_ref().filter(well);
        let lasts = fault.lasts;
        let kind = fault.kind;
        match kind {
            Kind::KillWorker => {
                let Some(node) = pick(&mortal, fault.pick) else {
                    return Ok(Begun::Later(None));
                };
                Ok(self.kill(kind, vec![node.clone()], nodes, lasts))
            }
            Kind::KillTwoWorkers if mortal.len() == 2 => {
                let both = mortal.into_iter().cloned().collect();
                Ok(self.kill(kind, both, nodes, lasts))
            }
            Kind::KillLeader => match leader_well.cloned() {
                Some(node) if is_witness(&node) => Ok(Begun::Later(self.depose(&node, nodes))),
                Some(node) => Ok(self.kill(kind, vec![node], nodes, lasts)),
                None => Ok(Begun::Later(None)),
            },
            Kind::KillStandby => match standby.cloned() {
                // it would be the leader's turn to be killed: not for a fault of the standby
                Some(node) if !is_witness(&node) => Ok(self.kill(kind, vec![node], nodes, lasts)),
                Some(_) => match leader_well.cloned() {
                    Some(node) => Ok(Begun::Later(self.depose(&node, nodes))),
                    None => Ok(Begun::Later(None)),
                },
                None => Ok(Begun::Later(None)),
            },
            Kind::PauseWorker | Kind::StopWorker => {
                let node = pick(&workers, fault.pick).cloned();
                Ok(self.stop(kind, node, nodes, lasts))
            }
            Kind::PauseLeader | Kind::StopLeader => {
                let node = leader_well.cloned();
                Ok(self.stop(kind, node, nodes, lasts))
            }
            Kind::StopStandby => {
                let node = standby.cloned();
                Ok(self.stop(kind, node, nodes, lasts))
            }
            Kind::IsolateWorker => match pick(&workers, fault.pick).cloned() {
                Some(node) => {
                    let ways = self.all_ways(&node);
                    self.cut(kind, vec![node], ways, lasts).await
                }
                None => Ok(Begun::Later(None)),
            },
            Kind::MuteWorker => match pick(&workers, fault.pick).cloned() {
                Some(node) => {
                    let from = self.network.node(&node);
                    let mut ways = self.all_ways(&node);
                    ways.retain(|way| way.0 == from);
                    self.cut(kind, vec![node], ways, lasts).await
                }
                None => Ok(Begun::Later(None)),
            },
            Kind::IsolateLeader => match leader_well.cloned() {
                Some(node) => {
                    let ways = self.all_ways(&node);
                    self.cut(kind, vec![node], ways, lasts).await
                }
                None => Ok(Begun::Later(None)),
            },
            Kind::CutLeaderFromZooKeeper => match leader_well.cloned() {
                Some(node) => {
                    let zookeeper = self.network.server(Server::ZooKeeper);
                    let ways = both(self.network.node(&node), zookeeper).to_vec();
                    self.cut(kind, vec![node], ways, lasts).await
                }
                None => Ok(Begun::Later(None)),
            },
            Kind::CutCanal if self.no_way_is_cut() => {
                let canal = self.network.server(Server::Canal);
                let all = all.iter().filter(|node| node.role == Role::Worker);
                let ways = all.flat_map(|node| both(self.network.node(node), canal));
                let ways = ways.collect();
                self.cut(kind, Vec::new(), ways, lasts).await
            }
            Kind::RestartCanal => Ok(self.restart(kind, "canal", fault.pick)),
            Kind::RestartZooKeeper => Ok(self.restart(kind, "zookeeper", fault.pick)),
            Kind::RestartRedis => Ok(self.restart(kind, "redis", fault.pick)),
            Kind::DiskFull if self.disk.as_ref().is_some_and(|disk| !disk.is_full()) => {
                let disk = self.disk.as_mut().context("a disk")?;
                disk.fill().await?;
                let number = self.add(Some(kind), Vec::new(), What::DiskFull);
                Ok(Begun::Now(
                    number,
                    "the job's folder".to_owned(),
                    Some(lasts),
                ))
            }
            Kind::KillTwoWorkers | Kind::CutCanal | Kind::DiskFull => Ok(Begun::Later(None)),
        }
    }

    /// Ends a fault; one that was ended before is `None`.
    pub(crate) async fn end(&mut self, number: u64, nodes: &Nodes) -> anyhow::Result<Option<Over>> {
        let Some(active) = self.active.remove(&number) else {
            return Ok(None);
        };
        let mut start = Vec::new();
        match active.what {
            What::Killed => start = active.hits,
            What::Stopped(pid) => {
                for node in &active.hits {
                    nodes.signal_process(node, pid, Signal::CONT);
                }
            }
            What::Cut(ways) => self.network.mend(&ways).await?,
            What::Restarting(_) => {}
            What::DiskFull => {
                if let Some(disk) = &mut self.disk {
                    disk.free().await?;
                }
            }
        }
        Ok(Some(Over {
            kind: active.kind,
            start,
        }))
    }

    /// The numbers of what goes on, but for servers that start: these end by themselves.
    pub(crate) fn to_be_ended(&self) -> Vec<u64> {
        let active = self.active.iter();
        active
            .filter(|(_, active)| !matches!(active.what, What::Restarting(_)))
            .map(|(number, _)| *number)
            .collect()
    }

    /// Whether a server is being started.
    pub(crate) fn restarting(&self) -> bool {
        !self.restarts.is_empty()
    }

    /// The number of a restart that is done.
    ///
    /// # Errors
    /// When the server can't be started: nothing that is judged here.
    pub(crate) async fn restarted(&mut self) -> anyhow::Result<Option<u64>> {
        match self.restarts.join_next().await {
            None => Ok(None),
            Some(joined) => {
                let (number, done) = joined?;
                done?;
                Ok(Some(number))
            }
        }
    }

    /// Whether a node is down on purpose.
    pub(crate) fn holds_down(&self, node: &NodeName) -> bool {
        let mut killed = self
            .active
            .values()
            .filter(|active| matches!(active.what, What::Killed));
        killed.any(|active| active.hits.contains(node))
    }

    fn is_hit(&self, node: &NodeName) -> bool {
        self.active
            .values()
            .any(|active| active.hits.contains(node))
    }

    fn add(&mut self, kind: Option<Kind>, hits: Vec<NodeName>, what: What) -> u64 {
        self.next += 1;
        self.active.insert(self.next, Active { kind, hits, what });
        self.next
    }

    fn kill(&mut self, kind: Kind, hits: Vec<NodeName>, nodes: &Nodes, lasts: Duration) -> Begun {
        for node in &hits {
            nodes.signal(node, Signal::KILL);
        }
        let names = names(&hits);
        let number = self.add(Some(kind), hits, What::Killed);
        Begun::Now(number, names, Some(lasts))
    }

    fn stop(
        &mut self,
        kind: Kind,
        node: Option<NodeName>,
        nodes: &Nodes,
        lasts: Duration,
    ) -> Begun {
        let Some(node) = node else {
            return Begun::Later(None);
        };
        match nodes.signal(&node, Signal::STOP) {
            None => Begun::Later(None),
            Some(pid) => {
                let name = node.to_string();
                let number = self.add(Some(kind), vec![node], What::Stopped(pid));
                Begun::Now(number, name, Some(lasts))
            }
        }
    }

    /// Stops a leader for so long that the other one leads.
    fn depose(&mut self, node: &NodeName, nodes: &Nodes) -> Option<(u64, String, Duration)> {
        let pid = nodes.signal(node, Signal::STOP)?;
        let number = self.add(None, vec![node.clone()], What::Stopped(pid));
        Some((
            number,
            format!("{node}, so that the other one leads"),
            DEPOSE,
        ))
    }

    async fn cut(
        &mut self,
        kind: Kind,
        hits: Vec<NodeName>,
        ways: Vec<Way>,
        lasts: Duration,
    ) -> anyhow::Result<Begun> {
        self.network.cut(&ways).await?;
        let names = match hits.is_empty() {
            true => "the workers".to_owned(),
            false => names(&hits),
        };
        let number = self.add(Some(kind), hits, What::Cut(ways));
        Ok(Begun::Now(number, names, Some(lasts)))
    }

    /// A rule that is there twice can't be taken back once.
    fn no_way_is_cut(&self) -> bool {
        let mut active = self.active.values();
        !active.any(|active| matches!(active.what, What::Cut(_)))
    }

    /// Between a node and everybody else.
    fn all_ways(&self, node: &NodeName) -> Vec<Way> {
        let own = self.network.node(node);
        let nodes = all_nodes();
        let others = nodes.iter().filter(|other| *other != node);
        let others = others.map(|other| self.network.node(other));
        let servers = Server::ALL.map(|server| self.network.server(server));
        let others: BTreeSet<IpAddr> = others.chain(servers).collect();
        let ways = others.into_iter().flat_map(|other| both(own, other));
        // one that is cut already is mended by who cut it
        ways.filter(|way| !self.is_cut(way)).collect()
    }

    fn is_cut(&self, way: &Way) -> bool {
        let mut active = self.active.values();
        active.any(|active| matches!(&active.what, What::Cut(ways) if ways.contains(way)))
    }

    fn restart(&mut self, kind: Kind, name: &'static str, pick: u64) -> Begun {
        let mut active = self.active.values();
        if active.any(|active| matches!(active.what, What::Restarting(other) if other == name)) {
            return Begun::Later(None);
        }
        let kill = pick.is_multiple_of(2);
        let number = self.add(Some(kind), Vec::new(), What::Restarting(name));
        let (services, log) = (self.services.clone(), self.logs.join("services.log"));
        self.restarts
            .spawn(async move { (number, restart(services, log, name, kill).await) });
        let how = if kill { "SIGKILL" } else { "SIGTERM" };
        Begun::Now(number, format!("{name} by {how}"), None)
    }
}

async fn restart(services: PathBuf, log: PathBuf, name: &str, kill: bool) -> anyhow::Result<()> {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)?;
    let status = Command::new("tests/services/restart")
        .args(kill.then_some("--kill"))
        .arg(services)
        .arg(name)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .await?;
    if !status.success() {
        bail!("{name} could not be started again: {status}; see services.log");
    }
    Ok(())
}

fn pick<'a>(nodes: &[&'a NodeName], pick: u64) -> Option<&'a NodeName> {
    let index = usize::try_from(pick)
        .unwrap_or(0)
        .checked_rem(nodes.len())?;
    nodes.get(index).copied()
}

fn names(nodes: &[NodeName]) -> String {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    names.join(" and ")
}
