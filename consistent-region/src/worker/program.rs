//! A worker process from its beginning to its end: what its `main` does.

use std::sync::Arc;

use lockkeeper_core::{RpcError, RpcService};
use lockkeeper_fencing::retrieval::LeaderRetrieval;
use tokio::signal::unix::{SignalKind, signal};

use crate::graph::Region;
use crate::link::remote::RemoteLink;
use crate::protocol::Refusal;
use crate::store::CheckpointStore;

use super::actor::RegionWorker;
use super::config::WorkerConfig;
use super::handle::{WorkerEnd, WorkerHandle};

/// The body of a worker process's `main`: a program of yours that holds your operators.
///
/// Operators are Rust code, so that there is no general worker which could run any of them: every
/// process of a region is built from the same code and makes the same [`Region`], the coordinators
/// for its shape, the workers to run a part of it. A worker with another graph is refused.
///
/// ```no_run
/// # use std::sync::Arc;
/// use lockkeeper_consistent_region::prelude::*;
/// use lockkeeper_core::RpcService;
/// use lockkeeper_fencing::{driver::LeaseFiles, election::ComponentId, retrieval::LeaderRetrievalService};
/// use lockkeeper_remote::RemoteBuilderExt;
///
/// # async fn main_of_a_worker(region: Region) -> Result<(), Box<dyn std::error::Error>> {
/// let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
/// let store = Arc::new(FileStore::open_existing("/var/lib/shop/store")?);
/// let leases = LeaderRetrievalService::new(LeaseFiles::new("/var/lib/shop/election"));
/// let leader = leases.retrieve(ComponentId::new("shop")?)?;
///
/// let mut config = WorkerConfig::new("worker-1"); // its name: the same after a restart
/// config.slots = 8;
/// config.labels = vec!["ssd".into()];
/// WorkerProgram::new(region, store, config).run(&service, leader).await?;
/// # Ok(())
/// # }
/// ```
///
/// The example `lockkeeper-region-worker` is such a program.
#[derive(Debug)]
pub struct WorkerProgram {
    region: Region,
    store: Arc<dyn CheckpointStore>,
    config: WorkerConfig,
}

/// Why a worker's program does not end in peace: what its exit code should not be 0 for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerProgramError {
    /// The coordinator will never take this worker: deploy the same program everywhere, or look at
    /// whose coordinator it found.
    #[error("the coordinator does not take this worker: {0}")]
    Refused(Refusal),
    /// Its endpoint can't be started.
    #[error("the worker's endpoint can't be started: {0}")]
    Endpoint(#[from] RpcError),
    /// SIGTERM and SIGINT can't be listened to.
    #[error("signals can't be listened to: {0}")]
    Signals(#[from] std::io::Error),
}

impl WorkerProgram {
    /// A worker that runs a part of `region`, and writes to and reads from `store`: the same one as
    /// its coordinator's, reached from this host.
    pub fn new(region: Region, store: Arc<dyn CheckpointStore>, config: WorkerConfig) -> Self {
        Self {
            region,
            store,
            config,
        }
    }

    /// Registers with whoever `leader` shows, runs what is placed on this worker, and registers
    /// anew when its coordinator is replaced. `service` must be reachable from the other hosts at
    /// the address that it advertises. Runs on the current arbiter.
    ///
    /// Ends when the region has ended, and on SIGTERM and SIGINT: then it stops at once, without a
    /// cut, and tells its coordinator, so that its instances go to others. Stop the region at its
    /// coordinator instead if it is to end as a whole.
    ///
    /// # Errors
    /// [`WorkerProgramError`].
    pub async fn run(
        self,
        service: &RpcService,
        leader: LeaderRetrieval,
    ) -> Result<WorkerEnd, WorkerProgramError> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        self.run_until(service, leader, stop).await
    }

    /// As [`run`](Self::run), but ended by `stop` instead of signals: for a process that does more,
    /// such as one with a coordinator, which needs its worker for the last cut.
    ///
    /// # Errors
    /// [`WorkerProgramError`].
    pub async fn run_until(
        self,
        service: &RpcService,
        leader: LeaderRetrieval,
        stop: impl Future<Output = ()>,
    ) -> Result<WorkerEnd, WorkerProgramError> {
        let link = RemoteLink::new(service.clone(), leader, self.config.call_timeout);
        let Self {
            region,
            store,
            config,
        } = self;
        let worker = config.worker.clone();
        let mut handle =
            RegionWorker::start_remote(region, store, Arc::new(link), service, config).await?;
        let end = until_ended(&mut handle, stop).await;
        tracing::info!(worker, ?end, "the worker has ended");
        match end {
            WorkerEnd::Refused(refusal) => Err(WorkerProgramError::Refused(refusal)),
            end => Ok(end),
        }
    }
}

async fn until_ended(handle: &mut WorkerHandle, stop: impl Future<Output = ()>) -> WorkerEnd {
    tokio::select! {
        end = handle.ended() => return end,
        () = stop => {}
    }
    handle.stop();
    handle.ended().await
}
