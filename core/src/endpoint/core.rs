//! What all parts of one endpoint share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use metrics::Gauge;
use tokio::{
    sync::{broadcast, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Method, RpcEndpoint, ServedGateway,
    entry::{Call, Entry, Header, Job, QueuedJob},
    fence::{Begun, Fence, TokenCheck},
    inbox::{Inbox, Rejected},
    incarnation::Incarnation,
    lifecycle::{Control, EndpointState, Event},
};
use crate::{
    address::RpcAddress,
    dead_letter::DeadLetter,
    error::{RpcError, RpcErrorKind},
    measure::{self, MethodMetrics, QueueMetrics},
    service::Shared,
    status::StatusEvent,
    token::FencingToken,
    watchdog::Watched,
};

/// How an endpoint ended, once it has.
pub(crate) type Termination = Option<Result<(), RpcError>>;

/// What the supervisor is told.
pub(crate) enum Request {
    Control {
        control: Control,
        answer: oneshot::Sender<Result<(), RpcError>>,
    },
    Abort(RpcError),
}

pub(crate) struct Core<A: RpcEndpoint> {
    pub(crate) address: RpcAddress,
    pub(crate) shared: Arc<Shared>,
    pub(crate) gateways: Vec<ServedGateway<A>>,
    /// The methods of all gateways, one after the other.
    pub(crate) methods: Vec<&'static Method<A>>,
    /// One for each of them.
    pub(crate) metrics: Vec<MethodMetrics>,
    queue: QueueMetrics,
    in_flight: Gauge,
    pub(crate) status_events: broadcast::Sender<StatusEvent>,
    pub(crate) inbox: Inbox<A>,
    pub(crate) fence: Fence,
    /// A panic caught in a handler ends the incarnation.
    pub(crate) restart_after_panic: bool,
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) events: mpsc::UnboundedSender<(u64, Event)>,
    pub(crate) termination: watch::Sender<Termination>,
    pub(crate) state: watch::Sender<EndpointState>,
    incarnation: Mutex<Arc<Incarnation>>,
    /// Calls whose handlers have returned a future: number → method.
    pending: Mutex<BTreeMap<u64, &'static str>>,
    next_call: AtomicU64,
    /// A serial endpoint has a call in flight.
    busy: AtomicBool,
    handled: AtomicU64,
}

/// The supervisor's ends of the channels.
pub(crate) struct Ends {
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) events: mpsc::UnboundedReceiver<(u64, Event)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Status events that a slow reader may be behind.
const STATUS_EVENTS: usize = 64;

/// Control messages that may wait for the supervisor.
const CONTROL_LANE: usize = 64;

impl<A: RpcEndpoint> Core<A> {
    pub(crate) fn new(
        address: RpcAddress,
        shared: Arc<Shared>,
        token: Option<FencingToken>,
        restart_after_panic: bool,
    ) -> (Self, Ends) {
        let (requests, request_end) = mpsc::channel(CONTROL_LANE);
        let (events, event_end) = mpsc::unbounded_channel();
        let gateways = A::gateways();
        let name = address.endpoint().as_str();
        let methods = gateways.iter().flat_map(|g| g.methods).collect::<Vec<_>>();
        let metrics = methods
            .iter()
            .map(|method| MethodMetrics::new(name, method.name))
            .collect();
        let in_flight = measure::in_flight(name);
        let queue = QueueMetrics::new(name);
        let core = Self {
            address,
            inbox: Inbox::new(shared.settings.inbox),
            shared,
            methods,
            metrics,
            queue,
            in_flight,
            status_events: broadcast::Sender::new(STATUS_EVENTS),
            gateways,
            fence: Fence::new(token),
            restart_after_panic,
            requests,
            events,
            termination: watch::Sender::new(None),
            state: watch::Sender::new(EndpointState::Stopped),
            incarnation: Mutex::new(Arc::new(Incarnation::new(0))),
            pending: Mutex::new(BTreeMap::new()),
            next_call: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            handled: AtomicU64::new(0),
        };
        (
            core,
            Ends {
                requests: request_end,
                events: event_end,
            },
        )
    }

    /// Puts an entry into the inbox and wakes the actor if need be.
    pub(crate) fn push(self: &Arc<Self>, entry: Entry<A>) -> Result<(), Rejected<A>> {
        self.inbox.push(entry).map_err(|mut rejected| {
            rejected.1 = rejected.1.in_context(&self.address);
            rejected
        })
    }

    /// Answers an entry that won't run: the caller if it asks, else a dead letter.
    pub(crate) fn refuse(&self, entry: Entry<A>, error: RpcError) {
        match entry {
            Entry::Call { call, .. } => self.refuse_call(call, error),
            Entry::Job(job) => job.job.refuse(error),
        }
    }

    pub(crate) fn refuse_call(&self, call: Call, error: RpcError) {
        let kind = error.kind();
        if !call.is_ask() {
            self.shared.dead_letters.refusal(kind);
            self.dead_letter(call.header(), error);
        } else if call.refuse(error) {
            self.shared.dead_letters.refusal(kind);
        } else {
            self.shared.dead_letters.refusal(RpcErrorKind::Cancelled);
        }
    }

    pub(crate) fn dead_letter(&self, header: &Header, reason: RpcError) {
        self.shared.dead_letters.letter(&DeadLetter {
            endpoint: self.address.endpoint().clone(),
            method: header.method,
            caller: header.caller.clone(),
            reason,
        });
    }

    /// Puts a closure into the inbox, to run under the endpoint's present token.
    pub(crate) fn submit_job(self: &Arc<Self>, name: &'static str, job: Box<dyn Job<A>>) {
        match self.present_check() {
            Ok(check) => self.submit_job_under(check, name, job),
            Err(error) => job.refuse(error),
        }
    }

    /// The same under the token that a check was made of.
    pub(crate) fn submit_job_under(
        self: &Arc<Self>,
        check: TokenCheck,
        name: &'static str,
        job: Box<dyn Job<A>>,
    ) {
        let header = Header {
            method: name,
            sent: Instant::now(),
            deadline: None,
            check,
            caller: crate::transport::Caller::Local,
            trace: None,
            bytes: size_of_val(&*job),
        };
        let queued = QueuedJob { header, job };
        if let Err(rejected) = self.push(Entry::Job(Box::new(queued))) {
            let (entry, error) = *rejected;
            self.refuse(entry, error);
        }
    }

    /// The place of a gateway's method in the endpoint's table.
    pub(crate) fn method(&self, gateway: usize, method: u16) -> Option<usize> {
        let (before, rest) = self.gateways.split_at_checked(gateway)?;
        let before = before.iter().map(|g| g.methods.len()).sum::<usize>();
        let method = usize::from(method);
        (method < rest.first()?.methods.len()).then_some(before + method)
    }

    /// What work of the endpoint's own must show: its present token, if it is fenced.
    pub(crate) fn present_check(&self) -> Result<TokenCheck, RpcError> {
        if !<A::Fencing as crate::gateway::FencingMode>::FENCED {
            return Ok(TokenCheck::None);
        }
        self.fence.token().map(TokenCheck::of).ok_or_else(|| {
            RpcError::new(
                RpcErrorKind::Fenced(crate::error::FencingViolation::NotLeader),
                format!("{} has no token: it does not lead", self.address),
            )
        })
    }

    pub(crate) fn incarnation(&self) -> Arc<Incarnation> {
        Arc::clone(&lock(&self.incarnation))
    }

    pub(crate) fn set_incarnation(&self, incarnation: Arc<Incarnation>) {
        *lock(&self.incarnation) = incarnation;
        self.busy.store(false, Ordering::SeqCst);
    }

    /// Notes a call whose handler has returned a future.
    pub(crate) fn note_pending(
        self: &Arc<Self>,
        method: &'static str,
        begun: Begun,
        began: (usize, Instant),
    ) -> Pending<A> {
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        lock(&self.pending).insert(number, method);
        self.in_flight.increment(1);
        let incarnation = self.incarnation();
        if A::SERIAL {
            self.busy.store(true, Ordering::SeqCst);
        }
        let revoked = self.fence.revoked(&begun);
        Pending {
            core: Arc::clone(self),
            number,
            began,
            begun,
            revoked,
            incarnation,
        }
    }

    /// Tells whoever watches the endpoint's status.
    pub(crate) fn tell(&self, text: impl Into<String>) {
        // Nobody watches: nobody is told.
        let _ = self.status_events.send(StatusEvent::now(text));
    }

    pub(crate) fn is_busy(&self) -> bool {
        A::SERIAL && self.busy.load(Ordering::SeqCst)
    }

    pub(crate) fn note_handled(&self) {
        self.handled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// The methods of the calls whose futures run.
    pub(crate) fn pending_methods(&self) -> Vec<&'static str> {
        lock(&self.pending).values().copied().collect()
    }

    pub(crate) fn termination_now(&self) -> Termination {
        self.termination.borrow().clone()
    }

    /// Resolves when the endpoint has ended and its name is free.
    pub(crate) async fn terminated(
        mut ended: watch::Receiver<Termination>,
    ) -> Result<(), RpcError> {
        match ended.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or(Ok(())),
            Err(_) => Err(RpcError::new(
                RpcErrorKind::Stopped,
                "the endpoint was dropped without being terminated",
            )),
        }
    }

    /// Tells the supervisor something and awaits its answer.
    pub(crate) async fn control(&self, control: Control) -> Result<(), RpcError> {
        let gone = || {
            if control == Control::Terminate {
                return Ok(());
            }
            Err(RpcError::new(
                RpcErrorKind::InvalidState,
                format!(
                    "{}: an endpoint that is TERMINATED takes no {control:?}",
                    self.address
                ),
            ))
        };
        let (answer, answered) = oneshot::channel();
        if self
            .requests
            .send(Request::Control { control, answer })
            .await
            .is_err()
        {
            return gone();
        }
        answered
            .await
            .unwrap_or_else(|_| gone())
            .map_err(|error| error.in_context(&self.address))
    }

    /// Ends the endpoint at once.
    pub(crate) async fn abort(&self, cause: RpcError) {
        // A supervisor that is gone has ended the endpoint already.
        let _ = self.requests.send(Request::Abort(cause)).await;
    }
}

/// A call in flight, from its handler's return to its answer.
pub(crate) struct Pending<A: RpcEndpoint> {
    core: Arc<Core<A>>,
    number: u64,
    /// The method's place in the table, and when its handler began.
    began: (usize, Instant),
    begun: Begun,
    revoked: Option<CancellationToken>,
    pub(crate) incarnation: Arc<Incarnation>,
}

impl<A: RpcEndpoint> Pending<A> {
    /// Why the call may not reply any more.
    pub(crate) fn refuse_reply(&self) -> Result<(), RpcError> {
        self.core.fence.refuse_reply(&self.begun)
    }

    /// Resolves when the token is revoked under which the call began; never, if there was none.
    pub(crate) async fn revoked(&self) {
        match &self.revoked {
            Some(revoked) => revoked.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl<A: RpcEndpoint> Drop for Pending<A> {
    fn drop(&mut self) {
        let (method, began) = self.began;
        if let Some(metrics) = self.core.metrics.get(method) {
            metrics.answered(began.elapsed());
        }
        lock(&self.core.pending).remove(&self.number);
        self.core.in_flight.decrement(1);
        self.core.fence.end(&self.begun);
        let is_present = lock(&self.core.incarnation).number == self.incarnation.number;
        if A::SERIAL && is_present {
            self.core.busy.store(false, Ordering::SeqCst);
            self.core.inbox.wake();
        }
    }
}

impl<A: RpcEndpoint> Watched for Core<A> {
    fn activity(&self) -> (u64, Option<usize>) {
        self.incarnation().activity.seen()
    }

    fn looked_at(&self) {
        self.queue.seen(self.inbox.age(), self.inbox.waiting().0);
    }

    fn stalled(&self, method: Option<usize>, since: Duration) {
        let found = method.and_then(|number| self.methods.get(number));
        let name = match (method, found) {
            (_, Some(method)) => method.name,
            (Some(_), None) => "a closure",
            (None, None) => "a future or a message of its own mailbox",
        };
        measure::stall(self.address.endpoint().as_str(), name);
        tracing::warn!(endpoint = %self.address, method = name, ?since, "holds its arbiter");
        self.tell(format!("{name} has held the arbiter for {since:?}"));
    }
}
