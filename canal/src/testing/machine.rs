//! The server's protocol as a pure machine: bytes and time in, bytes and closes out.
//!
//! It behaves like Canal's `SessionHandler` and its authentication handler, measured on 1.1.7: each
//! connection's requests are served one after the other, several sent at once in their order, and
//! only some of them are answered.

mod authentication;
mod session;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::connection::{Busy, Connection, Incoming, Stage};
use super::destination::{Destination, Outcome, Refusal, Restart};
use super::fault::{Fault, FaultPlan, Request};
use super::moment::Moment;
use super::reply;
use super::statistics::{ConnectionCounts, Statistics};
use super::version::ServerVersion;

/// One accepted connection; ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// What happens at the server's sockets.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection was accepted.
    Connected { id: ConnectionId, seeds: [u8; 8] },
    /// Bytes came; the next are read after [`Action::Read`].
    Received { id: ConnectionId, bytes: Bytes },
    /// A [`Action::Write`] was carried out.
    Written { id: ConnectionId },
    /// The client closed, or the connection broke.
    Disconnected { id: ConnectionId },
    /// Time passed, or a script got more.
    Woken,
}

/// What is to be done at the server's sockets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Write { id: ConnectionId, output: Output },
    Read { id: ConnectionId },
    Close { id: ConnectionId },
}

/// One answer on its way out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) bytes: Bytes,
    /// Time before the first byte.
    pub(crate) delay: Duration,
    /// Size of the pieces and the time between them.
    pub(crate) pieces: Option<(usize, Duration)>,
    pub(crate) then_close: bool,
}

impl From<Bytes> for Output {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            delay: Duration::ZERO,
            pieces: None,
            then_close: false,
        }
    }
}

/// What the whole server is told at its start.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerSettings {
    pub(crate) version: ServerVersion,
    /// Empty: any name.
    pub(crate) user: String,
    /// Empty: any password.
    pub(crate) password: String,
}

/// The server: see the [module](self).
#[derive(Debug)]
pub(crate) struct ServerMachine {
    settings: ServerSettings,
    connections: BTreeMap<ConnectionId, Connection>,
    destinations: Vec<Destination>,
    faults: FaultPlan,
    counts: ConnectionCounts,
}

impl ServerMachine {
    pub(crate) fn new(settings: ServerSettings, destinations: Vec<Destination>) -> Self {
        Self {
            settings,
            connections: BTreeMap::new(),
            destinations,
            faults: FaultPlan::default(),
            counts: ConnectionCounts::default(),
        }
    }

    /// Takes one event and says what is to be done.
    pub(crate) fn step(&mut self, now: Moment, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let ready = match event {
            Event::Connected { id, seeds } => {
                self.connected(id, &seeds, now, &mut actions);
                None
            }
            Event::Received { id, bytes } => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.received(&bytes, now.instant);
                }
                Some(id)
            }
            Event::Written { id } => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.written(now.instant);
                }
                Some(id)
            }
            Event::Disconnected { id } => {
                self.connections.remove(&id);
                None
            }
            Event::Woken => None,
        };
        self.work(ready, now, &mut actions);
        self.close_idle(now, &mut actions);
        self.give_leave_to_read(&mut actions);
        actions
    }

    /// When the next [`Event::Woken`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let idle = self
            .connections
            .values()
            .filter_map(Connection::idle_deadline);
        let waits = self.destinations.iter().filter_map(Destination::deadline);
        idle.chain(waits).min()
    }

    pub(crate) fn faults(&mut self) -> &mut FaultPlan {
        &mut self.faults
    }

    pub(crate) fn destination(&mut self, name: &str) -> Option<&mut Destination> {
        self.destinations
            .iter_mut()
            .find(|destination| destination.name() == name)
    }

    /// The counts of a destination, with those of the server.
    pub(crate) fn statistics(&self, name: &str) -> Statistics {
        let destination = self
            .destinations
            .iter()
            .find(|destination| destination.name() == name);
        Statistics {
            connections: self.counts.accepted,
            open_connections: u64::try_from(self.connections.len()).unwrap_or(u64::MAX),
            broken_connections: self.counts.broken,
            idle_connections_closed: self.counts.idle,
            heartbeats: self.counts.heartbeats,
            ..destination.map(Destination::statistics).unwrap_or_default()
        }
    }

    /// Closes all connections, as an administrator or a broken network would.
    pub(crate) fn disconnect_all(&mut self) -> Vec<Action> {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        self.connections.clear();
        ids.into_iter().map(|id| Action::Close { id }).collect()
    }

    /// The process ends and another takes its place.
    pub(crate) fn restart(&mut self, how: Restart) -> Vec<Action> {
        self.destinations
            .iter_mut()
            .for_each(|destination| destination.restart(how));
        self.disconnect_all()
    }

    fn connected(
        &mut self,
        id: ConnectionId,
        seeds: &[u8; 8],
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        self.counts.accepted += 1;
        self.connections
            .insert(id, Connection::new(*seeds, now.instant));
        let frame = reply::handshake(self.settings.version, seeds);
        if let Some(fault) = self.fault_at(id, Some(Request::Connect), actions) {
            self.answer(id, frame, fault, actions);
        }
    }

    /// Serves what can be served: requests that came, what waited for a destination's lock, and the
    /// requests that came behind it.
    fn work(&mut self, ready: Option<ConnectionId>, now: Moment, actions: &mut Vec<Action>) {
        let mut ready = VecDeque::from_iter(ready);
        loop {
            if let Some(id) = ready.pop_front()
                && self.serve_one(id, now, actions)
            {
                ready.push_back(id);
            }
            let mut done = Vec::new();
            for destination in &mut self.destinations {
                destination.advance(now, &mut done);
            }
            for (id, outcome) in done {
                self.locked_done(id, outcome, actions);
                ready.push_back(id);
            }
            if ready.is_empty() {
                return;
            }
        }
    }

    /// Serves the next request of a connection; `false` when there is none, or it has to wait.
    fn serve_one(&mut self, id: ConnectionId, now: Moment, actions: &mut Vec<Action>) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        if connection.busy != Busy::No {
            return false;
        }
        if let Some(frame) = connection.unsent.pop_front() {
            self.answer(id, frame, None, actions);
            return true;
        }
        match connection.next_frame() {
            Incoming::Incomplete => return false,
            Incoming::Broken => self.broken(id, actions),
            Incoming::Frame(frame) => match connection.stage {
                Stage::Authenticating { seeds } => {
                    self.authenticate(id, &seeds, frame, now, actions);
                }
                Stage::Serving { .. } => self.request(id, frame, actions),
            },
        }
        true
    }

    fn locked_done(&mut self, id: ConnectionId, outcome: Outcome, actions: &mut Vec<Action>) {
        // the client may be gone: what it asked for is done all the same, as on the real server
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let fault = match std::mem::replace(&mut connection.busy, Busy::No) {
            Busy::Locked(fault) => fault,
            Busy::No | Busy::Writing => None,
        };
        match outcome {
            Outcome::Silent => self.silent(id, fault, actions),
            Outcome::Answer(frame) => self.answer(id, frame, fault, actions),
            Outcome::Refused(refusal) => self.refuse(id, &refusal, fault, actions),
        }
    }

    /// Sends an answer, with what a fault makes of it.
    fn answer(
        &mut self,
        id: ConnectionId,
        frame: Bytes,
        fault: Option<Fault>,
        actions: &mut Vec<Action>,
    ) {
        let mut output = Output::from(frame);
        match fault {
            Some(Fault::LoseAnswer) => return self.close(id, actions),
            Some(Fault::Delay(delay)) => output.delay = delay,
            Some(Fault::Pieces { size, pause }) => output.pieces = Some((size.max(1), pause)),
            Some(Fault::Truncate(length)) => {
                output.bytes.truncate(length);
                output.then_close = true;
            }
            _ => {}
        }
        self.write(id, output, actions);
    }

    fn refuse(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        fault: Option<Fault>,
        actions: &mut Vec<Action>,
    ) {
        self.error(id, refusal.code(), &refusal.text(), fault, actions);
    }

    fn error(
        &mut self,
        id: ConnectionId,
        code: i32,
        text: &str,
        fault: Option<Fault>,
        actions: &mut Vec<Action>,
    ) {
        self.answer(id, reply::failure(code, text), fault, actions);
        if self.settings.version.closes_after_an_error()
            && let Some(Action::Write { output, .. }) = actions.last_mut()
        {
            output.then_close = true;
        }
    }

    /// A request without an answer: of the faults only the lost answer means something.
    fn silent(&mut self, id: ConnectionId, fault: Option<Fault>, actions: &mut Vec<Action>) {
        if fault == Some(Fault::LoseAnswer) {
            self.close(id, actions);
        }
    }

    /// Carries out a fault that takes the place of a request, and says `None`; otherwise says which
    /// fault, if any, its answer is to have.
    fn fault_at(
        &mut self,
        id: ConnectionId,
        request: Option<Request>,
        actions: &mut Vec<Action>,
    ) -> Option<Option<Fault>> {
        let Some(fault) = request.and_then(|request| self.faults.strike(request)) else {
            return Some(None);
        };
        match fault {
            Fault::Disconnect => self.close(id, actions),
            Fault::Refuse { code, text } => self.error(id, code, &text, None, actions),
            Fault::Garbage(bytes) => self.write(id, bytes.into(), actions),
            Fault::FrameLength(length) => {
                let prefix = Bytes::copy_from_slice(&length.to_be_bytes());
                self.write(id, prefix.into(), actions);
            }
            Fault::Ignore => {}
            later @ (Fault::LoseAnswer
            | Fault::Delay(_)
            | Fault::Pieces { .. }
            | Fault::Truncate(_)) => return Some(Some(later)),
        }
        None
    }

    fn write(&mut self, id: ConnectionId, output: Output, actions: &mut Vec<Action>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.busy = Busy::Writing;
            actions.push(Action::Write { id, output });
        }
    }

    fn close(&mut self, id: ConnectionId, actions: &mut Vec<Action>) {
        if self.connections.remove(&id).is_some() {
            actions.push(Action::Close { id });
        }
    }

    /// Closes for what the client sent.
    fn broken(&mut self, id: ConnectionId, actions: &mut Vec<Action>) {
        self.counts.broken += 1;
        self.close(id, actions);
    }

    fn close_idle(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let idle: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                connection
                    .idle_deadline()
                    .is_some_and(|deadline| deadline <= now.instant)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in idle {
            self.counts.idle += 1;
            self.close(id, actions);
        }
    }

    fn give_leave_to_read(&mut self, actions: &mut Vec<Action>) {
        for (id, connection) in &mut self.connections {
            if connection.take_leave_to_read() {
                actions.push(Action::Read { id: *id });
            }
        }
    }
}
