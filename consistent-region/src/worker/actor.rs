//! The actor that carries out what the worker's machine decides.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFuture, Addr, AsyncContext, Context, Handler, Message};
use actix_rt::ArbiterHandle;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use uuid::Uuid;

use crate::graph::Region;
use crate::graph::topology::Role;
use crate::link::local::WorkerInbox;
use crate::link::{CoordinatorLink, LinkError};
use crate::operator::control::{Control, Report, Reset, Restore};
use crate::operator::{InstanceHandle, Launch, Place};
use crate::point::Hook;
use crate::process::ProcessIdentity;
use crate::protocol::{InstanceId, Placement, Refusal, Stamp};
use crate::store::CheckpointStore;

use super::lease::{Lease, since_boot};
use super::machine::{Action, Dropped, Event, Machine, OperatorFacts, Setup};
#[cfg(feature = "remote")]
use super::remote;
use super::wiring::{Wiring, wire};

/// How a worker is set up.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The worker's name, unique in the region; a restarted process keeps it.
    pub worker: String,
    /// How many operator instances it takes.
    pub slots: u16,
    /// Where the operators' actors live, shared out in turn; empty: on the worker's own thread.
    pub arbiters: Vec<ArbiterHandle>,
    /// How long a registration or a progress message may take; 2 s.
    pub call_timeout: Duration,
    /// Where named points are reported to.
    pub hook: Hook,
}

impl WorkerConfig {
    /// A worker with 64 slots whose operators live on its own thread.
    #[must_use]
    pub fn new(worker: impl Into<String>) -> Self {
        Self {
            worker: worker.into(),
            slots: 64,
            arbiters: Vec::new(),
            call_timeout: Duration::from_secs(2),
            hook: Hook::default(),
        }
    }
}

/// Why a worker has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEnd {
    /// The region has ended.
    RegionEnded,
    /// The coordinator will never take this worker: another graph or another region.
    Refused(Refusal),
    /// [`WorkerHandle::stop`] was called, or the actor has stopped.
    Stopped,
}

/// A running worker.
#[derive(Debug)]
pub struct WorkerHandle {
    address: Addr<RegionWorker>,
    ended: oneshot::Receiver<WorkerEnd>,
    #[cfg(feature = "remote")]
    endpoint: Option<lockkeeper_core::RpcServer<remote::WorkerEndpoint>>,
}

impl WorkerHandle {
    /// The worker's actor.
    #[must_use]
    pub fn address(&self) -> &Addr<RegionWorker> {
        &self.address
    }

    /// Where other processes reach the worker; `None` for one that lives in one process or has
    /// ended.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn rpc_address(&self) -> Option<lockkeeper_core::RpcAddress> {
        self.endpoint
            .as_ref()
            .map(lockkeeper_core::RpcServer::address)
    }

    /// Ends the worker at once, without a cut: for the region it is gone.
    pub fn stop(&self) {
        // A worker that has stopped already is what is wanted.
        let _ = self.address.try_send(Stop);
    }

    /// Waits until the worker has ended, and its endpoint with it.
    pub async fn ended(&mut self) -> WorkerEnd {
        let end = (&mut self.ended).await.unwrap_or(WorkerEnd::Stopped);
        #[cfg(feature = "remote")]
        if let Some(endpoint) = self.endpoint.take()
            && let Err(error) = endpoint.terminate().await
        {
            tracing::debug!(%error, "the worker's endpoint did not end by itself");
        }
        end
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

/// Asks a worker how it stands.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "WorkerStatus")]
pub struct GetStatus;

/// How a worker stands.
#[derive(Debug, Clone, PartialEq, Eq, actix::dev::MessageResponse)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// The newest round that it knows of.
    pub stamp: Stamp,
    /// The newest complete cut that it knows of.
    pub completed: u64,
    /// The instances that it runs.
    pub instances: Vec<InstanceId>,
    /// How long it may still act if no heartbeat is answered.
    pub lease: Duration,
    /// Messages that were dropped because they were out of date.
    pub dropped: Dropped,
}

/// Runs the instances of a region that are placed on this process.
pub struct RegionWorker {
    region: Region,
    store: Arc<dyn CheckpointStore>,
    config: WorkerConfig,
    place: Place,
    machine: Machine,
    link: Arc<dyn CoordinatorLink>,
    calls: FuturesUnordered<BoxFuture<'static, Event>>,
    /// The streams of this attempt to other workers; each resolves to why it broke, if it did.
    leaving: FuturesUnordered<BoxFuture<'static, Option<String>>>,
    #[cfg(feature = "remote")]
    border: Option<Border>,
    instances: HashMap<InstanceId, InstanceHandle>,
    reports: mpsc::UnboundedSender<Report>,
    launched: usize,
    ended: Option<oneshot::Sender<WorkerEnd>>,
}

impl fmt::Debug for RegionWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionWorker")
            .field("region", &self.region.name())
            .field("worker", &self.config.worker)
            .finish_non_exhaustive()
    }
}

/// What a worker with streams to other processes has besides.
#[cfg(feature = "remote")]
struct Border {
    service: lockkeeper_core::RpcService,
    streams: remote::InboundStreams,
}

#[cfg(feature = "remote")]
impl Border {
    /// Opens the streams from other workers and makes those to others; `None` when types differ.
    fn open(
        &self,
        region: &Region,
        place: &Place,
        stamp: Stamp,
        wiring: &mut Wiring,
    ) -> Option<FuturesUnordered<BoxFuture<'static, Option<String>>>> {
        let attempt = stamp.attempt;
        let worker_epoch = wiring.worker_epoch;
        let mut inbound = HashMap::new();
        for (channel, sender) in wiring.inbound.drain() {
            let connection = region.plan().channels[channel].connection;
            inbound.insert(
                channel,
                region.connection(connection).inbound(channel, sender)?,
            );
        }
        self.streams.open(
            remote::Generation {
                attempt,
                worker_epoch,
            },
            inbound,
        );
        let leaving = FuturesUnordered::new();
        for stream in wiring.outbound.drain(..) {
            let items = region
                .connection(stream.connection)
                .outbound(stream.receiver)?;
            let border = remote::Border {
                place: place.clone(),
                service: self.service.clone(),
                address: stream.address,
                generation: remote::Generation {
                    attempt,
                    worker_epoch: stream.worker_epoch,
                },
                channel: u32::try_from(stream.channel).ok()?,
            };
            leaving.push(Box::pin(remote::send_stream(border, items)) as BoxFuture<'static, _>);
        }
        Some(leaving)
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
        #[cfg(feature = "remote")] border: Option<Border>,
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
        };
        let machine = Machine::new(setup(&region, &config, address));
        let address = RegionWorker::create(move |actix| {
            actix.spawn(Pump {
                inbox,
                reported,
                timer: None,
                inbox_open: true,
            });
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
    /// [`WorkerGateway`](super::WorkerGateway), other workers by
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
        config: WorkerConfig,
    ) -> Result<WorkerHandle, lockkeeper_core::RpcError> {
        let (notices, inbox) = WorkerInbox::channel();
        let streams = remote::InboundStreams::default();
        let name = format!("region-worker.{}.{}", region.name(), config.worker);
        let endpoint = remote::start(service, &name, notices, streams.clone()).await?;
        let address = endpoint.address().to_string();
        let border = Border {
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

    fn step(&mut self, event: Event, actix: &mut Context<Self>) {
        let actions = self.machine.step(since_boot(), event);
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
            Action::Stop { instance } => {
                self.instances.remove(&instance);
            }
            Action::Reset {
                stamp,
                placement,
                restores,
            } => {
                self.reset(stamp, &placement, restores);
            }
            Action::Drain {
                instance,
                stamp,
                last,
            } => {
                self.control(&instance, Control::Drain { stamp, last });
            }
            Action::Resume { instance } => self.control(&instance, Control::Resume),
            Action::Checkpointed {
                instance,
                seq,
                oldest_retained,
            } => {
                self.control(
                    &instance,
                    Control::Checkpointed {
                        seq,
                        oldest_retained,
                    },
                );
            }
            Action::Finish(result) => {
                self.end(result.map_or_else(WorkerEnd::Refused, |()| WorkerEnd::RegionEnded));
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
            return self.event(Event::Deaf(instance));
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
        self.instances.insert(instance, handle);
    }

    fn reset(&mut self, stamp: Stamp, placement: &Placement, restores: Vec<(InstanceId, Restore)>) {
        let mine: Vec<InstanceId> = restores.iter().map(|(id, _)| id.clone()).collect();
        let mut wiring = match wire(&self.region, placement, &mine) {
            Ok(wiring) => wiring,
            Err(error) => {
                return self.broken(stamp, &error.to_string());
            }
        };
        self.open_streams(stamp, &mut wiring);
        for (instance, restore) in restores {
            let ends = wiring.ends.remove(&instance).unwrap_or_default();
            let reset = Reset {
                stamp,
                input: ends.input,
                channels: ends.channels,
                routes: ends.routes,
                restore,
            };
            self.control(&instance, Control::Reset(Box::new(reset)));
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

    fn control(&mut self, instance: &InstanceId, control: Control) {
        let taken = self
            .instances
            .get(instance)
            .is_some_and(|handle| handle.control(control));
        if !taken {
            self.event(Event::Deaf(instance.clone()));
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
        self.end(WorkerEnd::Stopped);
        actix.stop();
    }
}

impl Handler<GetStatus> for RegionWorker {
    type Result = WorkerStatus;

    fn handle(&mut self, _: GetStatus, _: &mut Context<Self>) -> WorkerStatus {
        let mut instances: Vec<_> = self.instances.keys().cloned().collect();
        instances.sort();
        WorkerStatus {
            stamp: self.machine.stamp(),
            completed: self.machine.completed(),
            instances,
            lease: self.place.lease.remaining(),
            dropped: self.machine.dropped(),
        }
    }
}

/// Feeds the machine: answers, notices, reports, time.
struct Pump {
    inbox: WorkerInbox,
    inbox_open: bool,
    reported: mpsc::UnboundedReceiver<Report>,
    timer: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl Pump {
    fn poll_event(
        &mut self,
        worker: &mut RegionWorker,
        task: &mut task::Context<'_>,
    ) -> Poll<Event> {
        if let Poll::Ready(Some(event)) = worker.calls.poll_next_unpin(task) {
            return Poll::Ready(event);
        }
        while let Poll::Ready(Some(end)) = worker.leaving.poll_next_unpin(task) {
            if let Some(reason) = end {
                let attempt = worker.machine.stamp().attempt;
                return Poll::Ready(Event::StreamBroken { attempt, reason });
            }
        }
        if let Poll::Ready(Some(report)) = self.reported.poll_recv(task) {
            return Poll::Ready(Event::Report(report));
        }
        if self.inbox_open {
            match self.inbox.poll_next(task) {
                Poll::Ready(Some(notice)) => return Poll::Ready(Event::Notice(notice)),
                // Notices still come with the answers to heartbeats.
                Poll::Ready(None) => self.inbox_open = false,
                Poll::Pending => {}
            }
        }
        self.poll_timer(worker, task)
    }

    fn poll_timer(&mut self, worker: &RegionWorker, task: &mut task::Context<'_>) -> Poll<Event> {
        let Some(at) = worker.machine.wake_at() else {
            self.timer = None;
            return Poll::Pending;
        };
        let now = since_boot();
        if at <= now {
            return Poll::Ready(Event::Tick);
        }
        if self.timer.as_ref().is_none_or(|(set, _)| *set != at) {
            self.timer = Some((at, Box::pin(tokio::time::sleep(at - now))));
        }
        if let Some((_, timer)) = &mut self.timer
            && timer.as_mut().poll(task).is_ready()
        {
            // Tokio's clock stands still while the machine sleeps: look at ours again.
            self.timer = None;
            return Poll::Ready(Event::Tick);
        }
        Poll::Pending
    }
}

impl ActorFuture<RegionWorker> for Pump {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        worker: &mut RegionWorker,
        actix: &mut Context<RegionWorker>,
        task: &mut task::Context<'_>,
    ) -> Poll<()> {
        let pump = self.get_mut();
        for _ in 0..EVENTS_PER_TURN {
            match pump.poll_event(worker, task) {
                Poll::Ready(event) => worker.step(event, actix),
                Poll::Pending => return Poll::Pending,
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Events before other tasks of the arbiter get their turn.
const EVENTS_PER_TURN: usize = 64;

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

fn setup(region: &Region, config: &WorkerConfig, address: String) -> Setup {
    let operators = region.topology().operators.iter().enumerate();
    Setup {
        region: region.name().to_owned(),
        worker: config.worker.clone(),
        incarnation: Uuid::new_v4(),
        address,
        slots: config.slots,
        graph: region.fingerprint(),
        process: ProcessIdentity::of_this_process(),
        operators: operators
            .map(|(index, node)| {
                let spec = region.operator(index);
                let facts = OperatorFacts {
                    start: node.role == Role::Start,
                    width: node.width,
                    state_type: spec.state_type(),
                    state_version: spec.state_version(),
                };
                (node.name.clone(), facts)
            })
            .collect(),
    }
}
