//! The job's graph, the same in every process: source → totals (keyed, parallel) → output.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_canal::{CanalConnectorBuilder, CanalError, ClientIdentity, Filter};
use lockkeeper_consistent_region::graph::{Region, TopologyError};
use lockkeeper_consistent_region::operator::InstanceContext;
use lockkeeper_consistent_region::source::canal::{CanalSource, CanalSourceConfig};
use lockkeeper_fencing::driver::file::LeaseFiles;
use lockkeeper_fencing::driver::zookeeper::ZooKeeper;
use lockkeeper_fencing::election::ElectionError;
use serde::{Deserialize, Serialize};

use super::account::AccountChange;
use super::database::TableName;
use super::output::{OrdersOutput, OutputFolder, OutputSabotage};
use super::report::{Report, now_ms};
use super::rows::map_entries;
use super::sabotage::Sabotage;
use super::totals::Totals;

/// The environment variable with the Canal server's password: it is never an argument.
pub const CANAL_PASSWORD_VARIABLE: &str = "ORDERS_CANAL_PASSWORD";
/// A line of progress is written after this many milliseconds at the earliest.
const REPORT_EVERY_MS: u64 = 5;

/// How long a lease on the leadership holds without renewal; twice that at ZooKeeper.
const SESSION: Duration = Duration::from_secs(2);

/// How the leader is elected.
#[derive(Debug)]
pub enum Election {
    /// By lease files in the job's folder.
    File(LeaseFiles),
    /// By ZooKeeper.
    ZooKeeper(ZooKeeper),
}

/// Everything that the processes of a job must agree on; written to `DIR/job.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job's folder.
    pub data: PathBuf,
    /// Addresses of the Canal servers.
    pub canal: Vec<String>,
    /// The destination.
    pub destination: String,
    /// The client id.
    pub client_id: u16,
    /// The user; the password is in [`CANAL_PASSWORD_VARIABLE`].
    pub canal_user: Option<String>,
    /// The table.
    pub table: TableName,
    /// Entries that the server's buffer holds.
    pub server_buffer: u64,
    /// Worker processes.
    pub workers: u16,
    /// URL of the store of the checkpoints; `None`: the job's folder.
    pub store: Option<String>,
    /// Instances of the keyed operator.
    pub width: u16,
    /// Time between two cuts.
    pub period: Duration,
    /// Address of ZooKeeper; `None`: leadership by lease files.
    pub zookeeper: Option<String>,
    /// The job's own node at ZooKeeper.
    pub zookeeper_root: String,
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
    /// When the root at ZooKeeper can't be.
    pub fn election(&self) -> Result<Election, ElectionError> {
        Ok(match &self.zookeeper {
            None => Election::File(LeaseFiles::new(self.leases()).with_session(SESSION)),
            Some(cluster) => Election::ZooKeeper(
                ZooKeeper::new(cluster, &self.zookeeper_root)?.with_session(SESSION * 2),
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

    /// Reads `DIR/job.json`.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(data: &Path) -> anyhow::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(
            data.join("job.json"),
        )?)?)
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
        let mut config = CanalSourceConfig::new(Arc::new(move || job.connector()), filter);
        config.server_buffer_entries = self.server_buffer;
        config.sabotage = self.sabotage.map(Sabotage::source).unwrap_or_default();
        CanalSource::new(config, context, map_entries(self.table.clone()))
    }

    fn connector(&self) -> Result<lockkeeper_canal::SimpleCanalConnector, CanalError> {
        let identity =
            ClientIdentity::new(&self.destination).with_client_id(self.client_id.into())?;
        let mut connector = CanalConnectorBuilder::new(identity).addresses(&self.canal);
        if let Some(user) = &self.canal_user {
            let password = std::env::var(CANAL_PASSWORD_VARIABLE).unwrap_or_default();
            connector = connector.credentials(user, password);
        }
        connector.build()
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
