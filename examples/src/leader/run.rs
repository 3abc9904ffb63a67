//! The whole example: starts the processes, calls the counter, kills whoever serves.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use lockkeeper_core::prelude::*;
use lockkeeper_fencing::LeaderGateway;
use lockkeeper_fencing::election::ComponentId;
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use lockkeeper_remote::prelude::*;
use tokio::process::{Child, Command};

use super::counter::{Count, Counted, CounterGateway};
use super::node::COMPONENT;
use super::options::{DriverName, Options, PlaceOptions};
use super::place::Driver;
use crate::say;
use crate::signals::Signals;

const PROCESSES: u32 = 3;

/// How long one call waits for a leader, elections included: several sessions.
fn patience(place: &PlaceOptions) -> Duration {
    Duration::from_secs(30) + place.session() * 3
}

/// Runs the example; an error says what is not as it must be.
///
/// # Errors
/// Processes that do not start, calls that nobody answers, a counter that is not the number of calls,
/// tokens that do not grow.
pub async fn run(mut options: Options) -> anyhow::Result<()> {
    let own_folder = complete(&mut options.place)?;
    let ran = count(&options).await;
    if let (Some(folder), true) = (own_folder, ran.is_ok()) {
        std::fs::remove_dir_all(folder)?;
    }
    ran
}

/// Gives the processes one place; returns the folder that was made for it.
fn complete(place: &mut PlaceOptions) -> anyhow::Result<Option<std::path::PathBuf>> {
    let name = format!("lockkeeper-leader-{}", std::process::id());
    let is_missing = place.data.is_none();
    place.root.get_or_insert_with(|| format!("/{name}"));
    place.lease.get_or_insert_with(|| name.clone());
    let folder = place
        .data
        .get_or_insert_with(|| std::env::temp_dir().join(name));
    if matches!(place.driver, DriverName::Zookeeper | DriverName::Etcd) {
        return Ok(None);
    }
    std::fs::create_dir_all(&*folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(is_missing.then(|| folder.clone()))
}

async fn count(options: &Options) -> anyhow::Result<()> {
    let mut signals = Signals::take()?;
    let mut processes = Processes::start(&options.place)?;
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    let retrievals = LeaderRetrievalService::new(Driver::new(&options.place)?);
    let retrieval = retrievals.retrieve(ComponentId::new(COMPONENT)?)?;
    let counter = LeaderGateway::<CounterGateway>::new(service.clone(), retrieval);
    tokio::select! {
        counted = count_calls(options, &counter, &mut processes) => counted?,
        () = signals.next() => say!("stopped by a signal"),
    }
    processes.end().await?;
    service.terminate().await?;
    Ok(())
}

async fn count_calls(
    options: &Options,
    counter: &LeaderGateway<CounterGateway>,
    processes: &mut Processes,
) -> anyhow::Result<()> {
    let mut last: Option<Counted> = None;
    let mut killed = 0;
    for request in 1..=options.calls {
        let counted = call(counter, request, patience(&options.place)).await?;
        ensure!(
            counted.value == request,
            "counted {} with call {request}",
            counted.value
        );
        if let Some(last) = last.filter(|last| last.token != counted.token) {
            ensure!(
                last.token.lineage == counted.token.lineage
                    && last.token.epoch < counted.token.epoch,
                "token {} came after {}",
                counted.token,
                last.token,
            );
        }
        if last.is_none_or(|last| last.token != counted.token) {
            say!("process {} leads: {}", counted.by, counted.token);
        }
        say!("counter {}", counted.value);
        last = Some(counted);
        // After the last kill there is a call left that shows that it goes on.
        if request * (options.kills + 1) / options.calls > killed && request < options.calls {
            killed += 1;
            processes.kill(counted.by).await?;
            say!("process {} killed", counted.by);
        }
        tokio::time::sleep(Duration::from_millis(options.pause_ms)).await;
    }
    say!(
        "counter {} after {} calls, {killed} leaders killed",
        options.calls,
        options.calls
    );
    Ok(())
}

/// Asks until it is counted. No call is counted twice, whoever leads when it is repeated.
async fn call(
    counter: &LeaderGateway<CounterGateway>,
    request: u64,
    patience: Duration,
) -> anyhow::Result<Counted> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let answer = counter.send_idempotent(Count { request }, left).await;
        match answer.with_context(|| format!("call {request}"))? {
            Ok(counted) => return Ok(counted),
            Err(not) if left.is_zero() => bail!("call {request}: {}", not.reason),
            // Deposed while it was counting: the next leader is asked.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// The processes, ended with this one: their standard input ends.
struct Processes {
    place: PlaceOptions,
    running: BTreeMap<u32, Child>,
}

impl Processes {
    fn start(place: &PlaceOptions) -> anyhow::Result<Self> {
        let mut processes = Processes {
            place: place.clone(),
            running: BTreeMap::new(),
        };
        for number in 1..=PROCESSES {
            processes.start_one(number)?;
        }
        Ok(processes)
    }

    fn start_one(&mut self, number: u32) -> anyhow::Result<()> {
        let place = &self.place;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("node").arg("--number").arg(number.to_string());
        command.arg("--driver").arg(place.driver.as_str());
        command
            .arg("--session-ms")
            .arg(place.session_ms.to_string());
        if let Some(server) = &place.server {
            command.arg("--server").arg(server);
        }
        if let Some(root) = &place.root {
            command.arg("--root").arg(root);
        }
        command.arg("--namespace").arg(&place.namespace);
        if let Some(lease) = &place.lease {
            command.arg("--lease").arg(lease);
        }
        if let Some(data) = &place.data {
            command.arg("--data").arg(data);
        }
        let child = command.stdin(Stdio::piped()).kill_on_drop(true).spawn();
        let child = child.with_context(|| format!("starting process {number}"))?;
        self.running.insert(number, child);
        Ok(())
    }

    /// SIGKILL, and a new one in its place.
    async fn kill(&mut self, number: u32) -> anyhow::Result<()> {
        // no longer among those that must end well, also if a signal comes in between
        let child = self.running.remove(&number);
        let mut child = child.with_context(|| format!("there is no process {number}"))?;
        child.kill().await?;
        self.start_one(number)
    }

    async fn end(mut self) -> anyhow::Result<()> {
        for child in self.running.values_mut() {
            drop(child.stdin.take());
        }
        for (number, child) in &mut self.running {
            let ended = tokio::time::timeout(Duration::from_secs(30), child.wait()).await;
            let status = ended.with_context(|| format!("process {number} does not end"))??;
            ensure!(status.success(), "process {number} ended with {status}");
        }
        Ok(())
    }
}
