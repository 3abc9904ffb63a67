//! What the peer waits for: sessions served to it and its calls in flight here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::wire::Grant;

/// One inbound call in flight.
///
/// The peer may use a call number again once it has cancelled; the serial tells the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    pub(crate) call: u32,
    pub(crate) serial: u64,
}

/// One session and what its peer may still send one way.
#[derive(Debug)]
struct Session<S> {
    served: S,
    messages: i64,
    bytes: i64,
    /// Its peer knows that the endpoint is no more.
    has_ended: bool,
}

/// Sessions and calls that this side serves.
#[derive(Debug)]
pub(super) struct Serving<S, C> {
    sessions: HashMap<u32, Session<S>>,
    next_session: u32,
    calls: HashMap<u32, (u64, C)>,
    next_serial: u64,
}

impl<S, C: Clone + Default> Serving<S, C> {
    pub(super) fn new() -> Self {
        Self {
            sessions: HashMap::new(),
            next_session: 1,
            calls: HashMap::new(),
            next_serial: 0,
        }
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Gives a session its number. Numbers are not used again before all others were.
    pub(super) fn add_session(&mut self, served: S, grant: Grant) -> u32 {
        while self.sessions.contains_key(&self.next_session) {
            self.next_session = self.next_session.wrapping_add(1);
        }
        let session = self.next_session;
        self.next_session = session.wrapping_add(1);
        let entry = Session {
            served,
            messages: i64::from(grant.messages),
            bytes: i64::from(grant.bytes),
            has_ended: false,
        };
        self.sessions.insert(session, entry);
        session
    }

    pub(super) fn session(&self, session: u32) -> Option<&S> {
        self.sessions.get(&session).map(|session| &session.served)
    }

    /// Takes the credit for a one-way message; false if there is none.
    pub(super) fn spend(&mut self, session: u32, bytes: usize) -> bool {
        let Some(session) = self.sessions.get_mut(&session) else {
            return false;
        };
        if session.messages <= 0 || session.bytes <= 0 {
            return false;
        }
        session.messages -= 1;
        session.bytes -= i64::try_from(bytes).unwrap_or(i64::MAX);
        true
    }

    /// Gives credit back; false if the session is over.
    pub(super) fn grant(&mut self, session: u32, grant: Grant) -> bool {
        let Some(session) = self.sessions.get_mut(&session) else {
            return false;
        };
        session.messages += i64::from(grant.messages);
        session.bytes += i64::from(grant.bytes);
        true
    }

    /// Notes that a session's endpoint has ended; false if that is known. The session stays until
    /// its peer leaves it, so that calls on their way are answered with the cause.
    pub(super) fn end_session(&mut self, session: u32) -> bool {
        let session = self.sessions.get_mut(&session);
        session.is_some_and(|session| !std::mem::replace(&mut session.has_ended, true))
    }

    /// False if it was over already.
    pub(super) fn remove_session(&mut self, session: u32) -> bool {
        self.sessions.remove(&session).is_some()
    }

    /// Notes a call; `None` if its number is in flight already.
    pub(super) fn begin(&mut self, call: u32) -> Option<(Ticket, C)> {
        let Entry::Vacant(entry) = self.calls.entry(call) else {
            return None;
        };
        self.next_serial += 1;
        let cancel = C::default();
        entry.insert((self.next_serial, cancel.clone()));
        Some((
            Ticket {
                call,
                serial: self.next_serial,
            },
            cancel,
        ))
    }

    /// Whether the answer to this call is still wanted; it is not afterwards.
    pub(super) fn finish(&mut self, ticket: Ticket) -> bool {
        match self.calls.entry(ticket.call) {
            Entry::Occupied(entry) if entry.get().0 == ticket.serial => {
                entry.remove();
                true
            }
            _ => false,
        }
    }

    pub(super) fn cancel(&mut self, call: u32) -> Option<C> {
        self.calls.remove(&call).map(|(_, cancel)| cancel)
    }

    /// Ends everything, as when the connection is gone.
    pub(super) fn clear(&mut self) -> Vec<C> {
        self.sessions.clear();
        self.calls.drain().map(|(_, (_, cancel))| cancel).collect()
    }
}
