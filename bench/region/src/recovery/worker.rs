//! The worker's process is killed; a supervisor starts its successor, which finds the coordinator by election and goes
//! on from the newest cut.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_rt::Arbiter;
use bench_harness::Failure;
use lockkeeper_consistent_region::prelude::*;
use lockkeeper_core::{RestartPolicy, RpcService};
use lockkeeper_fencing::driver::LeaseFiles;
use lockkeeper_fencing::election::{LeaderElectionOptions, LeaderElectionService};
use lockkeeper_fencing::retrieval::{LeaderRetrieval, LeaderRetrievalService};
use lockkeeper_remote::RemoteBuilderExt as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::said::{Said, listen, say};
use super::{LIMIT, PERIOD, component, next_cut, pause_before};
use crate::operators::Work;
use crate::program::Role;
use crate::work::Limit;

const WORKER: &str = "worker";
const STOP: &str = "stop";
const COUNTED: &str = "counted";
const CORRECT: &str = "correct";
const ARBITERS: usize = 2;

/// Finds the coordinator of the region in `folder`.
pub fn leader(folder: &Path) -> Result<LeaderRetrieval, Failure> {
    let leases = LeaderRetrievalService::new(LeaseFiles::new(folder.join("election")));
    Ok(leases.retrieve(component()?)?)
}

pub fn config() -> (WorkerConfig, Vec<Arbiter>) {
    let arbiters: Vec<Arbiter> = (0..ARBITERS).map(|_| Arbiter::new()).collect();
    let config = WorkerConfig {
        arbiters: arbiters.iter().map(Arbiter::handle).collect(),
        ..WorkerConfig::new(WORKER)
    };
    (config, arbiters)
}

pub fn settings(region: &Region) -> CoordinatorSettings {
    CoordinatorSettings {
        period: Some(PERIOD),
        ..CoordinatorSettings::for_region(region)
    }
}

/// The worker's process: says when the first tuple is counted, and at the end whether the counts are right.
pub async fn work(folder: PathBuf) -> Result<(), Failure> {
    let limit = Limit::none();
    let mut work = Work::new(Arc::clone(&limit));
    work.first_counted = Arc::new(|| say(COUNTED));
    std::thread::spawn({
        let limit = Arc::clone(&limit);
        move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                if line == STOP {
                    limit.stop();
                }
            }
            // Who has started this process is gone, or wants it to go.
            std::process::exit(0);
        }
    });
    let store = Arc::new(FileStore::open_existing(folder.join("store"))?);
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    let (config, _arbiters) = config();
    let program = WorkerProgram::new(work.region(0)?, store, config);
    let end = program.run(&service, leader(&folder)?).await?;
    if end != WorkerEnd::RegionEnded {
        return Err(format!("the worker has ended before its region: {end:?}").into());
    }
    say(&format!("{CORRECT} {}", work.seen.correct(limit.numbers())));
    Ok(())
}

/// Kills it so often; in milliseconds.
pub async fn measure(kills: usize) -> Result<Vec<f64>, Failure> {
    let folder = tempfile::tempdir()?;
    let region = Work::new(Limit::none()).region(0)?;
    let store: Arc<dyn CheckpointStore> = Arc::new(FileStore::open(folder.path().join("store"))?);
    // Workers take only a store that is there as a whole.
    store.guard_store()?;
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    let leases = LeaseFiles::new(folder.path().join("election"));
    let elections = LeaderElectionService::start(leases, LeaderElectionOptions::default())?;
    let coordinator = ElectedCoordinator::start(
        settings(&region),
        store,
        Hook::default(),
        &service,
        elections.election(component()?),
    )
    .await?;

    let mut said = Said::new();
    let input = Arc::new(Mutex::new(None));
    let processes = Arc::new(processes(folder.path(), &said, &input)?);
    // Each kill counts as the first, which a policy's pauses begin with.
    let pause = Duration::from_millis(100);
    let policy = RestartPolicy::default()
        .max_restarts(kills + 1)
        .back_off(pause, pause);
    let kept = Supervisor::new(Arc::clone(&processes) as _).with_policy(policy);
    let mut kept = kept.start([WORKER]);
    said.wait_for(COUNTED).await?;
    let mut milliseconds = Vec::new();
    for kill in 0..kills {
        next_cut(coordinator.handle()).await?;
        tokio::time::sleep(pause_before(kill)).await;
        said.forget();
        let killed = Instant::now();
        let process = processes.process_id(WORKER).ok_or("there is no worker")?;
        let process = Pid::from_raw(i32::try_from(process)?).ok_or("no process")?;
        kill_process(process, Signal::KILL)?;
        let (_, counted) = said.wait_for(COUNTED).await?;
        milliseconds.push(counted.duration_since(killed).as_secs_f64() * 1e3);
    }
    // Long enough that every key is counted once more, so that the sink has all of them.
    tokio::time::sleep(PERIOD * 5).await;
    let stdin = input.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut stdin: tokio::process::ChildStdin = stdin.ok_or("the worker has no input")?;
    stdin.write_all(format!("{STOP}\n").as_bytes()).await?;
    let (correct, _) = said.wait_for(CORRECT).await?;
    drop(stdin);
    timeout(LIMIT, kept.ended()).await?;
    coordinator.close().await?;
    elections.close().await;
    service.terminate().await?;
    match correct.ends_with("true") {
        true => Ok(milliseconds),
        false => Err("the counts are wrong after the kills, so their times are none".into()),
    }
}

type Input = Arc<Mutex<Option<tokio::process::ChildStdin>>>;

fn processes(folder: &Path, said: &Said, input: &Input) -> Result<LocalProcesses, Failure> {
    let role = Role::Worker {
        folder: folder.to_owned(),
    };
    let program = role.command()?;
    let arguments: Vec<_> = program.get_args().map(ToOwned::to_owned).collect();
    let program = program.get_program().to_owned();
    let (sender, input) = (said.sender(), Arc::clone(input));
    let processes = LocalProcesses::new(move |_| {
        let mut command = std::process::Command::new(&program);
        command.args(&arguments).stdout(Stdio::piped());
        command
    });
    Ok(processes.with_pipes(move |_, mut pipes| {
        if let Some(output) = pipes.stdout.take() {
            tokio::spawn(listen(output, sender.clone()));
        }
        *input.lock().unwrap_or_else(PoisonError::into_inner) = pipes.stdin.take();
    }))
}
