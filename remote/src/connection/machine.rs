//! The machine itself: one method an event.

mod large;

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_core::RpcErrorKind;

use super::event::Serve;
use super::incoming::Incoming;
use super::lanes::{Lanes, Origin};
use super::liveness::{Due, Liveness};
use super::outgoing::Outgoing;
use super::pending::{Pending, PendingTable};
use super::serving::Serving;
use super::{Action, CallEnd, Event, Host, Loss, OpenEnd, TellLoss, Ticket};
use crate::wire::{
    Call, Cancel, Connect, Connected, Disconnect, Failure, Farewell, Fault, Frame, Goodbye, Ping,
    Pong, Refused, Reply, Tell, WireError,
};

/// Limits of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The largest frame in bytes, the smaller of both ends' limits.
    pub(crate) frame_limit: u32,
    /// Calls in flight, each way.
    pub(crate) in_flight_limit: usize,
    /// Sessions served to the peer.
    pub(crate) session_limit: usize,
    /// Messages larger than this go in chunks of this size, in bytes. A peer's frame limit is never
    /// smaller, so that one with the smallest limit sees no chunk.
    pub(crate) whole_limit: usize,
    /// Outgoing bytes beyond which the peer's new calls are refused.
    pub(crate) unsent_limit: usize,
    /// Silence after which the peer is pinged.
    pub(crate) ping_interval: Duration,
    /// Silence after a ping after which the connection is given up.
    pub(crate) ping_timeout: Duration,
}

/// How far the connection is from its end.
#[derive(Debug)]
enum Phase {
    Open,
    /// One side, or both, said goodbye.
    Leaving {
        ours: bool,
        theirs: bool,
        reason: Farewell,
        text: String,
    },
    Gone(Loss),
}

/// The connection's state. See the [module](super) for what it is and promises.
pub(crate) struct Connection<H: Host> {
    settings: Settings,
    phase: Phase,
    outgoing: Outgoing,
    liveness: Liveness,
    calls: PendingTable<H::Waiter>,
    opens: PendingTable<H::Opener>,
    serving: Serving<H::Served, H::Cancel>,
    lanes: Lanes,
    incoming: Incoming,
    next_request: u32,
}

impl<H: Host> Connection<H> {
    pub(crate) fn new(settings: Settings, now: Instant) -> Self {
        Self {
            phase: Phase::Open,
            outgoing: Outgoing::new(settings.frame_limit),
            liveness: Liveness::new(settings.ping_interval, settings.ping_timeout, now),
            calls: PendingTable::new(),
            opens: PendingTable::new(),
            serving: Serving::new(),
            lanes: Lanes::default(),
            incoming: Incoming::new(settings.frame_limit),
            next_request: 1,
            settings,
        }
    }

    /// Takes one event and appends what is to be done.
    pub(crate) fn step(&mut self, now: Instant, event: Event<H>, actions: &mut Vec<Action<H>>) {
        match event {
            Event::Received(frame) => self.received(now, frame, actions),
            Event::Unreadable(error) => self.violated(error.to_string(), actions),
            Event::Broken(loss) => self.end(loss, actions),
            Event::Wrote(size) => self.outgoing.wrote(size),
            Event::Open {
                connect,
                deadline,
                opener,
            } => {
                self.open(now, connect, deadline, opener, actions);
            }
            Event::Call {
                call,
                session,
                method,
                deadline,
                payload,
                room,
                waiter,
            } => {
                let frame = Call {
                    call,
                    session,
                    method,
                    time_left_ms: time_left_ms(now, deadline),
                    payload,
                };
                self.call(now, frame, deadline, room, waiter, actions);
            }
            Event::Tell {
                session,
                method,
                payload,
                room,
            } => {
                let tell = Tell {
                    session,
                    method,
                    payload,
                };
                self.tell(tell, room, actions);
            }
            Event::Cancel { call } => {
                // The waiter went away by itself: nothing to resolve.
                if self.calls.remove(call).is_some() && !self.abandon(Origin::Call(call), actions) {
                    self.push(&Frame::Cancel(Cancel { call }));
                }
            }
            Event::Leave { session } => {
                let frame = Frame::Disconnect(Disconnect { session });
                // Behind what the session still has to send. It has no payload to be too long.
                let _ = self.send(Some(session), Origin::Tell, &frame, 0, actions);
            }
            Event::Accepted { request, result } => self.accepted(request, result),
            Event::Answer { ticket, result } => self.answer(ticket, result, actions),
            Event::Retire { reason, text } => self.retire(reason, text),
            Event::Tick => self.tick(now, actions),
        }
        self.fill(actions);
        self.close_when_left(actions);
    }

    /// Whether the connection is over; all that was in flight has its end then.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone(_))
    }

    /// The bytes to be written next; report progress with [`Event::Wrote`].
    pub(crate) fn unsent(&self) -> &[u8] {
        self.outgoing.unsent()
    }

    /// When [`Event::Tick`] is due at the latest.
    pub(crate) fn next_tick(&self) -> Instant {
        let deadlines = [self.calls.next(), self.opens.next()];
        deadlines
            .into_iter()
            .flatten()
            .fold(self.liveness.next(), Instant::min)
    }

    /// Calls of this side that have not come back.
    #[cfg(test)]
    pub(crate) fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    fn push(&mut self, frame: &Frame) {
        if self.is_gone() {
            return;
        }
        // Only names and payloads can be too long; frames with those go through their own path.
        let _ = self.outgoing.push(frame);
    }

    // ---- this side asks ----

    fn open(
        &mut self,
        now: Instant,
        mut connect: Connect,
        deadline: Instant,
        opener: H::Opener,
        actions: &mut Vec<Action<H>>,
    ) {
        let end = if let Some(loss) = self.why_not() {
            OpenEnd::Lost(loss)
        } else if deadline <= now {
            OpenEnd::TimedOut
        } else {
            while self.opens.contains(self.next_request) {
                self.next_request = self.next_request.wrapping_add(1);
            }
            let request = self.next_request;
            self.next_request = request.wrapping_add(1);
            connect.request = request;
            match self.outgoing.push(&Frame::Connect(connect)) {
                Ok(end) => {
                    self.opens.insert(
                        request,
                        Pending {
                            waiter: opener,
                            deadline,
                            end,
                        },
                    );
                    return;
                }
                Err(error) => OpenEnd::TooLong(error),
            }
        };
        actions.push(Action::Opened { opener, end });
    }

    fn call(
        &mut self,
        now: Instant,
        frame: Call,
        deadline: Instant,
        room: u32,
        waiter: H::Waiter,
        actions: &mut Vec<Action<H>>,
    ) {
        let (call, session) = (frame.call, frame.session);
        let end = if let Some(loss) = self.why_not() {
            CallEnd::NotSent(loss)
        } else if deadline <= now {
            CallEnd::TimedOut { sent: false }
        } else if self.calls.len() >= self.settings.in_flight_limit || self.calls.contains(call) {
            CallEnd::TooMany {
                limit: self.settings.in_flight_limit,
            }
        } else {
            let origin = Origin::Call(call);
            match self.send(Some(session), origin, &Frame::Call(frame), room, actions) {
                Ok(end) => {
                    self.calls.insert(
                        call,
                        Pending {
                            waiter,
                            deadline,
                            end,
                        },
                    );
                    return;
                }
                Err(error) => CallEnd::TooLong(error),
            }
        };
        free(room, actions);
        actions.push(Action::Resolve { waiter, end });
    }

    fn tell(&mut self, tell: Tell, room: u32, actions: &mut Vec<Action<H>>) {
        let session = Some(tell.session);
        let lost = if let Some(loss) = self.why_not() {
            TellLoss::NotSent(loss)
        } else {
            match self.send(session, Origin::Tell, &Frame::Tell(tell), room, actions) {
                Ok(_) => return,
                Err(error) => TellLoss::TooLong(error),
            }
        };
        free(room, actions);
        actions.push(Action::TellLost(lost));
    }

    /// Why nothing new can be sent, if so.
    fn why_not(&self) -> Option<Loss> {
        match &self.phase {
            Phase::Open => None,
            Phase::Leaving { reason, text, .. } => Some(Loss::Left(*reason, text.clone())),
            Phase::Gone(loss) => Some(loss.clone()),
        }
    }

    // ---- the peer sends ----

    fn received(&mut self, now: Instant, frame: Frame, actions: &mut Vec<Action<H>>) {
        if self.is_gone() {
            return;
        }
        self.liveness.heard(now);
        if let Frame::Chunk(chunk) = frame {
            match self.incoming.take(chunk) {
                Ok(None) => {}
                Ok(Some(whole)) => self.take(now, whole, actions),
                Err(text) => self.violated(text, actions),
            }
        } else {
            self.take(now, frame, actions);
        }
    }

    fn take(&mut self, now: Instant, frame: Frame, actions: &mut Vec<Action<H>>) {
        match frame {
            // Joined before it came here.
            Frame::Chunk(_) => {}
            Frame::Connect(connect) => self.asked_to_connect(connect, actions),
            Frame::Connected(Connected { request, session }) => {
                match self.opens.remove(request) {
                    Some(open) => actions.push(Action::Opened {
                        opener: open.waiter,
                        end: OpenEnd::Session(session),
                    }),
                    // Nobody waits any more: do not leave the peer with a session for nobody.
                    None => self.push(&Frame::Disconnect(Disconnect { session })),
                }
            }
            Frame::Refused(Refused { request, fault }) => {
                if let Some(open) = self.opens.remove(request) {
                    actions.push(Action::Opened {
                        opener: open.waiter,
                        end: OpenEnd::Refused(fault),
                    });
                }
            }
            Frame::Disconnect(Disconnect { session }) => self.serving.remove_session(session),
            Frame::Call(call) => self.called(now, call, actions),
            Frame::Tell(Tell {
                session,
                method,
                payload,
            }) => match self.serving.session(session) {
                Some(served) => {
                    let served = served.clone();
                    actions.push(Action::ServeTell {
                        served,
                        method,
                        payload,
                    });
                }
                None => actions.push(Action::TellLost(TellLoss::UnknownSession(session))),
            },
            // An answer to a call that is not waited for any more is late, not wrong.
            Frame::Reply(Reply { call, payload }) => {
                self.resolve(call, CallEnd::Value(payload), actions);
            }
            Frame::Failure(Failure { call, fault }) => {
                self.resolve(call, CallEnd::Failed(fault), actions);
            }
            Frame::Cancel(Cancel { call }) => {
                if let Some(cancel) = self.serving.cancel(call) {
                    actions.push(Action::CancelServed(cancel));
                }
                // Its reply may be on its way.
                self.abandon(Origin::Reply(call), actions);
            }
            Frame::Ping(Ping { nonce }) => self.push(&Frame::Pong(Pong { nonce })),
            Frame::Pong(_) => {}
            Frame::Goodbye(Goodbye { reason, text }) => self.peer_leaves(reason, text, actions),
        }
    }

    fn resolve(&mut self, call: u32, end: CallEnd, actions: &mut Vec<Action<H>>) {
        if let Some(pending) = self.calls.remove(call) {
            actions.push(Action::Resolve {
                waiter: pending.waiter,
                end,
            });
        }
    }

    fn asked_to_connect(&mut self, connect: Connect, actions: &mut Vec<Action<H>>) {
        let limit = self.settings.session_limit;
        if self.serving.sessions() >= limit {
            let fault = Fault::new(
                RpcErrorKind::Full,
                format!(
                    "this connection has {limit} sessions, its limit: drop gateways that are not \
                     used, or raise session_limit"
                ),
            );
            self.push(&Frame::Refused(Refused {
                request: connect.request,
                fault,
            }));
        } else {
            actions.push(Action::Accept(connect));
        }
    }

    fn accepted(&mut self, request: u32, result: Result<H::Served, Fault>) {
        let frame = match result {
            Ok(served) => {
                let session = self.serving.add_session(served);
                Frame::Connected(Connected { request, session })
            }
            Err(fault) => Frame::Refused(Refused { request, fault }),
        };
        self.push(&frame);
    }

    fn called(&mut self, now: Instant, frame: Call, actions: &mut Vec<Action<H>>) {
        let Call {
            call,
            session,
            method,
            time_left_ms,
            payload,
        } = frame;
        let Some(served) = self.serving.session(session) else {
            let text = format!("session {session} is not served on this connection");
            self.refuse(call, RpcErrorKind::NoSuchEndpoint, text);
            return;
        };
        let served = served.clone();
        if self.serving.calls() >= self.settings.in_flight_limit {
            let limit = self.settings.in_flight_limit;
            let text = format!("{limit} calls of this connection are in flight, its limit");
            self.refuse(call, RpcErrorKind::Full, text);
            return;
        }
        if self.is_unread() {
            let size = self.backlog();
            let text = format!("{size} bytes of answers wait for this peer to read them");
            self.refuse(call, RpcErrorKind::Full, text);
            if self.outgoing.unsent().len() > self.settings.unsent_limit.saturating_mul(2) {
                self.end(Loss::Unread(size), actions);
            }
            return;
        }
        let Some((ticket, cancel)) = self.serving.begin(call) else {
            self.violated(format!("call number {call} is in flight already"), actions);
            return;
        };
        let deadline = deadline_in(now, time_left_ms);
        let serve = Serve {
            served,
            method,
            deadline,
            payload,
            cancel,
        };
        actions.push(Action::Serve { ticket, serve });
    }

    fn refuse(&mut self, call: u32, kind: RpcErrorKind, text: String) {
        self.push(&Frame::Failure(Failure {
            call,
            fault: Fault::new(kind, text),
        }));
    }

    fn answer(
        &mut self,
        ticket: Ticket,
        result: Result<Bytes, Fault>,
        actions: &mut Vec<Action<H>>,
    ) {
        if !self.serving.finish(ticket) {
            return;
        }
        let call = ticket.call;
        let frame = match result {
            Ok(payload) => Frame::Reply(Reply { call, payload }),
            Err(fault) => Frame::Failure(Failure { call, fault }),
        };
        if self.is_gone() {
            return;
        }
        if let Err(error) = self.send(None, Origin::Reply(call), &frame, 0, actions) {
            // The handler ran: the caller must not take this for "not sent".
            let text = match error {
                WireError::FrameTooLong { size, limit } => format!(
                    "the reply's frame has {size} bytes, the limit is {limit} bytes: raise \
                     frame_limit on both sides or answer less"
                ),
                other => other.to_string(),
            };
            let mut fault = Fault::new(RpcErrorKind::TooLarge, text);
            fault.outcome = lockkeeper_core::Outcome::Unknown.code();
            self.push(&Frame::Failure(Failure { call, fault }));
        }
    }

    // ---- time ----

    fn tick(&mut self, now: Instant, actions: &mut Vec<Action<H>>) {
        if self.is_gone() {
            return;
        }
        for (call, pending) in self.calls.take_expired(now) {
            let sent = !self.abandon(Origin::Call(call), actions);
            if sent {
                self.push(&Frame::Cancel(Cancel { call }));
            }
            let end = CallEnd::TimedOut { sent };
            actions.push(Action::Resolve {
                waiter: pending.waiter,
                end,
            });
        }
        for (_, pending) in self.opens.take_expired(now) {
            actions.push(Action::Opened {
                opener: pending.waiter,
                end: OpenEnd::TimedOut,
            });
        }
        match self.liveness.tick(now) {
            Due::Nothing => {}
            Due::Ping(nonce) => self.push(&Frame::Ping(Ping { nonce })),
            Due::Dead(loss) => self.end(loss, actions),
        }
    }

    // ---- the end ----

    fn retire(&mut self, reason: Farewell, text: String) {
        match &mut self.phase {
            Phase::Open => {
                self.push(&Frame::Goodbye(Goodbye {
                    reason,
                    text: text.clone(),
                }));
                self.phase = Phase::Leaving {
                    ours: true,
                    theirs: false,
                    reason,
                    text,
                };
            }
            Phase::Leaving { ours, .. } if !*ours => {
                *ours = true;
                self.push(&Frame::Goodbye(Goodbye { reason, text }));
            }
            Phase::Leaving { .. } | Phase::Gone(_) => {}
        }
    }

    fn peer_leaves(&mut self, reason: Farewell, text: String, actions: &mut Vec<Action<H>>) {
        if reason == Farewell::ProtocolError {
            self.end(Loss::Left(reason, text), actions);
            return;
        }
        actions.push(Action::PeerLeaves {
            reason,
            text: text.clone(),
        });
        self.retire(reason, text);
        if let Phase::Leaving { theirs, .. } = &mut self.phase {
            *theirs = true;
        }
    }

    /// Both said goodbye and nothing is in flight: the socket can go.
    fn close_when_left(&mut self, actions: &mut Vec<Action<H>>) {
        if let Phase::Leaving {
            ours: true,
            theirs: true,
            reason,
            text,
        } = &self.phase
            && self.calls.is_empty()
            && self.opens.is_empty()
            && self.serving.calls() == 0
            && self.lanes.is_empty()
        {
            let loss = Loss::Left(*reason, text.clone());
            self.end(loss, actions);
        }
    }

    fn violated(&mut self, text: String, actions: &mut Vec<Action<H>>) {
        // Told only if that sends no call along which is about to be reported as not sent.
        if self.all_left() {
            let reason = Farewell::ProtocolError;
            self.push(&Frame::Goodbye(Goodbye {
                reason,
                text: text.clone(),
            }));
        }
        self.end(Loss::Protocol(text), actions);
    }

    /// Whether every call in flight has been written to the socket.
    fn all_left(&self) -> bool {
        self.calls
            .iter()
            .all(|pending| self.outgoing.has_left(pending.end))
    }

    /// Ends everything that is in flight, once.
    fn end(&mut self, loss: Loss, actions: &mut Vec<Action<H>>) {
        if self.is_gone() {
            return;
        }
        // What is reported as not sent must not be sent by a last flush.
        let abandon = !self.all_left();
        for pending in self.calls.take_all() {
            let end = if self.outgoing.has_left(pending.end) {
                CallEnd::Unknown(loss.clone())
            } else {
                CallEnd::NotSent(loss.clone())
            };
            actions.push(Action::Resolve {
                waiter: pending.waiter,
                end,
            });
        }
        for pending in self.opens.take_all() {
            let end = OpenEnd::Lost(loss.clone());
            actions.push(Action::Opened {
                opener: pending.waiter,
                end,
            });
        }
        actions.extend(self.serving.clear().into_iter().map(Action::CancelServed));
        if abandon {
            self.outgoing.abandon();
        }
        self.lanes.clear();
        self.incoming.clear();
        actions.push(Action::Close(loss.clone()));
        self.phase = Phase::Gone(loss);
    }
}

fn free<H: Host>(room: u32, actions: &mut Vec<Action<H>>) {
    if room > 0 {
        actions.push(Action::Free(room));
    }
}

/// Whole milliseconds until `deadline`, rounded up so that a deadline never becomes "none left".
fn time_left_ms(now: Instant, deadline: Instant) -> u32 {
    let left = deadline
        .saturating_duration_since(now)
        .saturating_add(Duration::from_micros(999));
    u32::try_from(left.as_millis()).unwrap_or(u32::MAX)
}

/// The peer's deadline on this side's clock.
fn deadline_in(now: Instant, time_left_ms: u32) -> Option<Instant> {
    if time_left_ms == u32::MAX {
        return None;
    }
    now.checked_add(Duration::from_millis(u64::from(time_left_ms)))
}
