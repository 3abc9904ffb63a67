//! The coordinator's process is killed; one that stands by is elected by lease files and takes the next round. Tuples
//! flow on in the worker meanwhile.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use bench_harness::Failure;
use lockkeeper_consistent_region::prelude::*;
use lockkeeper_core::RpcService;
use lockkeeper_fencing::driver::LeaseFiles;
use lockkeeper_fencing::election::{LeaderElectionOptions, LeaderElectionService};
use lockkeeper_remote::RemoteBuilderExt as _;
use tokio::process::Child;
use tokio::time::timeout;

use super::said::{Said, listen, say};
use super::worker::{config, leader, settings};
use super::{LIMIT, component, pause_before};
use crate::operators::Work;
use crate::program::Role;
use crate::work::Limit;

const CONTENDS: &str = "contends";
const ROUND: &str = "round";

/// The process of one that contends: says when a round is complete, and ends with the region.
pub async fn contend(folder: PathBuf) -> Result<(), Failure> {
    bench_harness::parent_gone();
    let region = Work::new(Limit::none()).region(0)?;
    let store = Arc::new(FileStore::open_existing(folder.join("store"))?);
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    let leases = LeaseFiles::new(folder.join("election"));
    let elections = LeaderElectionService::start(leases, LeaderElectionOptions::default())?;
    let election = elections.election(component()?);
    let hook = Hook::default();
    let coordinator =
        ElectedCoordinator::start(settings(&region), store, hook, &service, election).await?;
    let mut events = coordinator.handle().events();
    say(CONTENDS);
    loop {
        match events.recv().await? {
            RegionEvent::CutCompleted(_) => say(ROUND),
            RegionEvent::Failed { reason } => return Err(reason.into()),
            _ => {}
        }
    }
}

/// Kills the one that leads so often; in milliseconds.
pub async fn measure(kills: usize) -> Result<Vec<f64>, Failure> {
    let folder = tempfile::tempdir()?;
    let limit = Limit::none();
    let work = Work::new(Arc::clone(&limit));
    let store = Arc::new(FileStore::open(folder.path().join("store"))?);
    // Coordinators take only a store that is there as a whole.
    store.guard_store()?;
    let mut leading = Contender::start(folder.path())?;
    leading.said.wait_for(CONTENDS).await?;
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    let (config, arbiters) = config();
    let program = WorkerProgram::new(work.region(0)?, store, config);
    let (to_worker, leader) = (service.clone(), leader(folder.path())?);
    let worker = actix_rt::spawn(async move {
        let never = std::future::pending();
        program.run_until(&to_worker, leader, never).await
    });
    leading.said.wait_for(ROUND).await?;
    let mut milliseconds = Vec::new();
    for kill in 0..kills {
        let mut standby = Contender::start(folder.path())?;
        standby.said.wait_for(CONTENDS).await?;
        leading.said.forget();
        leading.said.wait_for(ROUND).await?;
        tokio::time::sleep(pause_before(kill)).await;
        let killed = Instant::now();
        leading.process.start_kill()?;
        let (_, round) = standby.said.wait_for(ROUND).await?;
        milliseconds.push(round.duration_since(killed).as_secs_f64() * 1e3);
        leading.process.wait().await?;
        leading = standby;
    }
    limit.stop();
    let end = timeout(LIMIT, worker).await???;
    if end != WorkerEnd::RegionEnded {
        return Err(format!("the worker has ended before its region: {end:?}").into());
    }
    for arbiter in arbiters {
        arbiter.stop();
    }
    service.terminate().await?;
    match work.seen.correct(limit.numbers()) {
        true => Ok(milliseconds),
        false => Err("the counts are wrong after the kills, so their times are none".into()),
    }
}

/// A process that contends; killed with this.
struct Contender {
    process: Child,
    said: Said,
}

impl Contender {
    fn start(folder: &Path) -> Result<Self, Failure> {
        let role = Role::Coordinator {
            folder: folder.to_owned(),
        };
        let mut process = tokio::process::Command::from(role.command()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let said = Said::new();
        let output = process.stdout.take().ok_or("no output")?;
        actix_rt::spawn(listen(output, said.sender()));
        Ok(Self { process, said })
    }
}
