//! Everything a run needs before the first fault: disk, ways to the servers, table, job, processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use lockkeeper_examples::orders::database::{PASSWORD_VARIABLE, TableName};
use lockkeeper_examples::orders::job::Job;
use lockkeeper_examples::orders::truth::Truth;
use lockkeeper_examples::settings::Settings;
use lockkeeper_examples::settings::election::ElectionDriver;
use tokio::process::{Child, Command};

use super::disk::Disk;
use super::network::{Network, Server};
use super::nodes::WORKERS;
use super::options::{Options, Store};

/// Canal's destination: one that passes nothing until it is subscribed.
const DESTINATION: &str = "test01";
/// Room on the disk: for the output of a minute, and at the least.
const DISK_BYTES_A_MINUTE: u64 = 12 << 20;
const DISK_BYTES: u64 = 96 << 20;

/// The folders of a run.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    /// The job's.
    pub(crate) data: PathBuf,
    /// Logs of processes and faults.
    pub(crate) logs: PathBuf,
    /// The loader's log of what the database acknowledged.
    pub(crate) loaded: PathBuf,
}

impl Folders {
    pub(crate) fn create(folder: &Path) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let folders = Self {
            data: folder.join("data"),
            logs: folder.join("logs"),
            loaded: folder.join("loaded.jsonl"),
        };
        for new in [&folders.data, &folders.logs] {
            std::fs::create_dir_all(new).with_context(|| new.display().to_string())?;
        }
        if folders.data.read_dir()?.next().is_some() {
            bail!("{} is not empty", folders.data.display());
        }
        Ok(folders)
    }
}

/// The first line of a password's file.
pub(crate) fn password(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The disk that is filled; `None` where mounts are not permitted.
pub(crate) async fn disk(options: &Options, folders: &Folders) -> Option<Disk> {
    let bytes = DISK_BYTES + DISK_BYTES_A_MINUTE * options.minutes;
    if options.mounts {
        Disk::mount(&folders.data, bytes).await
    } else {
        None
    }
}

/// Opens the ways from the nodes to the servers.
pub(crate) async fn forward(options: &Options, network: &Network) -> anyhow::Result<()> {
    let servers = &options.servers;
    network
        .forward(Server::ZooKeeper, servers.zookeeper)
        .await?;
    network.forward(Server::Canal, servers.canal).await?;
    network.forward(Server::Redis, servers.redis).await
}

fn table() -> TableName {
    TableName {
        schema: "shop".to_owned(),
        table: "orders".to_owned(),
    }
}

/// Writes what the processes of the job and the judge must know.
pub(crate) async fn write_job(
    options: &Options,
    network: &Network,
    folders: &Folders,
) -> anyhow::Result<()> {
    let servers = &options.servers;
    let seen = |server, port| format!("{}:{port}", network.server(server));
    let redis = seen(Server::Redis, servers.redis.port());
    let mut settings = Settings::default();
    settings.canal.addresses = vec![seen(Server::Canal, servers.canal.port())];
    settings.canal.destination = DESTINATION.to_owned();
    settings.canal.user = Some(servers.canal_user.clone());
    settings.store.url = match options.store() {
        Store::Folder => None,
        Store::Redis => Some(format!("redis://{redis}/0?prefix=orders:")),
    };
    settings.election.driver = ElectionDriver::Zookeeper;
    settings.election.servers = vec![seen(Server::ZooKeeper, servers.zookeeper.port())];
    settings.election.root = "/lockkeeper/chaos".to_owned();
    settings.election.session = Some(Duration::from_secs(4));
    settings.region.period = Some(Duration::from_secs(1));
    settings.region.lease = Duration::from_secs(2);
    settings.region.lease_margin = Duration::from_millis(500);
    settings.region.max_consecutive_reset_attempts = 50;
    let job = Job {
        data: folders.data.clone(),
        settings,
        table: table(),
        workers: WORKERS,
        width: WORKERS,
        sabotage: options.sabotage,
    };
    job.write()?;
    // on a thread of its own: it waits for Redis, and the way there is this program's
    tokio::task::spawn_blocking(move || job.make_store()).await??;
    let truth = Truth::Sql {
        url: url(options),
        table: table(),
        log: folders.loaded.clone(),
    };
    truth.write(&folders.data)
}

fn url(options: &Options) -> String {
    let servers = &options.servers;
    format!("mysql://{}@{}", servers.mysql_user, servers.mysql)
}

fn loader(options: &Options) -> anyhow::Result<Command> {
    let program = std::env::current_exe()?.with_file_name("orders-load");
    let mut command = Command::new(program);
    command
        .args(["--url", &url(options), "--table", &table().to_string()])
        .env(
            PASSWORD_VARIABLE,
            password(&options.servers.mysql_password_file)?,
        )
        .kill_on_drop(true);
    Ok(command)
}

/// Makes the table.
pub(crate) async fn create_table(options: &Options) -> anyhow::Result<()> {
    let status = loader(options)?.arg("--create").status().await?;
    anyhow::ensure!(status.success(), "the table can't be made: {status}");
    Ok(())
}

/// Begins to load.
pub(crate) fn load(options: &Options, folders: &Folders) -> anyhow::Result<Child> {
    let seconds = options.load().as_secs();
    // the time ends it
    let rows = options
        .rows_per_second
        .saturating_mul(seconds)
        .saturating_mul(2);
    let child = loader(options)?
        .args(["--seconds", &seconds.to_string()])
        .args(["--rows-per-second", &options.rows_per_second.to_string()])
        .args(["--rows", &rows.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .arg("--log")
        .arg(&folders.loaded)
        .spawn()?;
    Ok(child)
}
