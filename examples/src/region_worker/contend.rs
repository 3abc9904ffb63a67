//! The coordinator of a process that contends.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use lockkeeper_consistent_region::coordinator::{
    CoordinatorSettings, ElectedCoordinator, RegionEvent, RegionState,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::store::CheckpointStore;
use lockkeeper_core::RpcService;
use lockkeeper_fencing::election::LeaderElectionService;
use lockkeeper_fencing::guard::highest_fence;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};

use super::options::Options;
use super::place::Election;
use super::run::component;
use crate::say;

/// How long a last cut may take when a signal asks for the end: without workers there is none.
const STOP: Duration = Duration::from_secs(20);
/// How long the region's end is told to workers.
const TELL: Duration = Duration::from_secs(5);

/// A coordinator that leads when it is elected.
pub(super) struct Contender {
    coordinator: ElectedCoordinator,
    elections: LeaderElectionService,
}

impl Contender {
    pub(super) async fn start(
        options: &Options,
        region: &Region,
        store: Arc<dyn CheckpointStore>,
        service: &RpcService,
        election: Election,
    ) -> anyhow::Result<Self> {
        let settings = settings(options, region)?;
        let used = highest_fence(&*store.guard_store()?)?;
        let elections = election.elections(used)?;
        let election = elections.election(component()?);
        let hook = Hook::default();
        let coordinator =
            ElectedCoordinator::start(settings, store, hook, service, election).await?;
        say!("contending");
        Ok(Self {
            coordinator,
            elections,
        })
    }

    /// Prints who comes and which cuts complete until the region has ended. A signal makes the region end with a
    /// last cut if this coordinator leads; if it does not, another one goes on.
    pub(super) async fn follow(&self) -> anyhow::Result<()> {
        let coordinator = self.coordinator.handle();
        let mut events = coordinator.events();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut status = coordinator.watch();
        let mut stop_until = None;
        loop {
            let is_asked = tokio::select! {
                biased;
                event = events.recv() => match print(event)? {
                    Seen::Completed => return Ok(()),
                    Seen::Other => false,
                },
                // it has ended under another coordinator, or the last time
                ended = status.wait_for(|status| status.state == RegionState::Completed) => {
                    return ended.map(|_| ()).context("the coordinator has ended");
                }
                _ = terminate.recv() => true,
                _ = interrupt.recv() => true,
                () = sleep_until(stop_until.unwrap_or_else(Instant::now)), if stop_until.is_some() => {
                    bail!("no last cut within {STOP:?}; the region goes on from the one before")
                }
            };
            if is_asked {
                ensure!(
                    stop_until.is_none(),
                    "ended by a second signal, without a last cut"
                );
                if coordinator.stop().await.is_err() {
                    return Ok(());
                }
                stop_until = Some(Instant::now() + STOP);
            }
        }
    }

    /// Waits until every worker knows that the region has ended, and gives the leadership up.
    pub(super) async fn close(self) {
        let mut status = self.coordinator.handle().watch();
        let told =
            status.wait_for(|status| status.finished || status.state != RegionState::Completed);
        // a worker that can't be told is told by the next coordinator
        let _ = tokio::time::timeout(TELL, told).await;
        if let Err(error) = self.coordinator.close().await {
            tracing::warn!(%error, "the coordinator's endpoint did not end in peace");
        }
        self.elections.close().await;
    }
}

enum Seen {
    Completed,
    Other,
}

fn print(event: Result<RegionEvent, RecvError>) -> anyhow::Result<Seen> {
    match event {
        Ok(RegionEvent::CutCompleted(cut)) => say!("cut {}", cut.seq),
        Ok(RegionEvent::WorkerJoined { worker, .. }) => say!("{worker} has joined"),
        Ok(RegionEvent::WorkerLost { worker, .. }) => say!("{worker} is lost"),
        Ok(RegionEvent::Completed { .. }) => return Ok(Seen::Completed),
        Ok(RegionEvent::Failed { reason }) => bail!("the region has failed: {reason}"),
        Ok(event) => tracing::info!(?event, "region"),
        Err(RecvError::Lagged(_)) => {}
        Err(RecvError::Closed) => bail!("the coordinator has ended"),
    }
    Ok(Seen::Other)
}

fn settings(options: &Options, region: &Region) -> anyhow::Result<CoordinatorSettings> {
    let mut settings = CoordinatorSettings::for_region(region);
    settings.workers = options.workers;
    for (operator, label) in &options.needs {
        let mut instances = settings.shape.instances.iter_mut();
        let named = instances
            .by_ref()
            .filter(|shape| &shape.instance.operator == operator);
        let count = named.map(|shape| shape.labels.push(label.clone())).count();
        ensure!(
            count > 0,
            "--needs: the region has no operator {operator:?}"
        );
    }
    Ok(settings)
}
