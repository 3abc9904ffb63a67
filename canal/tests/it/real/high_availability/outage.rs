//! Outages: ZooKeeper restarts; no Canal server is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix::prelude::*;
use lockkeeper_canal::{
    Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, CanalError,
    ClientIdentity, ClientRole, ClientRunningMonitor, ClusterCanalConnector,
};
use tokio::net::TcpListener;

use super::cluster::{HANG, SESSION, ids, on_the_cluster};
use super::process::{Process, say};
use crate::contract::Subject;
use crate::real::on_the_real_server_with;

/// A ZooKeeper for one test, which may stop it.
struct ZooKeeper {
    folder: PathBuf,
    address: String,
}

fn script(name: &str, folder: &Path, arguments: &[&str]) -> String {
    let script = format!("{}/../tests/services/{name}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(script)
        .arg(folder)
        .args(arguments)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{name} {arguments:?} failed");
    String::from_utf8(output.stdout).unwrap()
}

impl ZooKeeper {
    async fn start() -> Self {
        let folder =
            std::env::temp_dir().join(format!("lockkeeper-zookeeper-{}", std::process::id()));
        let started = folder.clone();
        let start = move || script("up", &started, &["zookeeper"]);
        let addresses = tokio::task::spawn_blocking(start).await.unwrap();
        let address = addresses
            .lines()
            .find_map(|line| line.strip_prefix("LOCKKEEPER_ZOOKEEPER="));
        Self {
            address: address.unwrap().to_owned(),
            folder,
        }
    }

    async fn call(&self, name: &'static str) {
        let folder = self.folder.clone();
        let call = move || script(name, &folder, &["zookeeper"]);
        tokio::task::spawn_blocking(call).await.unwrap();
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        script("down", &self.folder, &[]);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A client of the one server, whose turns this ZooKeeper gives.
fn client(
    subject: &Subject,
    zookeeper: &ZooKeeper,
) -> (ClientRunningMonitor, ClusterCanalConnector) {
    let identity = ClientIdentity::new(&subject.destination);
    let monitor = ClientRunningMonitor::builder(&zookeeper.address, identity.clone());
    let monitor = monitor.session(SESSION).start().unwrap();
    let connector = CanalConnectorBuilder::new(identity)
        .address(&subject.address)
        .credentials(&subject.user, &*subject.password)
        .running_monitor(&monitor)
        .build_cluster()
        .unwrap();
    (monitor, connector)
}

/// Fetches with both until these rows came.
async fn rows(
    subject: &Subject,
    clients: &mut [(ClientRunningMonitor, ClusterCanalConnector); 2],
    wanted: std::ops::RangeInclusive<u64>,
) {
    let mut missing: BTreeSet<_> = wanted.collect();
    let until = Instant::now() + HANG;
    while !missing.is_empty() {
        assert!(Instant::now() < until, "{missing:?}");
        for (_, connector) in clients.iter_mut() {
            match connector.get_without_ack(1000, None).await {
                Ok(Some(message)) => {
                    for id in ids(&message, subject.database.table()) {
                        missing.remove(&id);
                    }
                    // It may lose its turn at any moment: then the batch comes again.
                    let _ = connector.ack(message.id()).await;
                }
                Ok(None) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(CanalError::Standby { .. }) => {}
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    }
    let both = clients
        .iter()
        .all(|(_, client)| client.role() == ClientRole::Active);
    assert!(!both, "two are active");
}

#[test]
fn after_a_restart_of_zookeeper_one_is_active_and_nothing_is_lost() {
    on_the_real_server_with("after_a_restart_of", async |subject, _| {
        let zookeeper = ZooKeeper::start().await;
        let mut clients = [(); 2].map(|()| client(subject, &zookeeper));
        clients[0].1.wait_active(HANG).await.unwrap();
        clients[0].1.subscribe(&subject.filter()).await.unwrap();
        assert_eq!(clients[1].1.connect().await.unwrap(), ClientRole::Standby);
        clients[1].1.subscribe(&subject.filter()).await.unwrap();
        subject.database.insert(1..=5);
        rows(subject, &mut clients, 1..=5).await;
        // Shorter than a session.
        zookeeper.call("restart").await;
        subject.database.insert(6..=10);
        rows(subject, &mut clients, 6..=10).await;
        // Longer: nobody is active meanwhile.
        zookeeper.call("down").await;
        for (monitor, _) in &clients {
            let mut state = monitor.watch();
            let standby = state.wait_for(|state| state.role == ClientRole::Standby);
            tokio::time::timeout(HANG, standby).await.unwrap().unwrap();
        }
        subject.database.insert(11..=15);
        for (_, connector) in &mut clients {
            let error = connector.get_without_ack(1000, None).await.unwrap_err();
            assert!(matches!(error, CanalError::Standby { .. }), "{error}");
        }
        zookeeper.call("up").await;
        rows(subject, &mut clients, 11..=15).await;
        for (_, connector) in &mut clients {
            connector.disconnect().await;
        }
    });
}

/// How long the server is away.
const AWAY: Duration = Duration::from_secs(60);

/// Counts lines of log as an application would have them: this project's, from INFO on.
struct Counting(AtomicU64);

static LINES: Counting = Counting(AtomicU64::new(0));

struct Subscriber;

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO && metadata.target().starts_with("lockkeeper")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        LINES.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Takes what comes.
struct Taker;

impl Actor for Taker {
    type Context = Context<Self>;
}

impl Handler<Batch> for Taker {
    type Result = BatchResult;
    fn handle(&mut self, _: Batch, _: &mut Self::Context) -> BatchResult {
        Ok(())
    }
}

/// A process whose server is away: says at the end what it has cost.
pub(super) async fn follow_nobody(ensemble: &str, destination: &str, server: &str) {
    tracing::subscriber::set_global_default(Subscriber).unwrap();
    let identity = ClientIdentity::new(destination);
    let monitor = ClientRunningMonitor::builder(ensemble, identity.clone())
        .session(SESSION)
        .start()
        .unwrap();
    let simple = CanalConnectorBuilder::new(identity)
        .address(server)
        .running_monitor(&monitor)
        .build()
        .unwrap();
    let settings = CanalConnectorSettings::default().with_reconnect_limit(None);
    let recipient = Taker.start().recipient();
    let _connector = CanalConnector::new(simple, settings, recipient)
        .unwrap()
        .start();
    let mut state = monitor.watch();
    state
        .wait_for(|state| state.role == ClientRole::Active)
        .await
        .unwrap();
    say("count turns 1");
    tokio::time::sleep(AWAY).await;
    let sockets = std::fs::read_dir("/proc/self/fd").unwrap().filter(|fd| {
        let target = fd
            .as_ref()
            .ok()
            .and_then(|fd| std::fs::read_link(fd.path()).ok());
        target.is_some_and(|target| target.to_string_lossy().starts_with("socket:"))
    });
    say(&format!("count sockets {}", sockets.count()));
    say(&format!("count writes {}", monitor.state().writes));
    say(&format!("count lines {}", LINES.0.load(Ordering::Relaxed)));
}

#[test]
fn a_canal_server_that_is_away_for_a_minute_costs_few_writes_dials_sockets_and_lines() {
    on_the_cluster("is_away", async |cluster, _| {
        // It takes connections and closes them, as a proxy before a dead server.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut process = Process::without_server(cluster, &address);
        let mut dials = 0;
        let counts = async {
            let mut counts = Vec::new();
            for name in ["turns", "sockets", "writes", "lines"] {
                counts.push(process.count(name).await);
            }
            counts
        };
        tokio::pin!(counts);
        let counts = loop {
            tokio::select! {
                accepted = listener.accept() => {
                    drop(accepted.unwrap());
                    dials += 1;
                }
                counts = &mut counts => break counts,
            }
        };
        let [_, sockets, writes, lines] = counts[..] else {
            panic!("{counts:?}")
        };
        eprintln!("{dials} dials, {sockets} sockets, {writes} writes, {lines} lines in {AWAY:?}");
        // Java's client: more than 100 writes and 1,700 lines a second.
        assert!((2..=40).contains(&dials), "{dials}");
        // ZooKeeper's, and one that is being opened; the runtimes have one each for signals.
        assert!(sockets <= 8, "{sockets}");
        assert!(writes <= 12, "{writes}");
        assert!(lines <= 60, "{lines}");
    });
}
