//! One process, from the command line to its exit.

use std::fs;
use std::sync::Arc;

use anyhow::Context as _;
use lockkeeper_consistent_region::process::end_with_parent;
use lockkeeper_consistent_region::store::{CheckpointStore, FileStore};
use lockkeeper_consistent_region::worker::{WorkerConfig, WorkerProgram, WorkerProgramError};
use lockkeeper_core::RpcService;
use lockkeeper_fencing::election::{ComponentId, ElectionError};
use lockkeeper_remote::{RemoteBuilderExt, SharedKeys};

use super::contend::Contender;
use super::options::Options;
use super::place::Election;
use crate::region::place::open_to_work;
use crate::settings::source::FileSourceSettings;
use crate::word_count::graph::graph;
use crate::{note, say};

/// The name that the region's coordinators contend under.
pub(super) fn component() -> Result<ComponentId, ElectionError> {
    ComponentId::new("word-count")
}

/// Runs it until the region has ended or a signal comes; the exit code.
///
/// # Errors
/// What can't be reached or started.
pub async fn run(options: &Options) -> anyhow::Result<u8> {
    if options.end_with_parent {
        end_with_parent();
    }
    let file = fs::canonicalize(&options.file)
        .with_context(|| format!("the text {}", options.file.display()))?;
    let (lines, out) = (options.lines_per_cut, &options.out);
    let source = FileSourceSettings {
        follow: options.follow,
        ..FileSourceSettings::default()
    };
    let region = graph(file, lines, source, options.width, out)?;
    let store = store(options)?;
    let election = Election::parse(&options.election)?;
    let service = service(options).await?;
    let contender = if options.contend {
        let (store, election) = (Arc::clone(&store), election.clone());
        Some(Contender::start(options, &region, store, &service, election).await?)
    } else {
        None
    };
    let worker = async {
        if options.slots == 0 {
            return std::future::pending().await;
        }
        let mut config = WorkerConfig::new(id(options));
        config.slots = options.slots;
        config.labels = options.labels.clone();
        let leader = election.retrieval().retrieve(component()?)?;
        say!("worker {}", config.worker);
        let program = WorkerProgram::new(region, store, config);
        if options.contend {
            // a signal is for the coordinator, whose last cut needs this worker
            program
                .run_until(&service, leader, std::future::pending())
                .await?;
        } else {
            program.run(&service, leader).await?;
        }
        Ok(())
    };
    let ended: anyhow::Result<()> = match &contender {
        None => worker.await,
        // the region's end is the coordinator's to tell: its worker ends before or after it
        Some(contender) => tokio::select! {
            followed = contender.follow() => followed,
            Err(error) = worker => Err(error),
        },
    };
    if let Some(contender) = contender {
        contender.close().await;
    }
    service.terminate().await?;
    match ended {
        Ok(()) => Ok(0),
        Err(error) if is_of_the_region(&error) => {
            note!("lockkeeper-region-worker: {error:#}");
            Ok(1)
        }
        Err(error) => Err(error),
    }
}

/// The region has failed or does not take this worker: nothing that can't be reached.
fn is_of_the_region(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<WorkerProgramError>() {
        Some(error) => matches!(error, WorkerProgramError::Refused(_)),
        None => error.to_string().starts_with("the region has failed"),
    }
}

fn store(options: &Options) -> anyhow::Result<Arc<dyn CheckpointStore>> {
    let folder = options
        .store
        .strip_prefix("file://")
        .unwrap_or(&options.store);
    if options.new_store && !folder.contains("://") {
        return Ok(Arc::new(FileStore::open(folder)?));
    }
    open_to_work(&options.store).map_err(anyhow::Error::msg)
}

async fn service(options: &Options) -> anyhow::Result<RpcService> {
    let mut builder = RpcService::builder().bind(&options.bind);
    if let Some(address) = &options.advertise {
        builder = builder.advertise(address);
    }
    if let Some(file) = &options.key_file {
        let key = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        builder = builder.shared_keys(SharedKeys::new([key.trim()])?);
    }
    Ok(builder.start().await?)
}

fn id(options: &Options) -> String {
    let host = || {
        let name = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        if name.is_empty() {
            "worker".to_owned()
        } else {
            name
        }
    };
    options.id.clone().unwrap_or_else(host)
}
