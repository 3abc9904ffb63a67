//! One process of the cluster, by its role.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use lockkeeper_consistent_region::admin::RegionAdmin;
use lockkeeper_consistent_region::coordinator::{
    CoordinatorHandle, CoordinatorSettings, ElectedCoordinator, RegionCoordinator, RegionEvent,
    Shape,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::link::remote::RemoteLink;
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::store::CheckpointStore;
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerEnd};
use lockkeeper_core::RpcService;
use lockkeeper_core::admin::ServiceAdmin;
use lockkeeper_core::status::{StatusRegistry, StatusSource};
use lockkeeper_fencing::FencingToken;
use lockkeeper_fencing::election::{ComponentId, LeaderElection, LeaderElectionService};
use lockkeeper_fencing::guard::highest_fence;
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use super::armed::{self, Act, Orders};
use super::cluster::Role;
use super::job::{Election, Job};
use super::relay::Relay;
use super::report::{Report, now_ms, now_ns};
use crate::signals::Signals;

/// The name that the coordinators contend under.
const COMPONENT: &str = "orders";
/// How often a coordinator reports that it leads, if it was told to.
const REPORT_TENURE_EVERY: Duration = Duration::from_millis(20);
/// How long a worker's call to the coordinator may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs one process of the job in `data` until it is killed or told to end, which it is when the
/// region has ended. With `status` it tells how it is.
///
/// # Errors
/// When the job can't be read or a part of the process can't be started.
pub async fn run(data: &Path, place: &Place) -> anyhow::Result<()> {
    // A signal to the whole group of processes is for the one that started them, which tells the
    // others when: what is never looked at is ignored.
    let _ignored = Signals::take()?;
    let node = Node::read(data, place)?;
    match place.role {
        Role::Alone => node.alone(place.number).await,
        Role::Coordinator => node.coordinator(place.report_tenure).await,
        Role::Worker => node.worker(place.number).await,
    }
}

/// What a process is in its cluster.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// What it does.
    pub role: Role,
    /// 0, 1, …
    pub number: u16,
    /// It tells how it is.
    pub status: bool,
    /// Where it listens.
    pub host: IpAddr,
    /// A coordinator reports all the time whether it leads.
    pub report_tenure: bool,
}

/// What every role needs.
struct Node {
    host: IpAddr,
    job: Job,
    region: Region,
    store: Arc<dyn CheckpointStore>,
    hook: Hook,
    finish: watch::Receiver<bool>,
    end: watch::Receiver<bool>,
    /// What is to be done with parts of this process, if it is to tell how they are.
    acts: Option<mpsc::UnboundedReceiver<Act>>,
}

impl Node {
    fn read(data: &Path, place: &Place) -> anyhow::Result<Self> {
        let job = Job::read(data).context("job.json")?;
        let Orders {
            hook,
            finish,
            end,
            acts,
        } = armed::read_orders(armed::report_source());
        Ok(Self {
            region: job.graph()?,
            store: job.open_store()?,
            host: place.host,
            hook,
            finish,
            end,
            acts: place.status.then_some(acts),
            job,
        })
    }

    fn settings(&self) -> CoordinatorSettings {
        let (name, shape) = (self.region.name(), Shape::from(&self.region));
        let mut settings = self.job.settings.region.coordinator(name, shape);
        settings.workers = usize::from(self.job.workers.max(1));
        settings
    }

    /// Tells how the parts in `registry`, and these, are, as long as that is kept.
    fn tell(
        &mut self,
        registry: &StatusRegistry,
        sources: impl IntoIterator<Item = Arc<dyn StatusSource>>,
    ) -> Option<Relay> {
        let acts = self.acts.take()?;
        Some(Relay::start(registry, sources.into_iter().collect(), acts))
    }

    async fn service(&self) -> anyhow::Result<RpcService> {
        let mut settings = self.job.settings.service.clone();
        if !self.host.is_loopback() {
            settings.bind = SocketAddr::new(self.host, 0).to_string();
            settings.allow_insecure = true;
        }
        Ok(settings.builder()?.start().await?)
    }

    /// Contends for the leadership, and coordinates while it has it.
    async fn coordinator(mut self, report_tenure: bool) -> anyhow::Result<()> {
        let service = self.service().await?;
        let options = self.job.settings.election.options();
        let elections = match self.job.election()? {
            Election::File(files) => {
                // a store that is older than its folder of lease files has used epochs already
                let used = highest_fence(&*self.store.guard_store()?)?;
                LeaderElectionService::start(files.with_epochs_above(used), options)?
            }
            Election::ZooKeeper(zookeeper) => LeaderElectionService::start(zookeeper, options)?,
            #[cfg(feature = "etcd")]
            Election::Etcd(etcd) => LeaderElectionService::start(etcd, options)?,
            #[cfg(feature = "kubernetes")]
            Election::Kubernetes(cluster) => LeaderElectionService::start(cluster, options)?,
        };
        let election = elections.election(ComponentId::new(COMPONENT)?);
        let (settings, store) = (self.settings(), Arc::clone(&self.store));
        let election_status = election.status_source();
        let coordinator = ElectedCoordinator::start(
            settings,
            store,
            self.hook.clone(),
            &service,
            election.clone(),
        )
        .await?;
        let region_status = coordinator.status_source(&self.region);
        let _told = self.tell(service.status(), [election_status, region_status]);
        if report_tenure {
            actix_rt::spawn(report_leading(coordinator.token(), election));
        }
        serve_operators(RegionAdmin::elected(&coordinator), &service).await?;
        coordinate(coordinator.handle(), self.finish, self.end).await?;
        service.terminate().await?;
        coordinator.close().await?;
        elections.close().await;
        Ok(())
    }

    /// Runs operators for whoever leads.
    async fn worker(mut self, number: u16) -> anyhow::Result<()> {
        let service = self.service().await?;
        let retrieval = match self.job.election()? {
            Election::File(files) => LeaderRetrievalService::new(files),
            Election::ZooKeeper(zookeeper) => LeaderRetrievalService::new(zookeeper),
            #[cfg(feature = "etcd")]
            Election::Etcd(etcd) => LeaderRetrievalService::new(etcd),
            #[cfg(feature = "kubernetes")]
            Election::Kubernetes(cluster) => LeaderRetrievalService::new(cluster),
        };
        let leader = retrieval.retrieve(ComponentId::new(COMPONENT)?)?;
        let _told = self.tell(service.status(), [leader.status_source()]);
        let link = Arc::new(RemoteLink::new(service.clone(), leader, CALL_TIMEOUT));
        let mut config = self.job.settings.worker.config(format!("worker-{number}"));
        config.hook = self.hook;
        let mut worker =
            RegionWorker::start_remote(self.region, self.store, link, &service, config).await?;
        ServiceAdmin::serve(&service).await?;
        let mut end = self.end;
        tokio::select! {
            ended = worker.ended() => match ended {
                WorkerEnd::RegionEnded => told(&mut end).await,
                ended => anyhow::bail!("the worker has ended: {ended:?}"),
            },
            () = told(&mut end) => {
                worker.stop();
                worker.ended().await;
            }
        }
        Ok(service.terminate().await?)
    }

    /// Coordinator and operators in one process.
    async fn alone(mut self, number: u16) -> anyhow::Result<()> {
        let service = self.service().await?;
        let coordinator = RegionCoordinator::start_local(
            self.settings(),
            Arc::clone(&self.store),
            self.hook.clone(),
        )?;
        let _told = self.tell(service.status(), [coordinator.status_source(&self.region)]);
        let (link, inbox) = coordinator.way().connect();
        let mut config = self.job.settings.worker.config(format!("worker-{number}"));
        config.hook = self.hook;
        config.status = Some(service.status().clone());
        let worker = RegionWorker::start(self.region, self.store, Arc::new(link), inbox, config);
        serve_operators(RegionAdmin::new(coordinator.clone()), &service).await?;
        coordinate(&coordinator, self.finish, self.end).await?;
        service.terminate().await?;
        worker.stop();
        coordinator.halt().await;
        Ok(())
    }
}

/// Reports that this process leads, while it does; never returns.
async fn report_leading(token: watch::Receiver<Option<FencingToken>>, election: LeaderElection) {
    let mut tick = tokio::time::interval(REPORT_TENURE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(token) = *token.borrow() else {
            continue;
        };
        // in this order: it led from its grant, which was before, until the look, which is after
        let at_ns = now_ns();
        if election.has_leadership(token.session) {
            let term = token.epoch;
            Report::Leads { at_ns, term }.write();
        }
    }
}

/// What `lockkeeper` talks to.
async fn serve_operators(admin: RegionAdmin, service: &RpcService) -> anyhow::Result<()> {
    ServiceAdmin::serve(service).await?;
    let admin = admin.before_stop(|| Report::StopAsked.write());
    let address = admin.serve(service).await?.address().to_string();
    Report::Admin { address }.write();
    Ok(())
}

/// Waits until that is wanted. An order that can't come any more is none: the process ends with
/// who gives them.
async fn told(wanted: &mut watch::Receiver<bool>) {
    if wanted.wait_for(|wanted| *wanted).await.is_err() {
        std::future::pending().await
    }
}

/// Passes on what happens to the region, and ends it when that is wanted, until this process is
/// to end.
async fn coordinate(
    coordinator: &CoordinatorHandle,
    mut finish: watch::Receiver<bool>,
    mut end: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let reported = async {
        report_events(coordinator).await;
        std::future::pending().await
    };
    tokio::select! {
        () = told(&mut end) => {}
        () = reported => {}
        () = finish_when_leading(coordinator, &mut finish) => {}
    }
    Ok(())
}

/// Ends the region once that is wanted, while this coordinator leads; never returns.
async fn finish_when_leading(coordinator: &CoordinatorHandle, finish: &mut watch::Receiver<bool>) {
    if finish.wait_for(|wanted| *wanted).await.is_ok() {
        let mut status = coordinator.watch();
        // a standby that takes over meanwhile has the wish too
        while coordinator.stop().await.is_err() {
            if status.changed().await.is_err() {
                break;
            }
        }
    }
    std::future::pending().await
}

/// Passes on what happens to the region until it has ended.
async fn report_events(coordinator: &CoordinatorHandle) {
    let mut events = coordinator.events();
    let mut led = 0;
    loop {
        let event = match events.recv().await {
            Ok(event) => event,
            Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => continue,
            Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
        };
        let term = coordinator.status().term;
        if term > led {
            led = term;
            Report::Leader { term }.write();
        }
        let at = now_ms();
        match event {
            RegionEvent::CutCompleted(cut) => Report::Cut {
                at,
                seq: cut.seq,
                term,
            }
            .write(),
            RegionEvent::ResetBegun { reason, .. } => Report::Reset { at, reason }.write(),
            RegionEvent::Failed { reason } => Report::Failed { reason }.write(),
            RegionEvent::Completed { .. } => {
                return Report::Completed.write();
            }
            event => tracing::info!(?event, "region"),
        }
    }
}
