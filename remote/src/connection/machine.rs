//! The machine itself: one method an event.

mod asking;
mod ending;
mod large;
mod serving;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::incoming::Incoming;
use super::lanes::{Lanes, Origin};
use super::liveness::{Due, Liveness};
use super::outgoing::Outgoing;
use super::pending::PendingTable;
use super::serving::Serving;
use super::{Action, CallEnd, Event, Host, Loss, OpenEnd};
use crate::wire::{Call, Cancel, Disconnect, Farewell, Frame, Grant, Ping, Tell};

/// Limits of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The protocol version that both sides speak.
    pub(crate) version: u16,
    /// The largest frame in bytes, the smaller of both ends' limits.
    pub(crate) frame_limit: u32,
    /// Calls in flight, each way.
    pub(crate) in_flight_limit: usize,
    /// Sessions served to the peer.
    pub(crate) session_limit: usize,
    /// What one-way messages of a session may take here.
    pub(crate) grant: Grant,
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
    /// One-way messages that are in the buffer, with the place of their ends.
    tells: VecDeque<(u64, u32, u16)>,
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
            tells: VecDeque::new(),
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
            Event::Wrote(size) => self.wrote(size),
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
                trace,
                payload,
                room,
                waiter,
            } => {
                let frame = Call {
                    call,
                    session,
                    method,
                    time_left_ms: time_left_ms(now, deadline),
                    trace,
                    payload,
                };
                self.call(now, frame, deadline, room, waiter, actions);
            }
            Event::Tell {
                session,
                method,
                trace,
                payload,
                room,
            } => {
                let tell = Tell {
                    session,
                    method,
                    trace,
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
                let _ = self.send(Some(session), Origin::Leave, &frame, 0, actions);
            }
            Event::Accepted { request, result } => self.accepted(request, result, actions),
            Event::Freed { session, grant } => self.freed(session, grant),
            Event::Ended { session, fault } => self.endpoint_ended(session, fault),
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
    pub(crate) fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    /// Calls of the peer that have no answer yet.
    pub(crate) fn calls_served(&self) -> usize {
        self.serving.calls()
    }

    /// What the last ping took that was answered, there and back.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.liveness.round_trip()
    }

    fn wrote(&mut self, size: usize) {
        self.outgoing.wrote(size);
        while let Some((end, ..)) = self.tells.front()
            && self.outgoing.has_left(*end)
        {
            self.tells.pop_front();
        }
    }

    fn push(&mut self, frame: &Frame) {
        if self.is_gone() {
            return;
        }
        // Only names and payloads can be too long; frames with those go through their own path.
        let _ = self.outgoing.push(frame);
    }

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
