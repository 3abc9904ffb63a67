//! The actor that carries out what the worker's machine decides.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use lockkeeper_core::status::StatusSource;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::graph::Region;
use crate::graph::topology::{OperatorNode, Role};
use crate::link::local::WorkerInbox;
use crate::link::{CoordinatorLink, LinkError};
use crate::operator::control::{Control, Report, Reset};
use crate::operator::{InstanceHandle, Launch, Operator, Place};
use crate::process::ProcessIdentity;
use crate::protocol::{InstanceId, Placement, Stamp};
use crate::store::CheckpointStore;

use super::config::WorkerConfig;
use super::feed::Feed;
use super::handle::{GetOperator, GetStatus, Stop, WorkerEnd, WorkerHandle, WorkerStatus};
use super::lease::{Lease, since_boot};
use super::machine::{Action, Event, Machine, OperatorFacts, Restoring, Setup};
#[cfg(feature = "remote")]
use super::remote;
use super::shown::WorkerSource;
use super::wiring::{Wiring, wire};

/// Runs the instances of a region that are placed on this process.
pub struct RegionWorker {
    region: Region,
    store: Arc<dyn CheckpointStore>,
    config: WorkerConfig,
    place: Place,
    pub(super) machine: Machine,
    link: Arc<dyn CoordinatorLink>,
    pub(super) calls: FuturesUnordered<BoxFuture<'static, Event>>,
    /// The streams of this attempt to other workers; each resolves to why it broke, if it did.
    pub(super) leaving: FuturesUnordered<BoxFuture<'static, Option<String>>>,
    #[cfg(feature = "remote")]
    border: Option<remote::Border>,
    /// By the number of their launch.
    instances: HashMap<u64, Instance>,
    reports: mpsc::UnboundedSender<Report>,
    launched: usize,
    ended: Option<oneshot::Sender<WorkerEnd>>,
    /// In the registry as long as the actor lives.
    shown: Arc<WorkerSource>,
}

/// What runs here.
struct Instance {
    id: InstanceId,
    handle: InstanceHandle,
}

impl fmt::Debug for RegionWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionWorker")
            .field("region", &self.region.name())
            .field("worker", &self.config.worker)
            .finish_non_exhaustive()
    }
}

struct Parts {
    region: Region,
    store: Arc<dyn CheckpointStore>,
    link: Arc<dyn CoordinatorLink>,
    inbox: WorkerInbox,
    config: WorkerConfig,
}

impl Parts {
    fn start(
        self,
        address: String,
        #[cfg(feature = "remote")] border: Option<remote::Border>,
    ) -> WorkerHandle {
        let Self {
            region,
            store,
            link,
            inbox,
            config,
        } = self;
        let (reports, reported) = mpsc::unbounded_channel();
        let (ended_sender, ended) = oneshot::channel();
        let place = Place {
            region: region.name().into(),
            worker: config.worker.as_str().into(),
            lease: Lease::ended(),
            hook: config.hook.clone(),
            status: config.status.clone().unwrap_or_default(),
        };
        let shown = Arc::new(WorkerSource::new(region.name(), &config.worker));
        let source: Arc<dyn StatusSource> = Arc::clone(&shown) as _;
        place.status.register(&source);
        let machine = Machine::new(setup(&region, &config, address));
        let address = RegionWorker::create(move |actix| {
            actix.spawn(Feed::new(inbox, reported));
            RegionWorker {
                region,
                store,
                config,
                place,
                machine,
                link,
                calls: FuturesUnordered::new(),
                leaving: FuturesUnordered::new(),
                #[cfg(feature = "remote")]
                border,
                instances: HashMap::new(),
                reports,
                launched: 0,
                ended: Some(ended_sender),
                shown,
            }
        });
        WorkerHandle {
            address,
            ended,
            #[cfg(feature = "remote")]
            endpoint: None,
        }
    }
}

impl RegionWorker {
    /// Starts a worker on the current arbiter, for a region that lives in one process.
    ///
    /// `link` and `inbox` come from [`LocalCoordinator::connect`].
    ///
    /// [`LocalCoordinator::connect`]: crate::link::local::LocalCoordinator::connect
    pub fn start(
        region: Region,
        store: Arc<dyn CheckpointStore>,
        link: Arc<dyn CoordinatorLink>,
        inbox: WorkerInbox,
        config: WorkerConfig,
    ) -> WorkerHandle {
        Parts {
            region,
            store,
            link,
            inbox,
            config,
        }
        .start(
            String::new(),
            #[cfg(feature = "remote")]
            None,
        )
    }

    /// Starts a worker on the current arbiter that other processes can reach: the coordinator by
    /// [`WorkerGateway`](crate::link::remote::WorkerGateway), other workers by
    /// [`StreamGateway`](super::StreamGateway), both at the endpoint
    /// `region-worker.<region>.<worker>` of `service`, whose address it registers with.
    ///
    /// `link` leads to the coordinator.
    ///
    /// # Errors
    /// Those of [`RpcService::start_server`](lockkeeper_core::RpcService::start_server): the name
    /// is taken, the service has ended.
    #[cfg(feature = "remote")]
    pub async fn start_remote(
        region: Region,
        store: Arc<dyn CheckpointStore>,
        link: Arc<dyn CoordinatorLink>,
        service: &lockkeeper_core::RpcService,
        mut config: WorkerConfig,
    ) -> Result<WorkerHandle, lockkeeper_core::RpcError> {
        let status = config.status.take();
        config.status = status.or_else(|| Some(service.status().clone()));
        let (notices, inbox) = WorkerInbox::channel();
        let streams = remote::InboundStreams::default();
        let name = format!("region-worker.{}.{}", region.name(), config.worker);
        let endpoint = remote::start(service, &name, notices, streams.clone()).await?;
        let address = endpoint.address().to_string();
        let border = remote::Border {
            service: service.clone(),
            streams,
        };
        let parts = Parts {
            region,
            store,
            link,
            inbox,
            config,
        };
        let mut handle = parts.start(address, Some(border));
        handle.endpoint = Some(endpoint);
        Ok(handle)
    }

    pub(super) fn step(&mut self, event: Event, actix: &mut Context<Self>) {
        self.shown.hear(&event);
        let is_seen = event.is_seen();
        let actions = self.machine.step(since_boot(), event);
        if is_seen {
            self.shown.show(self.machine.view());
        }
        for action in actions {
            self.carry_out(action, actix);
        }
    }

    fn carry_out(&mut self, action: Action, actix: &mut Context<Self>) {
        match action {
            Action::Register(register) => {
                let (link, limit) = (Arc::clone(&self.link), self.config.call_timeout);
                self.call(async move {
                    let answer = within(limit, link.register(register)).await;
                    Event::RegisterAnswered(answer)
                });
            }
            Action::Heartbeat { heartbeat, limit } => {
                let link = Arc::clone(&self.link);
                self.call(async move {
                    Event::HeartbeatAnswered(within(limit, link.heartbeat(heartbeat)).await)
                });
            }
            Action::Progress(progress) => {
                let (link, limit) = (Arc::clone(&self.link), self.config.call_timeout);
                self.call(async move {
                    Event::ProgressAnswered(within(limit, link.progress(progress)).await)
                });
            }
            Action::RenewLease { until } => self.place.lease.renew(until),
            Action::Abandon => {
                self.place.lease.end();
                // What is left of the old instances must not act under a new registration.
                self.place.lease = Lease::ended();
                self.close();
            }
            Action::Launch {
                instance,
                launch,
                stamp,
            } => self.launch(instance, launch, stamp),
            Action::Stop { launch } => {
                self.instances.remove(&launch);
            }
            Action::Reset {
                stamp,
                placement,
                restores,
            } => {
                self.reset(stamp, &placement, restores);
            }
            Action::Drain {
                launch,
                stamp,
                last,
                completed,
            } => {
                let drain = Control::Drain {
                    stamp,
                    last,
                    completed,
                };
                self.control(launch, drain);
            }
            Action::Resume { launch, seq } => self.control(launch, Control::Resume { seq }),
            Action::Hold { launch, held } => self.control(launch, Control::Hold { held }),
            Action::Abandoned { launch, seq } => {
                self.control(launch, Control::Abandoned { seq });
            }
            Action::Checkpointed {
                launch,
                seq,
                oldest_retained,
            } => {
                self.control(
                    launch,
                    Control::Checkpointed {
                        seq,
                        oldest_retained,
                    },
                );
            }
            Action::Leave(progress) => {
                let (link, limit) = (Arc::clone(&self.link), self.config.call_timeout);
                self.call(async move {
                    // One that does not answer finds out by the lease.
                    let _ = within(limit, link.progress(progress)).await;
                    Event::LeaveAnswered
                });
            }
            Action::Finish(end) => {
                self.end(end);
                actix.stop();
            }
        }
    }

    fn call(&mut self, call: impl Future<Output = Event> + Send + 'static) {
        self.calls.push(Box::pin(call));
    }

    fn event(&mut self, event: Event) {
        self.call(std::future::ready(event));
    }

    fn launch(&mut self, instance: InstanceId, launch: u64, stamp: Stamp) {
        let topology = self.region.topology();
        let Some(operator) = topology
            .operators
            .iter()
            .position(|o| o.name == instance.operator)
        else {
            return self.event(Event::Deaf { launch });
        };
        let arbiter = match self.config.arbiters.len() {
            0 => None,
            count => Some(self.config.arbiters[self.launched % count].clone()),
        };
        self.launched += 1;
        let handle = self.region.operator(operator).launch(Launch {
            place: self.place.clone(),
            instance: instance.clone(),
            width: topology.operators[operator].width,
            launch,
            stamp,
            arbiter,
            store: Arc::clone(&self.store),
            reports: self.reports.clone(),
        });
        let id = instance;
        self.instances.insert(launch, Instance { id, handle });
    }

    fn reset(&mut self, stamp: Stamp, placement: &Placement, restores: Vec<Restoring>) {
        let mine: Vec<InstanceId> = restores.iter().map(|one| one.instance.clone()).collect();
        let mut wiring = match wire(&self.region, placement, &mine) {
            Ok(wiring) => wiring,
            Err(error) => {
                return self.broken(stamp, &error.to_string());
            }
        };
        self.open_streams(stamp, &mut wiring);
        for Restoring {
            launch,
            instance,
            restore,
        } in restores
        {
            let ends = wiring.ends.remove(&instance).unwrap_or_default();
            let reset = Reset {
                stamp,
                input: ends.input,
                sides: ends.sides,
                channels: ends.channels,
                routes: ends.routes,
                restore,
            };
            self.control(launch, Control::Reset(Box::new(reset)));
        }
    }

    /// Joins the streams that cross the worker's border.
    fn open_streams(&mut self, stamp: Stamp, wiring: &mut Wiring) {
        self.leaving = FuturesUnordered::new();
        #[cfg(feature = "remote")]
        if let Some(border) = &self.border {
            return match border.open(&self.region, &self.place, stamp, wiring) {
                Some(leaving) => self.leaving = leaving,
                None => self.broken(stamp, "its types do not fit: this is a defect"),
            };
        }
        if let Some(stream) = wiring.outbound.first() {
            let reason = format!(
                "channel {} leads to another worker (registration {} at {:?}), and this one has no \
                 stream endpoint",
                stream.channel, stream.worker_epoch, stream.address
            );
            self.broken(stamp, &reason);
        }
    }

    fn broken(&mut self, stamp: Stamp, reason: &str) {
        let (attempt, reason) = (stamp.attempt, reason.to_owned());
        self.event(Event::StreamBroken { attempt, reason });
    }

    fn control(&mut self, launch: u64, control: Control) {
        let taken = self
            .instances
            .get(&launch)
            .is_some_and(|instance| instance.handle.control(control));
        if !taken {
            self.event(Event::Deaf { launch });
        }
    }

    /// Ends every instance and every stream.
    fn close(&mut self) {
        self.instances.clear();
        self.leaving = FuturesUnordered::new();
        #[cfg(feature = "remote")]
        if let Some(border) = &self.border {
            border.streams.close();
        }
    }

    fn end(&mut self, end: WorkerEnd) {
        self.place.lease.end();
        self.close();
        if let Some(ended) = self.ended.take() {
            // Nobody has to wait for it.
            let _ = ended.send(end);
        }
    }
}

impl Actor for RegionWorker {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.end(WorkerEnd::Stopped);
    }
}

impl Drop for RegionWorker {
    /// Also when its arbiter ends: nothing may act for it any more.
    fn drop(&mut self) {
        self.end(WorkerEnd::Stopped);
    }
}

impl Handler<Stop> for RegionWorker {
    type Result = ();

    fn handle(&mut self, _: Stop, actix: &mut Context<Self>) {
        self.step(Event::Stop, actix);
    }
}

impl Handler<GetStatus> for RegionWorker {
    type Result = WorkerStatus;

    fn handle(&mut self, _: GetStatus, _: &mut Context<Self>) -> WorkerStatus {
        let instances = self.instances.values();
        let mut instances: Vec<_> = instances.map(|instance| instance.id.clone()).collect();
        instances.sort();
        WorkerStatus {
            stamp: self.machine.stamp(),
            completed: self.machine.completed(),
            instances,
            lease: self.place.lease.remaining(),
            sources_paused: self.machine.sources_paused(),
            dropped: self.machine.dropped(),
        }
    }
}

impl<A: Operator> Handler<GetOperator<A>> for RegionWorker {
    type Result = Option<Addr<A>>;

    fn handle(
        &mut self,
        GetOperator(instance, _): GetOperator<A>,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let mut instances = self.instances.values();
        instances.find(|one| one.id == instance)?.handle.address()
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(LinkError::Unreachable(format!(
            "no answer within {limit:?}"
        ))),
    }
}

/// Such a port must know when tuples may flow.
fn has_autonomous_port(node: &OperatorNode) -> bool {
    node.inputs.iter().any(|port| port.autonomous)
}

fn setup(region: &Region, config: &WorkerConfig, address: String) -> Setup {
    let operators = region.topology().operators.iter().enumerate();
    Setup {
        region: region.name().to_owned(),
        worker: config.worker.clone(),
        incarnation: Uuid::new_v4(),
        address,
        slots: config.slots,
        labels: config.labels.clone(),
        graph: region.fingerprint(),
        process: ProcessIdentity::of_this_process(),
        operators: operators
            .map(|(index, node)| {
                let spec = region.operator(index);
                let facts = OperatorFacts {
                    start: node.role == Role::Start,
                    autonomous: !region.members().all.contains(&index),
                    permits: spec.uses_permits() || has_autonomous_port(node),
                    width: node.width,
                    state_type: spec.state_type(),
                    state_version: spec.state_version(),
                    oldest_state_version: spec.oldest_state_version(),
                    rescale: spec.rescale(),
                };
                (node.name.clone(), facts)
            })
            .collect(),
    }
}
