//! The job's graph, the same in every process: source → totals (keyed, parallel) → output.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_canal::{CanalError, Filter};
use lockkeeper_consistent_region::graph::{Region, TopologyError};
use lockkeeper_consistent_region::operator::InstanceContext;
use lockkeeper_consistent_region::source::canal::{CanalSource, MakeConnector};
use lockkeeper_fencing::driver::file::LeaseFiles;
use lockkeeper_fencing::driver::zookeeper::ZooKeeper;
use serde::{Deserialize, Serialize};

use super::account::AccountChange;
use super::database::TableName;
use super::output::{OrdersOutput, OutputFolder, OutputSabotage};
use super::report::{Report, now_ms};
use super::rows::map_entries;
use super::sabotage::Sabotage;
use super::totals::Totals;
use crate::settings::Settings;
use crate::settings::election::ElectionDriver;

/// The environment variable with the Canal server's password: it is never an argument.
pub const CANAL_PASSWORD_VARIABLE: &str = "ORDERS_CANAL_PASSWORD";
/// A line of progress is written after this many milliseconds at the earliest.
const REPORT_EVERY_MS: u64 = 5;

/// How the leader is elected.
#[derive(Debug)]
pub enum Election {
    /// By lease files in the job's folder.
    File(LeaseFiles),
    /// By ZooKeeper.
    ZooKeeper(ZooKeeper),
    /// By etcd.
    #[cfg(feature = "etcd")]
    Etcd(lockkeeper_fencing::driver::Etcd),
    /// By a Lease of Kubernetes.
    #[cfg(feature = "kubernetes")]
    Kubernetes(lockkeeper_fencing::driver::Kubernetes),
}

/// Everything that the processes of a job must agree on; written to `DIR/job.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job's folder.
    pub data: PathBuf,
    /// Those of every component, without passwords.
    pub settings: Settings,
    /// The table.
    pub table: TableName,
    /// Worker processes.
    pub workers: u16,
    /// Instances of the keyed operator.
    pub width: u16,
    /// Wrong behaviour on purpose.
    pub sabotage: Option<Sabotage>,
}

impl Job {
    /// The folder of the checkpoints, if they are not kept elsewhere.
    #[must_use]
    pub fn store_folder(&self) -> PathBuf {
        self.data.join("store")
    }

    /// Where the lease files lie.
    #[must_use]
    pub fn leases(&self) -> PathBuf {
        self.data.join("leader")
    }

    /// How the leader is elected.
    ///
    /// # Errors
    /// When the root can't be, a password is missing, or the driver was not built in.
    pub fn election(&self) -> anyhow::Result<Election> {
        let settings = &self.settings.election;
        Ok(match settings.driver {
            ElectionDriver::File => Election::File(settings.files(self.leases())),
            ElectionDriver::Zookeeper => Election::ZooKeeper(settings.zookeeper()?),
            #[cfg(feature = "etcd")]
            ElectionDriver::Etcd => Election::Etcd(settings.etcd()?),
            #[cfg(not(feature = "etcd"))]
            ElectionDriver::Etcd => {
                anyhow::bail!("this program was built without etcd: build it with --features etcd")
            }
            #[cfg(feature = "kubernetes")]
            ElectionDriver::Kubernetes => Election::Kubernetes(settings.kubernetes()),
            #[cfg(not(feature = "kubernetes"))]
            ElectionDriver::Kubernetes => anyhow::bail!(
                "this program was built without Kubernetes: build it with --features kubernetes"
            ),
        })
    }

    /// Writes `DIR/job.json`.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self) -> anyhow::Result<()> {
        Ok(std::fs::write(
            self.data.join("job.json"),
            serde_json::to_vec_pretty(self)?,
        )?)
    }

    /// Reads `DIR/job.json`, and passwords from the environment.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(data: &Path) -> anyhow::Result<Self> {
        let job = std::fs::read(data.join("job.json"))?;
        let mut job: Self = serde_json::from_slice(&job)?;
        job.settings = job.settings.with_secrets();
        job.settings.canal.password_or(CANAL_PASSWORD_VARIABLE);
        Ok(job)
    }

    /// The graph.
    ///
    /// # Errors
    /// When a name or width can't be.
    pub fn graph(&self) -> Result<Region, TopologyError> {
        let mut graph = Region::builder("orders");
        let job = self.clone();
        let changes = graph.start("source", move |context| job.source(context));
        let sabotage = self.sabotage;
        let lines = graph.keyed(
            "totals",
            changes,
            self.width,
            |change: &AccountChange| super::account::customer_key(&change.customer),
            move |context| totals(&context, sabotage),
        );
        let (folder, sabotage) = (
            OutputFolder::new(&self.data),
            self.sabotage.map_or(OutputSabotage::None, Sabotage::output),
        );
        graph.end("output", lines, move |_| {
            OrdersOutput::new(folder.clone(), sabotage)
        });
        graph.build()
    }

    fn source(&self, context: InstanceContext) -> CanalSource<AccountChange> {
        let filter = Filter::table(&self.table.schema, &self.table.table);
        let job = self.clone();
        let connector: MakeConnector = Arc::new(move || job.connector());
        let mut config = self.settings.source.canal.config(connector, filter);
        config.sabotage = self.sabotage.map(Sabotage::source).unwrap_or_default();
        CanalSource::new(config, context, map_entries(self.table.clone()))
    }

    fn connector(&self) -> Result<lockkeeper_canal::SimpleCanalConnector, CanalError> {
        let builder = self.settings.canal.builder(None);
        let builder = builder.map_err(|error| CanalError::InvalidArgument(format!("{error:#}")))?;
        builder.build()
    }
}

fn totals(context: &InstanceContext, sabotage: Option<Sabotage>) -> Totals {
    let skips = sabotage == Some(Sabotage::SkipRow) && context.instance().index == 0;
    Totals::new(Progress::default().report()).skipping(skips.then_some(1_000))
}

/// Reports the changes of one instance, some milliseconds of them at a time.
#[derive(Debug, Default)]
struct Progress {
    unreported: u64,
    reported_at: u64,
    first: bool,
}

impl Progress {
    fn report(mut self) -> super::totals::Observer {
        Box::new(move |event| match event {
            super::totals::Observed::Resumed => self.first = true,
            super::totals::Observed::Processed(changes) => {
                let at = now_ms();
                self.unreported += changes;
                if std::mem::take(&mut self.first) {
                    Report::FirstRows { at }.write();
                }
                if at >= self.reported_at + REPORT_EVERY_MS {
                    self.reported_at = at;
                    Report::Rows {
                        at,
                        changes: std::mem::take(&mut self.unreported),
                    }
                    .write();
                }
            }
            super::totals::Observed::Drained => {
                if self.unreported > 0 {
                    let changes = std::mem::take(&mut self.unreported);
                    Report::Rows {
                        at: self.reported_at,
                        changes,
                    }
                    .write();
                }
            }
        })
    }
}
