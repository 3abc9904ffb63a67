//! The task that owns a connection's machine and socket.
//!
//! Reads come in batches, everything that is to be written goes into one buffer and leaves with
//! one write when there is nothing more to collect. Reading never waits for writing: two sides
//! that both wait to write would never read.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use lockkeeper_core::transport::{Caller, Handshake, InboundCall, InboundEndpoint, ReplySink};
use lockkeeper_core::{RpcError, RpcErrorKind};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::served::Served;
use super::stream::{FrameStream, Ready};
use super::{Asked, BoxStream, LinkHandle, Opened, Request, Room};
use crate::connection::{
    Action, CallEnd, Connection, Event, Host, Loss, OpenEnd, Settings, TellLoss, Ticket,
};
use crate::errors;
use crate::lost::Lost;
use crate::meters::Meters;
use crate::quiet_log::QuietLog;
use crate::wire::{Connect, Fault, FrameCodec, Grant, WireError};

/// The types that the machine keeps for this shell.
pub(crate) struct Shell;

impl Host for Shell {
    type Waiter = oneshot::Sender<CallEnd>;
    type Opener = Opener;
    type Served = Served;
    type Cancel = CancellationToken;
}

/// Waits for a session.
pub(crate) struct Opener {
    opener: oneshot::Sender<Opened>,
    asked: Arc<Asked>,
}

/// Finds the living endpoint of a name.
pub(crate) type Endpoints = Arc<dyn Fn(&str) -> Option<Arc<dyn InboundEndpoint>> + Send + Sync>;

/// With more outgoing bytes than this, callers' requests wait in their queue, where their room is
/// counted.
const HIGH_WATER: usize = 512 * 1024;

/// Bytes that are written, or payload bytes that are read, before other work gets its turn.
const TURN: usize = 256 * 1024;

/// Events of one kind that are taken before the socket gets its turn.
const BATCH: usize = 256;

/// What endpoints have done.
pub(super) enum Done {
    Answered {
        ticket: Ticket,
        result: Result<Bytes, Fault>,
    },
    /// One-way messages of a session have left the inbox.
    Freed { session: u32 },
    /// A session's endpoint has ended.
    Ended { session: u32, fault: Fault },
}

/// One connection's task.
pub(crate) struct LinkTask {
    handle: Arc<LinkHandle>,
    endpoints: Endpoints,
    log: Arc<QuietLog>,
    lost: Arc<Lost>,
    caller: Caller,
    machine: Connection<Shell>,
    stream: FrameStream,
    requests: mpsc::UnboundedReceiver<Request>,
    done: mpsc::UnboundedReceiver<Done>,
    doing: mpsc::UnboundedSender<Done>,
    /// Sessions that this side has at the peer.
    asked: HashMap<u32, Arc<Asked>>,
    /// Sessions that are served to the peer.
    served: HashMap<u32, Served>,
    grant: Grant,
    events: VecDeque<Event<Shell>>,
    actions: Vec<Action<Shell>>,
    closing: Option<Loss>,
    meters: Meters,
}

impl LinkTask {
    pub(crate) fn new(
        stream: BoxStream,
        handle: Arc<LinkHandle>,
        requests: mpsc::UnboundedReceiver<Request>,
        settings: Settings,
        endpoints: Endpoints,
        log: Arc<QuietLog>,
        lost: Arc<Lost>,
    ) -> Self {
        let (doing, done) = mpsc::unbounded_channel();
        let codec = FrameCodec::new(settings.frame_limit);
        let grant = settings.grant;
        let name = match &handle.peer().listening {
            Some(authority) => authority.to_string(),
            None => handle.peer().socket.to_string(),
        };
        Self {
            caller: Caller::Remote(name.into()),
            machine: Connection::new(settings, Instant::now()),
            stream: FrameStream::new(stream, codec),
            handle,
            endpoints,
            log,
            lost,
            requests,
            done,
            doing,
            asked: HashMap::new(),
            served: HashMap::new(),
            grant,
            events: VecDeque::new(),
            actions: Vec::new(),
            closing: None,
            meters: Meters::new(),
        }
    }

    /// Runs until the connection is over; all that was in flight has its end then.
    pub(crate) async fn run(mut self) {
        let timer = tokio::time::sleep_until(self.machine.next_tick().into());
        tokio::pin!(timer);
        while self.closing.is_none() {
            let next = tokio::time::Instant::from_std(self.machine.next_tick());
            if next < timer.deadline() {
                timer.as_mut().reset(next);
            }
            let unsent = self.machine.unsent();
            let takes_requests = unsent.len() < HIGH_WATER;
            tokio::select! {
                biased;
                ready = poll_fn(|cx| self.stream.poll(unsent, cx)) => self.ready(ready),
                Some(done) = self.done.recv() => self.done(done),
                Some(request) = self.requests.recv(), if takes_requests => self.request(request),
                () = &mut timer => {
                    // Signs of life move the machine's next tick without moving the timer.
                    if self.machine.next_tick() <= Instant::now() {
                        self.step(Event::Tick);
                    }
                    let next = tokio::time::Instant::from_std(self.machine.next_tick());
                    timer.as_mut().reset(next);
                }
            }
            self.collect();
            self.write();
            let received = self.stream.take_received();
            self.meters.received(received);
            self.handle.traffic().add_received(received);
            let calls = self.machine.calls_in_flight();
            self.meters.calls(calls);
            self.handle
                .set_in_flight(calls, self.machine.calls_served());
            let traffic = self.handle.traffic();
            traffic.set_round_trip(self.machine.round_trip());
        }
        self.finish().await;
    }

    fn step(&mut self, event: Event<Shell>) {
        let now = Instant::now();
        self.machine.step(now, event, &mut self.actions);
        loop {
            if self.machine.is_gone() {
                // Before its callers hear of it: what they do next must find another connection.
                self.handle.mark_retired();
            }
            let mut actions = std::mem::take(&mut self.actions);
            for action in actions.drain(..) {
                self.act(action);
            }
            self.actions = actions;
            match self.events.pop_front() {
                Some(event) => self.machine.step(now, event, &mut self.actions),
                None => return,
            }
        }
    }

    fn ready(&mut self, ready: Ready) {
        match ready {
            Ready::Read(frame) => self.read(frame),
            Ready::Wrote(wrote) => self.wrote(wrote),
            Ready::Flushed => {}
        }
    }

    fn wrote(&mut self, wrote: std::io::Result<usize>) {
        match wrote {
            Ok(size) => {
                self.meters.sent(size);
                self.handle.traffic().add_sent(size);
                self.step(Event::Wrote(size));
            }
            Err(error) => self.step(Event::Broken(Loss::Io(error.kind()))),
        }
    }

    /// Takes the frame and those behind it that are in the buffer already.
    fn read(&mut self, first: Option<Result<crate::wire::Frame, WireError>>) {
        let mut next = Some(first);
        let (mut frames, mut bytes) = (0, 0);
        while let Some(frame) = next {
            match frame {
                Some(Ok(frame)) => {
                    bytes += frame.payload().len();
                    self.step(Event::Received(frame));
                }
                Some(Err(WireError::Io(kind))) => self.step(Event::Broken(Loss::Io(kind))),
                Some(Err(error)) => self.step(Event::Unreadable(error)),
                None => self.step(Event::Broken(Loss::Closed)),
            }
            frames += 1;
            if frames >= BATCH || bytes >= TURN || self.closing.is_some() {
                return;
            }
            next = self.stream.try_read();
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Answered { ticket, result } => self.step(Event::Answer { ticket, result }),
            Done::Freed { session } => {
                if let Some(served) = self.served.get(&session) {
                    let grant = served.freed();
                    self.step(Event::Freed { session, grant });
                }
            }
            Done::Ended { session, fault } => self.step(Event::Ended { session, fault }),
        }
    }

    fn request(&mut self, request: Request) {
        match request {
            Request::Open {
                connect,
                deadline,
                asked,
                opener,
            } => {
                self.step(Event::Open {
                    connect,
                    deadline,
                    opener: Opener { opener, asked },
                });
            }
            Request::Call {
                call,
                session,
                method,
                deadline,
                trace,
                payload,
                room,
                waiter,
            } => {
                // Given up while it waited here: it was never sent, nothing is to be cancelled.
                if waiter.is_closed() {
                    self.handle.free(room);
                    return;
                }
                let room = self.taken(room);
                self.step(Event::Call {
                    call,
                    session,
                    method,
                    deadline,
                    trace,
                    payload,
                    room,
                    waiter,
                });
            }
            Request::Tell {
                session,
                method,
                trace,
                payload,
                room,
            } => {
                let room = self.taken(room);
                self.step(Event::Tell {
                    session,
                    method,
                    trace,
                    payload,
                    room,
                });
            }
            Request::Cancel { call } => self.step(Event::Cancel { call }),
            Request::Leave { session } => {
                self.asked.remove(&session);
                self.step(Event::Leave { session });
            }
            Request::Retire { reason, text } => self.step(Event::Retire { reason, text }),
        }
    }

    /// A message leaves the queue. Returns the room that it holds beyond that, until it is out.
    fn taken(&self, room: Room) -> u32 {
        if room.large {
            return room.share;
        }
        self.handle.free(room);
        0
    }

    /// Takes what else waits, so that it leaves with the same write.
    fn collect(&mut self) {
        for _ in 0..BATCH {
            match self.done.try_recv() {
                Ok(done) => self.done(done),
                Err(_) => break,
            }
        }
        for _ in 0..BATCH {
            if self.machine.unsent().len() >= HIGH_WATER {
                break;
            }
            match self.requests.try_recv() {
                Ok(request) => self.request(request),
                Err(_) => break,
            }
        }
    }

    /// Writes what the socket takes without waiting, up to a turn's share: a fast reader of a long
    /// transfer must not keep this thread from others.
    fn write(&mut self) {
        let mut written = 0;
        while !self.machine.unsent().is_empty() && written < TURN {
            let Some(wrote) = self.stream.try_write(self.machine.unsent()) else {
                break;
            };
            written += wrote.as_ref().map_or(0, |size| *size);
            self.wrote(wrote);
        }
        self.stream.try_flush();
    }

    fn act(&mut self, action: Action<Shell>) {
        match action {
            // A receiver that went away has no use for its end.
            Action::Resolve { waiter, end } => drop(waiter.send(end)),
            Action::Opened { opener, end } => self.opened(opener, end),
            Action::Accept(connect) => {
                let request = connect.request;
                let result = self.accept(connect).map_err(|error| Fault::from(&error));
                self.events.push_back(Event::Accepted { request, result });
            }
            Action::Serve { ticket, serve } => {
                let doing = self.doing.clone();
                let reply = ReplySink::new(move |answer| {
                    let result = answer.map_err(|error| Fault::from(&error));
                    // After the connection's end nobody wants it.
                    drop(doing.send(Done::Answered { ticket, result }));
                });
                let call = InboundCall {
                    method: serve.method,
                    payload: serve.payload,
                    deadline: serve.deadline.map(tokio::time::Instant::from_std),
                    cancellation: serve.cancel,
                };
                match serve.trace {
                    None => serve.served.session.ask(call, reply),
                    Some(trace) => serve.served.session.ask_traced(call, reply, *trace),
                }
            }
            Action::Serving { session, served } => {
                served.begin(session);
                self.served.insert(session, served);
            }
            Action::NotServing { session } => {
                self.served.remove(&session);
            }
            Action::Granted { session, grant } => {
                if let Some(asked) = self.asked.get(&session) {
                    asked.grant(grant);
                }
            }
            Action::SessionEnded { session, fault } => {
                if let Some(asked) = self.asked.remove(&session) {
                    asked.finish(fault.into());
                }
            }
            Action::ServeTell {
                served,
                method,
                trace,
                payload,
            } => {
                let call = InboundCall {
                    method,
                    payload: served.held(payload),
                    deadline: None,
                    cancellation: CancellationToken::new(),
                };
                match trace {
                    None => served.session.tell(call),
                    Some(trace) => served.session.tell_traced(call, *trace),
                }
            }
            Action::CancelServed(cancel) => cancel.cancel(),
            Action::Free(share) => self.handle.free(Room { share, large: true }),
            Action::Discard(payload) => {
                tokio::task::spawn_blocking(move || drop(payload));
            }
            Action::TellLost {
                session,
                method,
                loss,
            } => self.tell_lost(session, method, &loss),
            Action::PeerLeaves { reason, text } => {
                self.handle.mark_retired();
                tracing::debug!(peer = %self.caller, ?reason, text, "the peer leaves a connection");
            }
            Action::Close(loss) => self.closing = Some(loss),
        }
    }

    fn opened(&mut self, Opener { opener, asked }: Opener, end: OpenEnd) {
        let OpenEnd::Session { session, grant } = end else {
            // A receiver that went away has no use for its end.
            drop(opener.send(end));
            return;
        };
        asked.open(grant);
        self.handle.session_opened(&asked);
        self.asked.insert(session, asked);
        if opener.send(end).is_err() {
            self.asked.remove(&session);
            self.events.push_back(Event::Leave { session });
        }
    }

    fn accept(&self, connect: Connect) -> Result<Served, RpcError> {
        let Some(endpoint) = (self.endpoints)(&connect.endpoint) else {
            return Err(RpcError::new(
                RpcErrorKind::NoSuchEndpoint,
                format!("no endpoint {:?} lives in this process", connect.endpoint),
            ));
        };
        let session = endpoint.accept(Handshake {
            gateway: connect.gateway,
            version: connect.gateway_version,
            methods: connect.methods,
            shapes: connect.shapes,
            token: connect.token,
            caller: self.caller.clone(),
        })?;
        Ok(Served::new(session, self.grant, self.doing.clone()))
    }

    fn tell_lost(&self, session: u32, method: u16, loss: &TellLoss) {
        match (loss, self.asked.get(&session)) {
            (TellLoss::UnknownSession, _) | (_, None) => self.lost.unnamed(&self.caller, loss),
            (_, Some(asked)) => {
                let method = asked.method_name(method);
                let reason = errors::lost(&self.caller, loss);
                self.lost.unsent(&asked.endpoint, method, reason);
            }
        }
    }

    fn log_end(&self, loss: &Loss) {
        let peer = &self.caller;
        match loss {
            Loss::Left(..) | Loss::Closed => tracing::debug!(%peer, %loss, "connection ended"),
            _ => self
                .log
                .warn(format_args!("connection with {peer} lost: {loss}")),
        }
    }

    /// Resolves what never reached the machine, and closes the socket.
    async fn finish(mut self) {
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            self.request(request);
        }
        let loss = self.closing.take().unwrap_or(Loss::Closed);
        self.log_end(&loss);
        self.handle.set_closed(loss);
        // The last answers and the goodbye; a peer that does not read them does not hold us.
        let flush = async {
            while !self.machine.unsent().is_empty() {
                let unsent = self.machine.unsent();
                let size = poll_fn(|cx| self.stream.poll_write(unsent, cx)).await?;
                self.machine
                    .step(Instant::now(), Event::Wrote(size), &mut self.actions);
            }
            tokio::io::AsyncWriteExt::shutdown(self.stream.get_mut()).await
        };
        // Whether the last bytes arrived is not known anyway.
        let _ = tokio::time::timeout(LAST_WRITE, flush).await;
    }
}

impl Drop for LinkTask {
    /// A task that is dropped with its thread has not said that the link is gone.
    fn drop(&mut self) {
        self.handle.set_closed(Loss::Closed);
    }
}

/// Time for the last bytes of a connection.
const LAST_WRITE: std::time::Duration = std::time::Duration::from_millis(500);
