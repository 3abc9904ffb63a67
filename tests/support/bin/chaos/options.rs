//! The command line. `tests/chaos` makes it: the network, the servers and their addresses are there already.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use lockkeeper_examples::orders::sabotage::Sabotage;

/// Faults on the job `orders` on real servers, and a judge.
#[derive(Debug, Clone, Parser)]
#[command(name = "chaos")]
pub(crate) struct Options {
    /// Minutes of load
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub(crate) minutes: u64,
    /// Decides the faults and the rows
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where the checkpoints lie; without it odd seeds have them at Redis, even ones in the job's folder
    #[arg(long)]
    pub(crate) store: Option<Store>,
    /// Row changes a second
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows_per_second: u64,
    /// Do something wrong, to see that the judge notices
    #[arg(long, hide = true)]
    pub(crate) sabotage: Option<Sabotage>,
    /// Everything is written here
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// What the names of the network namespaces begin with
    #[arg(long)]
    pub(crate) network: Option<String>,
    /// Mounts are permitted, and gone with this process
    #[arg(long)]
    pub(crate) mounts: bool,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// Where the checkpoints lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// In the job's folder, on the disk that is filled.
    Folder,
    /// At Redis.
    Redis,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Redis => "redis",
        }
    }
}

/// What `tests/services/up` printed.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Servers {
    /// Their folder
    #[arg(long, env = "LOCKKEEPER_SERVICES")]
    pub(crate) services: PathBuf,
    /// MariaDB
    #[arg(long, env = "LOCKKEEPER_MYSQL")]
    pub(crate) mysql: SocketAddr,
    /// Its user
    #[arg(long, env = "LOCKKEEPER_MYSQL_USER")]
    pub(crate) mysql_user: String,
    /// Its password's file
    #[arg(long, env = "LOCKKEEPER_MYSQL_PASSWORD_FILE")]
    pub(crate) mysql_password_file: PathBuf,
    /// Canal
    #[arg(long, env = "LOCKKEEPER_CANAL")]
    pub(crate) canal: SocketAddr,
    /// Its user
    #[arg(long, env = "LOCKKEEPER_CANAL_USER")]
    pub(crate) canal_user: String,
    /// Its password's file
    #[arg(long, env = "LOCKKEEPER_CANAL_PASSWORD_FILE")]
    pub(crate) canal_password_file: PathBuf,
    /// ZooKeeper
    #[arg(long, env = "LOCKKEEPER_ZOOKEEPER")]
    pub(crate) zookeeper: SocketAddr,
    /// Redis
    #[arg(long, env = "LOCKKEEPER_REDIS")]
    pub(crate) redis: SocketAddr,
}

impl Options {
    pub(crate) fn load(&self) -> Duration {
        Duration::from_secs(self.minutes * 60)
    }

    pub(crate) fn store(&self) -> Store {
        self.store.unwrap_or(match self.seed % 2 {
            0 => Store::Folder,
            _ => Store::Redis,
        })
    }
}
