//! The command line of `leader`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Three processes, one of which serves a counter. Kills the one that serves again and again; the
/// counter goes on, and ends with the number of calls.
#[derive(Debug, Clone, Parser)]
#[command(name = "leader", version)]
pub struct Options {
    /// What `leader` starts its own processes with
    #[command(subcommand)]
    pub node: Option<NodeCommand>,
    /// Where leadership is decided
    #[command(flatten)]
    pub place: PlaceOptions,
    /// Calls of the counter
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub calls: u64,
    /// How often the serving process is killed, spread over the calls
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub kills: u64,
    /// Milliseconds between two calls
    #[arg(long, default_value_t = 50)]
    pub pause_ms: u64,
}

/// One of the processes.
#[derive(Debug, Clone, Subcommand)]
pub enum NodeCommand {
    /// One of the processes; ends when its standard input does
    #[command(hide = true)]
    Node {
        /// Its number
        #[arg(long)]
        number: u32,
        /// Where leadership is decided
        #[command(flatten)]
        place: PlaceOptions,
    },
}

/// Where leadership is decided and the counter is kept.
#[derive(Debug, Clone, Args)]
pub struct PlaceOptions {
    /// What decides
    #[arg(long, value_enum, default_value_t = DriverName::File)]
    pub driver: DriverName,
    /// Address of the ZooKeeper or etcd server, host:port; of driver `kubernetes` a server that asks for no
    /// credentials (`kubectl proxy`). Default there: that of the pod's service account or the kubeconfig
    #[arg(long)]
    pub server: Option<String>,
    /// What nodes or keys begin with on the server. Default: a new one
    #[arg(long)]
    pub root: Option<String>,
    /// The namespace of driver `kubernetes`'s Lease
    #[arg(long, default_value = "default")]
    pub namespace: String,
    /// The name of driver `kubernetes`'s Lease. Default: a new one
    #[arg(long)]
    pub lease: Option<String>,
    /// The folder of driver `file`, and of driver `kubernetes` for the counter. Default: a new one in the
    /// system's folder for temporary files
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Milliseconds that a leader that stands still stays leader; with driver `kubernetes` at least 1000
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub session_ms: u64,
}

impl PlaceOptions {
    /// How long a leader that stands still stays leader.
    #[must_use]
    pub fn session(&self) -> Duration {
        Duration::from_millis(self.session_ms)
    }
}

/// The drivers that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DriverName {
    /// Lease files in a folder
    File,
    /// A ZooKeeper ensemble
    Zookeeper,
    /// An etcd cluster; the example must be built with `--features etcd`
    Etcd,
    /// A Lease of a Kubernetes cluster; the example must be built with `--features kubernetes`
    Kubernetes,
}

impl DriverName {
    /// As it is written on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DriverName::File => "file",
            DriverName::Zookeeper => "zookeeper",
            DriverName::Etcd => "etcd",
            DriverName::Kubernetes => "kubernetes",
        }
    }
}
