//! The cluster under test: two Canal servers and ZooKeeper.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use lockkeeper_canal::{
    BatchId, CanalConnectorBuilder, ClientIdentity, ClientRunningData, ClientRunningMonitor,
    ClientRunningMonitorBuilder, ClusterCanalConnector, ClusterNodeAccessStrategy, EventType,
    Filter, Message,
};
use zookeeper_client::Client;

use crate::contract::{Database as _, Order};
use crate::real::{MariaDb, TEST_LIMIT, password, variable};

/// A guard against a hang, not a measure.
pub(super) const HANG: Duration = Duration::from_secs(90);
/// The session of the clients under test.
pub(super) const SESSION: Duration = Duration::from_secs(4);

/// Destinations that no test uses at the moment.
static FREE: Mutex<Option<Vec<String>>> = Mutex::new(None);
static FREED: Condvar = Condvar::new();

/// The cluster, and a destination of it for one test alone.
pub(super) struct Cluster {
    pub(super) ensemble: String,
    pub(super) destination: String,
    user: String,
    password: String,
}

pub(super) fn on_the_cluster(name: &str, test: impl AsyncFnOnce(&Cluster, &Arc<MariaDb>)) {
    let variables = [
        "LOCKKEEPER_CANAL_HA_DESTINATIONS",
        "LOCKKEEPER_ZOOKEEPER",
        "LOCKKEEPER_MYSQL",
    ];
    let [Some(destinations), Some(_), Some(_)] = variables.map(variable) else {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "no cluster: set {variables:?}"
        );
        eprintln!("skipped {name}: no cluster, set {variables:?}");
        return;
    };
    let cluster = Cluster::of(take(&destinations));
    let database = Arc::new(MariaDb::new(name));
    let ended = actix_rt::System::new()
        .block_on(async { tokio::time::timeout(TEST_LIMIT, test(&cluster, &database)).await });
    ended.expect("the test hangs");
}

fn take(all: &str) -> String {
    let mut free = FREE.lock().unwrap();
    free.get_or_insert_with(|| all.split(',').map(str::to_owned).collect());
    loop {
        match free.as_mut().and_then(Vec::pop) {
            Some(destination) => return destination,
            None => free = FREED.wait(free).unwrap(),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Ok(mut free) = FREE.lock()
            && let Some(free) = free.as_mut()
        {
            free.push(std::mem::take(&mut self.destination));
        }
        FREED.notify_one();
    }
}

impl Cluster {
    /// The cluster that the environment names, with this destination.
    pub(super) fn of(destination: String) -> Self {
        Self {
            ensemble: variable("LOCKKEEPER_ZOOKEEPER").unwrap(),
            destination,
            user: variable("LOCKKEEPER_CANAL_USER").unwrap_or_default(),
            password: password("LOCKKEEPER_CANAL_PASSWORD_FILE"),
        }
    }

    pub(super) fn identity(&self) -> ClientIdentity {
        ClientIdentity::new(&self.destination)
    }

    pub(super) fn monitor(&self) -> ClientRunningMonitorBuilder {
        ClientRunningMonitor::builder(&self.ensemble, self.identity()).session(SESSION)
    }

    pub(super) async fn connector(&self) -> ClusterCanalConnector {
        self.connector_with(&self.monitor().start().unwrap()).await
    }

    pub(super) async fn connector_with(
        &self,
        monitor: &ClientRunningMonitor,
    ) -> ClusterCanalConnector {
        let builder = self.builder(monitor).await;
        builder.build_cluster().unwrap()
    }

    /// Settings of a client that shares its turns by this monitor.
    pub(super) async fn builder(&self, monitor: &ClientRunningMonitor) -> CanalConnectorBuilder {
        CanalConnectorBuilder::new(self.identity())
            .access_strategy(self.servers().await)
            .credentials(&self.user, &*self.password)
            .request_timeout(Duration::from_secs(15))
            .running_monitor(monitor)
            .retry(60, Duration::from_millis(50), Duration::from_secs(1))
    }

    /// The servers, as ZooKeeper names them.
    pub(super) async fn servers(&self) -> ClusterNodeAccessStrategy {
        let strategy = ClusterNodeAccessStrategy::connect(&self.ensemble, &self.destination);
        strategy.await.unwrap()
    }

    /// What stands in the running node.
    pub(super) async fn holder(&self) -> ClientRunningData {
        let zookeeper = self.zookeeper().await;
        let (data, _) = zookeeper.get_data(&self.running()).await.unwrap();
        ClientRunningData::from_json(&data).unwrap()
    }

    /// As an administrator takes the turn from whoever has it.
    pub(super) async fn release(&self) {
        let mut data = self.holder().await;
        data.active = false;
        let zookeeper = self.zookeeper().await;
        let released = zookeeper.set_data(&self.running(), &data.to_json(), None);
        released.await.unwrap();
    }

    pub(super) async fn zookeeper(&self) -> Client {
        Client::connect(&self.ensemble).await.unwrap()
    }

    pub(super) fn running(&self) -> String {
        format!(
            "/otter/canal/destinations/{}/1001/running",
            self.destination
        )
    }

    pub(super) fn filter(&self, database: &Arc<MariaDb>) -> Filter {
        let (schema, table) = database.table();
        Filter::table(schema, table)
    }

    pub(super) fn insert(&self, database: &Arc<MariaDb>, ids: RangeInclusive<u64>) {
        database.insert(ids);
    }

    /// The ids that a batch inserts into the test's table.
    pub(super) fn ids(&self, message: &Message, database: &Arc<MariaDb>) -> Vec<u64> {
        ids(message, database.table())
    }

    /// The next batch with such rows; those before it are acknowledged.
    pub(super) async fn batch(
        &self,
        connector: &mut ClusterCanalConnector,
        database: &Arc<MariaDb>,
    ) -> (BatchId, Vec<u64>) {
        let until = Instant::now() + HANG;
        loop {
            assert!(Instant::now() < until, "no row comes");
            let Some(message) = connector.get_without_ack(1000, None).await.unwrap() else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let ids = self.ids(&message, database);
            if !ids.is_empty() {
                return (message.id(), ids);
            }
            connector.ack(message.id()).await.unwrap();
        }
    }

    /// Kills the Canal server of this address, and starts it again.
    pub(super) async fn kill_the_server(&self, address: &str) {
        let addresses = variable("LOCKKEEPER_CANAL_HA").unwrap();
        let index = addresses
            .split(',')
            .position(|node| node == address)
            .unwrap();
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/services/restart");
        let services = variable("LOCKKEEPER_SERVICES").unwrap();
        let name = format!("canal-ha-{}", index + 1);
        let restart = move || {
            Command::new(script)
                .args(["--kill", &services, &name])
                .stdout(Stdio::null())
                .status()
                .unwrap()
        };
        let status = tokio::task::spawn_blocking(restart).await.unwrap();
        assert!(status.success());
    }
}

/// The ids that a batch inserts into a table.
pub(super) fn ids(message: &Message, table: (&str, &str)) -> Vec<u64> {
    let mut ids = Vec::new();
    for entry in message.entries() {
        let entry = entry.unwrap();
        if (entry.schema_name(), entry.table_name()) != table {
            continue;
        }
        if let Some(change) = entry.row_change().unwrap()
            && change.event_type() == EventType::Insert
        {
            let rows = change.rows::<Order>();
            ids.extend(rows.map(|row| row.unwrap().after.unwrap().id));
        }
    }
    ids
}
