//! Who is active: the machine behind the running monitor. No I/O, no clock, no task.
//!
//! ```text
//!             session          created
//! Idle ──────────────▶ Campaign ──────▶ Active ── node gone ──▶ Campaign
//!  ▲                    ▲    │ exists      │
//!  │              gone, │    ▼             │ deadline passed ──▶ Look
//!  │              a pause   Look ──▶ Standby
//!  │                                       │ active:false, or no Canal server for a while
//!  └─────────── pause ◀──── Release ◀──────┘
//! ```
//! The node is the Java client's, so that both kinds exclude each other. What differs:
//!
//! - Being active ends by this client's own clock, at the *sending* time of its last answered
//!   question plus 0.8 sessions: before ZooKeeper can give the node to another one.
//! - A standby takes over after half a second, not after five: that is enough for the former
//!   active client of a deleted node to take it again at once, as it also does in Java.
//! - A Canal server that is down does not make the node come and go: the turn is kept for ten
//!   seconds of failures, then given up for a pause that doubles. Java's loop writes to ZooKeeper
//!   as fast as it can.
//! - Java never forgets that it was released once; here the next turn begins anew.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::data::ClientRunningData;
use crate::connector::Backoff;
use crate::role::Activity;

/// What the machine is told at the start. Times of [`crate::role::boot_time`].
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) client_id: u16,
    /// This host, as others see it; stands in the node until the connection's address is known.
    pub(super) host: String,
    /// From the node's end to a standby's attempt.
    pub(super) take_over_delay: Duration,
    /// How long a client that was released leaves the node to others.
    pub(super) release_pause: Duration,
    /// How long the turn is kept while no Canal server can be connected to.
    pub(super) patience: Duration,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Open a session.
    Connect,
    /// Create the node with this content.
    Create(ClientRunningData),
    /// Read the node and watch it.
    Look,
    /// Overwrite the node if it has this version.
    Write(ClientRunningData, i32),
    /// End the session, and the node with it.
    CloseSession,
    /// Wait for a change, a command, or this time.
    Wait(Option<Duration>),
    /// Nothing more.
    Finished,
}

/// The node as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeSeen {
    /// The session that it ends with; 0 for a node that no session ends.
    pub(super) owner: i64,
    pub(super) version: i32,
    /// `None` for a content that no client writes.
    pub(super) data: Option<ClientRunningData>,
}

#[derive(Debug)]
enum Phase {
    /// No session; one is opened at that time.
    Idle(Duration),
    Campaign(Duration),
    Look,
    /// Looks again at that time, also without an event.
    Standby(Duration),
    Active(Turn),
    /// The session is to be closed; it goes on at that time.
    Release(Duration),
    /// It is not wanted.
    Resigned,
    Stopped,
}

#[derive(Debug)]
struct Turn {
    activity: Activity,
    version: i32,
    /// What stands in the node.
    written: ClientRunningData,
    /// What is to stand there.
    wanted: Option<String>,
    next_look: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    id: i64,
    timeout: Duration,
}

/// The machine.
#[derive(Debug)]
pub(super) struct RunningMachine {
    settings: Settings,
    phase: Phase,
    session: Option<Session>,
    decided: bool,
    holder: Option<ClientRunningData>,
    /// The node belongs to no session: it never ends by itself.
    leftover: bool,
    /// Since when no Canal server can be connected to.
    failing_since: Option<Duration>,
    releases: Backoff,
    sessions: Backoff,
}

impl RunningMachine {
    /// Does nothing until [`join`](Self::join).
    pub(super) fn new(settings: Settings) -> Self {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(30));
        Self {
            settings,
            phase: Phase::Resigned,
            session: None,
            decided: false,
            holder: None,
            leftover: false,
            failing_since: None,
            releases: Backoff::new(first, longest, None),
            sessions: Backoff::new(Duration::from_millis(100), Duration::from_secs(5), None),
        }
    }

    /// The present turn.
    pub(super) fn activity(&self) -> Option<&Activity> {
        match &self.phase {
            Phase::Active(turn) => Some(&turn.activity),
            _ => None,
        }
    }

    /// Whether it is known who is active.
    pub(super) fn decided(&self) -> bool {
        self.decided
    }

    /// Who was active when the node was read last, if it was not this client.
    pub(super) fn holder(&self) -> Option<&ClientRunningData> {
        self.holder.as_ref()
    }

    /// Whether the node belongs to no session, so that somebody has to delete it.
    pub(super) fn leftover(&self) -> bool {
        self.leftover
    }

    /// Whether there is a session.
    pub(super) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Wants to be active.
    pub(super) fn join(&mut self, now: Duration) {
        if matches!(self.phase, Phase::Resigned) {
            self.phase = match self.session {
                Some(_) => Phase::Release(now),
                None => Phase::Idle(now),
            };
        }
    }

    /// Does not want to be active any longer.
    pub(super) fn resign(&mut self) {
        if !matches!(self.phase, Phase::Stopped) {
            self.leave(Phase::Resigned);
            self.decided = false;
            self.failing_since = None;
        }
    }

    /// Ends for good.
    pub(super) fn stop(&mut self) {
        self.leave(Phase::Stopped);
    }

    /// What to do next.
    pub(super) fn step(&mut self, now: Duration) -> Step {
        if let Phase::Active(turn) = &self.phase
            && !turn.activity.is_valid(now)
        {
            // The session may still be there: then the node says so.
            self.leave(Phase::Look);
        }
        match &self.phase {
            Phase::Idle(at) if now < *at => Step::Wait(Some(*at)),
            Phase::Idle(_) => Step::Connect,
            Phase::Campaign(at) if now < *at => Step::Wait(Some(*at)),
            Phase::Campaign(_) => Step::Create(self.own_data(self.settings.host.clone())),
            Phase::Look => Step::Look,
            Phase::Standby(at) if now < *at => Step::Wait(Some(*at)),
            Phase::Standby(_) => Step::Look,
            Phase::Active(turn) if turn.next_look <= now => Step::Look,
            Phase::Active(turn) => match &turn.wanted {
                Some(address) if *address != turn.written.address => {
                    Step::Write(self.own_data(address.clone()), turn.version)
                }
                _ => Step::Wait(Some(turn.next_look.min(turn.activity.until()))),
            },
            Phase::Release(_) | Phase::Resigned | Phase::Stopped if self.session.is_some() => {
                Step::CloseSession
            }
            Phase::Release(at) => Step::Wait(Some(*at)),
            Phase::Resigned => Step::Wait(None),
            Phase::Stopped => Step::Finished,
        }
    }

    /// A session was opened.
    pub(super) fn session_started(&mut self, now: Duration, id: i64, timeout: Duration) {
        self.session = Some(Session { id, timeout });
        self.sessions.reset();
        if matches!(self.phase, Phase::Idle(_)) {
            self.phase = Phase::Campaign(now);
        }
    }

    /// There is no session any longer, or none could be opened. `dice` is from 0 to 1.
    pub(super) fn session_ended(&mut self, now: Duration, dice: f64) {
        let had_one = self.session.take().is_some();
        match self.phase {
            Phase::Resigned | Phase::Stopped => {}
            Phase::Release(at) => self.phase = Phase::Idle(at),
            _ => {
                let wait = match had_one {
                    true => Duration::ZERO,
                    false => self.sessions.failed(dice).unwrap_or_default(),
                };
                self.leave(Phase::Idle(now + wait));
                self.decided = false;
            }
        }
    }

    /// A request of this session got no usable answer. It may have been carried out or not.
    pub(super) fn request_failed(&mut self, now: Duration) {
        let soon = now + self.fraction(20);
        match &mut self.phase {
            Phase::Active(turn) => turn.next_look = soon,
            Phase::Campaign(_) | Phase::Look | Phase::Standby(_) => {
                self.phase = Phase::Standby(soon);
            }
            _ => {}
        }
    }

    /// The node was created by a request sent at `sent`.
    pub(super) fn created(&mut self, sent: Duration, now: Duration) {
        if matches!(self.phase, Phase::Campaign(_)) {
            let data = self.own_data(self.settings.host.clone());
            self.enter(sent, now, data, 0);
        }
    }

    /// The node was there already.
    pub(super) fn exists(&mut self) {
        if matches!(self.phase, Phase::Campaign(_)) {
            self.phase = Phase::Look;
        }
    }

    /// The node was read, by a request sent at `sent`.
    pub(super) fn looked(&mut self, sent: Duration, now: Duration, seen: Option<NodeSeen>) {
        let own = self.session.map(|session| session.id);
        match (seen, &mut self.phase) {
            (_, Phase::Idle(_) | Phase::Release(_) | Phase::Resigned | Phase::Stopped) => {}
            (Some(seen), Phase::Active(turn)) if Some(seen.owner) == own => {
                let client_id = self.settings.client_id;
                if let Some(address) = &turn.wanted
                    && seen.data == Some(ClientRunningData::new(client_id, address.clone()))
                {
                    // A write whose answer did not come.
                    turn.written.address.clone_from(address);
                }
                if seen.data.as_ref() != Some(&turn.written) {
                    // Released by an administrator, or overwritten by somebody.
                    let until = now + self.settings.release_pause;
                    self.leave(Phase::Release(until));
                    return;
                }
                turn.version = seen.version;
                let session = self
                    .session
                    .map_or(Duration::ZERO, |session| session.timeout);
                turn.next_look = now + session / 4;
                if !turn.activity.extend(now, sent + deadline_within(session)) {
                    self.leave(Phase::Look);
                }
            }
            (Some(seen), _) if Some(seen.owner) == own => match seen.data {
                Some(data) if data.active && data.client_id == self.settings.client_id => {
                    self.enter(sent, now, data, seen.version);
                }
                _ => self.leave(Phase::Release(now + self.settings.release_pause)),
            },
            (Some(seen), _) => {
                self.leave(Phase::Standby(now + self.fraction(4)));
                self.decided = true;
                self.leftover = seen.owner == 0;
                self.holder = seen.data;
            }
            (None, Phase::Active(_)) => {
                // Deleted by an administrator: the one that was active goes first.
                self.leave(Phase::Campaign(now));
            }
            (None, Phase::Campaign(_)) => {}
            (None, _) => {
                self.holder = None;
                self.leave(Phase::Campaign(now + self.settings.take_over_delay));
            }
        }
    }

    /// The node has changed since it was read.
    pub(super) fn changed(&mut self, now: Duration) {
        match &mut self.phase {
            Phase::Active(turn) => turn.next_look = now,
            Phase::Standby(_) => self.phase = Phase::Look,
            _ => {}
        }
    }

    /// The node was overwritten and has this version now.
    pub(super) fn written(&mut self, data: ClientRunningData, version: i32) {
        if let Phase::Active(turn) = &mut self.phase {
            turn.written = data;
            turn.version = version;
        }
    }

    /// Connected to a Canal server from this address.
    pub(super) fn connected(&mut self, address: String) {
        self.failing_since = None;
        self.releases.reset();
        if let Phase::Active(turn) = &mut self.phase {
            turn.wanted = Some(address);
        }
    }

    /// No Canal server could be connected to. `dice` is from 0 to 1.
    pub(super) fn connect_failed(&mut self, now: Duration, dice: f64) {
        if !matches!(self.phase, Phase::Active(_)) {
            return;
        }
        let since = *self.failing_since.get_or_insert(now);
        if now.saturating_sub(since) >= self.settings.patience {
            self.failing_since = None;
            let pause = self.releases.failed(dice).unwrap_or_default();
            self.leave(Phase::Release(now + pause));
        }
    }

    fn enter(&mut self, sent: Duration, now: Duration, written: ClientRunningData, version: i32) {
        let session = self
            .session
            .map_or(Duration::ZERO, |session| session.timeout);
        let until = sent + deadline_within(session);
        if until <= now {
            self.phase = Phase::Look;
            return;
        }
        self.decided = true;
        self.leftover = false;
        self.holder = None;
        self.phase = Phase::Active(Turn {
            activity: Activity::new(until),
            version,
            written,
            wanted: None,
            // At once, so that the node is watched.
            next_look: now,
        });
    }

    /// Another phase; the present turn, if there is one, is over.
    fn leave(&mut self, next: Phase) {
        if let Phase::Active(turn) = &self.phase {
            turn.activity.end();
        }
        self.phase = next;
    }

    fn own_data(&self, address: String) -> ClientRunningData {
        ClientRunningData::new(self.settings.client_id, address)
    }

    fn fraction(&self, parts: u32) -> Duration {
        let session = self
            .session
            .map_or(Duration::from_secs(1), |session| session.timeout);
        (session / parts).max(Duration::from_millis(10))
    }
}

/// How long after the sending of an answered request this client may be active.
fn deadline_within(session: Duration) -> Duration {
    session.mul_f64(0.8)
}
