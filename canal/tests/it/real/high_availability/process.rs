//! A client in a process of its own, which can be killed and held.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::RangeInclusive;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_canal::{CanalError, Filter};
use tokio::sync::mpsc;

use super::cluster::{Cluster, HANG, ids};
use super::outage::follow_nobody;
use crate::contract::Database as _;
use crate::real::{MariaDb, variable};

const DESTINATION: &str = "LOCKKEEPER_TEST_DESTINATION";
const SCHEMA: &str = "LOCKKEEPER_TEST_SCHEMA";
const SERVER: &str = "LOCKKEEPER_TEST_SERVER";

/// The process, from outside.
pub(super) struct Process {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    rows: VecDeque<u64>,
    again: usize,
}

impl Process {
    pub(super) fn start(cluster: &Cluster, database: &Arc<MariaDb>) -> Self {
        let test = "real::high_availability::a_client_process";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(DESTINATION, &cluster.destination)
            .env(SCHEMA, database.table().0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self::of(child)
    }

    /// One whose Canal server is away: see [`follow_nobody`].
    pub(super) fn without_server(cluster: &Cluster, address: &str) -> Self {
        let test = "real::high_availability::a_client_process";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(DESTINATION, &cluster.destination)
            .env(SERVER, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self::of(child)
    }

    /// Waits for a count that it says.
    pub(super) async fn count(&mut self, name: &str) -> u64 {
        let start = format!("count {name} ");
        loop {
            if let Some(count) = self.line().await.strip_prefix(&start) {
                return count.parse().unwrap();
            }
        }
    }

    /// Canal's own Java client, on the same destination. Says the same, but that its `standby` is
    /// also what it says before it knows.
    pub(super) fn java(cluster: &Cluster, database: &Arc<MariaDb>) -> Self {
        Self::java_at(
            &format!("zookeeper={}", cluster.ensemble),
            cluster,
            database,
        )
    }

    /// The same, straight to a server: it knows of no turns.
    pub(super) fn java_without_turns(
        server: &str,
        cluster: &Cluster,
        database: &Arc<MariaDb>,
    ) -> Self {
        Self::java_at(&format!("server={server}"), cluster, database)
    }

    fn java_at(at: &str, cluster: &Cluster, database: &Arc<MariaDb>) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/services/java");
        let password = variable("LOCKKEEPER_CANAL_PASSWORD_FILE").unwrap();
        let user = variable("LOCKKEEPER_CANAL_USER").unwrap();
        let child = Command::new(script)
            .args(["ReferenceClient", at, &cluster.destination])
            .args([&*user, &*password, database.table().0])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self::of(child)
    }

    fn of(mut child: Child) -> Self {
        let output = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            rows: VecDeque::new(),
            again: 0,
        }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(HANG, self.lines.recv());
        line.await
            .expect("the process says something")
            .expect("the process lives")
    }

    fn take(&mut self, line: &str) {
        if let Some(row) = line.strip_prefix("row ") {
            self.rows.push_back(row.parse().unwrap());
        }
        if line == "again" {
            self.again += 1;
        }
    }

    /// Waits until it says a row, which it is not asked for any more then.
    pub(super) async fn row(&mut self) -> u64 {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return row;
            }
            let line = self.line().await;
            self.take(&line);
        }
    }

    /// How often it has noticed that everything comes again.
    pub(super) fn noticed(&self) -> usize {
        self.again
    }

    /// Waits until it says what its role is.
    pub(super) async fn until(&mut self, role: &str) {
        loop {
            let line = self.line().await;
            self.take(&line);
            if line == format!("role {role}") {
                return;
            }
        }
    }

    /// Waits until it has handled all of these rows. A row may come more than once.
    pub(super) async fn rows(&mut self, wanted: RangeInclusive<u64>) {
        let mut missing: std::collections::BTreeSet<u64> = wanted.collect();
        loop {
            while let Some(row) = self.rows.pop_front() {
                missing.remove(&row);
            }
            if missing.is_empty() {
                return;
            }
            let line = self.line().await;
            self.take(&line);
        }
    }

    /// Rows that it has handled and that nobody has asked for.
    pub(super) fn rows_seen(&mut self) -> Vec<u64> {
        while let Ok(line) = self.lines.try_recv() {
            self.take(&line);
        }
        self.rows.drain(..).collect()
    }

    pub(super) fn hold(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    pub(super) fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process, from inside: takes part until its input ends.
pub(super) fn run() {
    let destination = std::env::var(DESTINATION).expect("run by another test");
    if let Ok(server) = std::env::var(SERVER) {
        let ensemble = variable("LOCKKEEPER_ZOOKEEPER").unwrap();
        return actix_rt::System::new().block_on(follow_nobody(&ensemble, &destination, &server));
    }
    let schema = std::env::var(SCHEMA).unwrap();
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    });
    let cluster = Cluster::of(destination);
    actix_rt::System::new().block_on(async {
        tokio::select! {
            error = follow(&cluster, &schema) => panic!("{error}"),
            _ = end => {}
        }
    });
}

pub(super) fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}

async fn follow(cluster: &Cluster, schema: &str) -> CanalError {
    let mut connector = cluster.connector().await;
    connector
        .subscribe(&Filter::table(schema, "orders"))
        .await
        .unwrap();
    let (mut role, mut epoch) = ("", connector.epoch());
    loop {
        let result = connector.get_without_ack(1000, None).await;
        let now = match &result {
            Err(CanalError::Standby { .. }) => "standby",
            _ => "active",
        };
        if std::mem::replace(&mut role, now) != now {
            say(&format!("role {now}"));
        }
        match result {
            Ok(Some(message)) => {
                if std::mem::replace(&mut epoch, message.id().epoch()) != epoch {
                    say("again");
                }
                for id in ids(&message, (schema, "orders")) {
                    say(&format!("row {id}"));
                }
                if let Err(error) = connector.ack(message.id()).await
                    && !error.is_retryable()
                {
                    return error;
                }
            }
            Ok(None) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(CanalError::Standby { .. }) => {
                let started = Instant::now();
                while started.elapsed() < HANG {
                    if connector.wait_active(HANG).await.is_ok() {
                        break;
                    }
                }
            }
            Err(error) if error.is_retryable() => {}
            Err(error) => return error,
        }
    }
}
