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
use crate::contract::Database as _;
use crate::real::MariaDb;

const DESTINATION: &str = "LOCKKEEPER_TEST_DESTINATION";
const SCHEMA: &str = "LOCKKEEPER_TEST_SCHEMA";

/// The process, from outside.
pub(super) struct Process {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    rows: VecDeque<u64>,
}

impl Process {
    pub(super) fn start(cluster: &Cluster, database: &Arc<MariaDb>) -> Self {
        let test = "real::high_availability::a_client_process";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(DESTINATION, &cluster.destination)
            .env(SCHEMA, database.table().0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
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

fn say(line: &str) {
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
    let mut role = "";
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
