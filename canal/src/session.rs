//! One connection's protocol as a machine: no I/O, no clock, no task.
//!
//! ```text
//! Dial → Handshake → Authentication → Authenticated → Subscription → RolledBack → Streaming
//!                                          ▲                                          │
//!                                          └───────────── unsubscribe ────────────────┘
//! ```
//! Events and requests go in, actions come out; every waiting state has a deadline
//! ([`Session::deadline`]). What it keeps to, because the real servers force it:
//!
//! - Acknowledgements and rollbacks have no answer, unless they fail: then an error packet comes
//!   before the answer to a later request. So the answers that are due stand in a queue in which
//!   those requests have a place of their own, an error is put down to them, and the connection is
//!   closed, for every error.
//! - The first error after authentication closes: servers below 1.1.8 would go on.
//! - "Roll back all" follows every subscription: a batch that a dead connection's GET took comes
//!   back by nothing else. A probe behind it says when it has happened.
//! - Batches are counted within an epoch, see [`Ledger`].

mod config;
mod expected;
mod ledger;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use bytes::Bytes;

pub(crate) use config::SessionConfig;
use expected::{Answer, ExpectedAnswers, NoAnswer};
use ledger::Ledger;

use crate::error::{CanalError, SessionPhase};
use crate::message::{BatchId, Message};
use crate::protocol::generated::packet::Messages;
use crate::protocol::packet::{self, Authentication, NO_BATCH, ServerAck, ServerPacket};
use crate::protocol::password;

/// What happened outside.
#[derive(Debug)]
pub(crate) enum Event {
    /// The transport is open.
    Connected,
    /// A frame came.
    Received(Bytes),
    /// The transport broke or ended.
    Failed(CanalError),
    /// Time passed: a deadline may be over.
    Tick,
}

/// What the connector's user wants.
#[derive(Debug)]
pub(crate) enum Request {
    /// Subscribe, or subscribe again with another filter. An empty one keeps the server's.
    Subscribe { filter: String },
    /// Give up the subscription.
    Unsubscribe,
    /// Fetch a batch; without a time-out the answer comes at once.
    Get {
        fetch_size: u32,
        timeout: Option<Duration>,
    },
    /// Acknowledge all batches up to this one.
    Acknowledge(BatchId),
    /// Give back all batches.
    RollbackAll,
    /// Give back this batch and all later ones.
    RollbackTo(BatchId),
    /// Have the server answer, so that what was sent before is known to be accepted.
    Probe,
}

/// What is to be done outside.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Send a packet in a frame.
    Send(Bytes),
    /// Tell the user.
    Done(Done),
    /// Close the transport: the session is over.
    Close(CanalError),
}

/// What was asked for and is done.
#[derive(Debug, PartialEq)]
pub(crate) enum Done {
    /// The server accepted user and password.
    Authenticated,
    /// The subscription stands and everything unacknowledged was rolled back.
    Subscribed,
    /// The subscription is gone.
    Unsubscribed,
    /// A batch, or that there is none.
    Fetched(Option<Message>),
    /// The probe of this number was answered.
    Probed(u64),
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id() && self.raw_entries() == other.raw_entries()
    }
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Session {
    config: SessionConfig,
    phase: SessionPhase,
    /// Until when the phase has to be over, and how long it had.
    phase_deadline: Option<(Instant, Duration)>,
    expected: ExpectedAnswers,
    ledger: Ledger,
    /// Whether the server answers a heartbeat without closing the connection.
    answers_heartbeat: bool,
    probes: u64,
    /// The probe that confirms the rollback after a subscription.
    subscription_probe: Option<u64>,
}

impl Session {
    /// A session that begins to dial `now`. Its epochs are above `epoch`.
    pub(crate) fn new(config: SessionConfig, epoch: u64, now: Instant) -> Self {
        let limit = config.connect_timeout;
        Self {
            ledger: Ledger::new(epoch),
            config,
            phase: SessionPhase::Dial,
            phase_deadline: Some((now + limit, limit)),
            expected: ExpectedAnswers::default(),
            answers_heartbeat: false,
            probes: 0,
            subscription_probe: None,
        }
    }

    /// Where the session stands.
    pub(crate) fn phase(&self) -> SessionPhase {
        self.phase
    }

    /// The batches of this epoch.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether a GET of this epoch waits for its answer.
    pub(crate) fn get_in_flight(&self) -> bool {
        self.expected.has_get_of(self.ledger.epoch())
    }

    /// The number of the last probe.
    pub(crate) fn last_probe(&self) -> u64 {
        self.probes
    }

    /// When a [`Event::Tick`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let phase = self.phase_deadline.map(|(at, _)| at);
        phase.into_iter().chain(self.expected.deadline()).min()
    }

    /// Takes in what happened outside.
    pub(crate) fn step(&mut self, now: Instant, event: Event) -> Vec<Action> {
        if self.phase == SessionPhase::Closed {
            return Vec::new();
        }
        match self.advance(now, event) {
            Ok(actions) => actions,
            Err(error) => {
                self.close();
                vec![Action::Close(error)]
            }
        }
    }

    fn advance(&mut self, now: Instant, event: Event) -> Result<Vec<Action>, CanalError> {
        match event {
            Event::Connected if self.phase == SessionPhase::Dial => {
                self.enter(SessionPhase::Handshake, now);
                Ok(Vec::new())
            }
            Event::Connected => Ok(Vec::new()),
            Event::Failed(error) => Err(error),
            Event::Tick => self.check_deadlines(now).map(|()| Vec::new()),
            Event::Received(frame) => {
                let packet = ServerPacket::decode(frame)
                    .map_err(|error| CanalError::Protocol(error.to_string()))?;
                self.receive(now, packet)
            }
        }
    }

    fn receive(&mut self, now: Instant, packet: ServerPacket) -> Result<Vec<Action>, CanalError> {
        match (self.phase, packet) {
            (SessionPhase::Handshake, ServerPacket::Handshake(handshake)) => {
                Ok(self.authenticate(now, &handshake.seeds))
            }
            (SessionPhase::Authentication, ServerPacket::Ack(ack)) if ack.code == 0 => {
                self.enter(SessionPhase::Authenticated, now);
                Ok(vec![Action::Done(Done::Authenticated)])
            }
            (SessionPhase::Authentication, ServerPacket::Ack(ack)) => {
                Err(self.config.refusal(&ack))
            }
            (phase, packet) if phase >= SessionPhase::Authenticated => match packet {
                ServerPacket::Ack(ack) => self.receive_ack(now, ack),
                ServerPacket::Messages(messages) => self.receive_messages(now, messages),
                ServerPacket::Handshake(_) => Err(unexpected(phase, "a handshake")),
            },
            (phase, ServerPacket::Handshake(_)) => Err(unexpected(phase, "a handshake")),
            (phase, ServerPacket::Ack(_)) => Err(unexpected(phase, "an ack")),
            (phase, ServerPacket::Messages(_)) => Err(unexpected(phase, "messages")),
        }
    }

    fn authenticate(&mut self, now: Instant, seeds: &[u8]) -> Vec<Action> {
        // Servers that send no seeds are below 1.1.4. They take the password as it is, do not
        // look at it, and the oldest of them close the connection after every error packet.
        self.answers_heartbeat = !seeds.is_empty();
        let token = match (self.config.password.is_empty(), seeds.is_empty()) {
            (true, _) | (_, true) => String::new(),
            (false, false) => password::token(self.config.password.bytes(), seeds),
        };
        self.enter(SessionPhase::Authentication, now);
        vec![Action::Send(packet::authentication(Authentication {
            username: &self.config.username,
            token: &token,
            net_read_timeout: config::wire_milliseconds(self.config.net_read_timeout),
            net_write_timeout: config::wire_milliseconds(self.config.net_write_timeout),
        }))]
    }

    fn receive_ack(&mut self, now: Instant, ack: ServerAck) -> Result<Vec<Action>, CanalError> {
        if ack.code != 0 {
            return self.receive_error(now, &ack);
        }
        match self.next_answer()? {
            Answer::Subscribed => {
                self.ledger.begin_epoch();
                self.enter(SessionPhase::RolledBack, now);
                let mut actions = vec![Action::Send(self.config.subscriber.rollback_all())];
                self.expected.push_silent(NoAnswer::Rollback);
                actions.extend(self.probe(now));
                self.subscription_probe = Some(self.probes);
                Ok(actions)
            }
            Answer::Unsubscribed => {
                self.ledger.begin_epoch();
                self.enter(SessionPhase::Authenticated, now);
                Ok(vec![Action::Done(Done::Unsubscribed)])
            }
            Answer::Messages { .. } | Answer::Probe(_) => Err(unexpected(
                self.phase,
                "a success ack that no request asked for",
            )),
        }
    }

    /// An error packet: the answer of a heartbeat, which means nothing, or the end.
    fn receive_error(&mut self, now: Instant, ack: &ServerAck) -> Result<Vec<Action>, CanalError> {
        if ack.message.contains(packet::HEARTBEAT_ANSWER)
            && let Some(Answer::Probe(number)) = self.expected.peek()
        {
            self.next_answer()?;
            return Ok(self.probed(now, number));
        }
        let batch = self.expected.silent_batch(&ack.message);
        Err(self.config.server_error(ack, batch))
    }

    fn receive_messages(
        &mut self,
        now: Instant,
        messages: Messages,
    ) -> Result<Vec<Action>, CanalError> {
        let Answer::Messages { epoch, probe } = self.next_answer()? else {
            return Err(unexpected(self.phase, "messages that no request asked for"));
        };
        let mut actions = Vec::new();
        // A rollback was sent behind the GET: what it fetched comes again.
        if epoch == self.ledger.epoch() {
            let message = self.take_batch(messages)?;
            if message.is_some() || probe.is_none() {
                actions.push(Action::Done(Done::Fetched(message)));
            }
        }
        if let Some(number) = probe {
            actions.extend(self.probed(now, number));
        }
        Ok(actions)
    }

    fn take_batch(&mut self, messages: Messages) -> Result<Option<Message>, CanalError> {
        if messages.batch_id == NO_BATCH && messages.messages.is_empty() {
            return Ok(None);
        }
        if messages.messages.is_empty() || messages.batch_id < 0 {
            return Err(CanalError::Protocol(format!(
                "batch {} with {} entries",
                messages.batch_id,
                messages.messages.len()
            )));
        }
        let id = self
            .ledger
            .receive(messages.batch_id, &messages.messages)
            .map_err(|reason| CanalError::EpochEnded {
                destination: self.config.subscriber.destination.clone(),
                epoch: self.ledger.epoch(),
                reason,
            })?;
        Ok(Some(Message::new(
            id,
            self.config.destination.clone(),
            messages.messages,
        )))
    }

    fn probed(&mut self, now: Instant, number: u64) -> Vec<Action> {
        if self.subscription_probe == Some(number) {
            self.subscription_probe = None;
            self.enter(SessionPhase::Streaming, now);
            return vec![Action::Done(Done::Subscribed)];
        }
        vec![Action::Done(Done::Probed(number))]
    }

    /// The request whose answer has come; the silent ones before it have succeeded.
    fn next_answer(&mut self) -> Result<Answer, CanalError> {
        let (silent, answer) = self.expected.pop();
        for request in silent {
            if let NoAnswer::Acknowledgement(batch) = request {
                self.ledger.confirm(batch);
            }
        }
        answer.ok_or_else(|| unexpected(self.phase, "an answer that no request asked for"))
    }

    /// Does what the user wants, or says why it can't be done: then nothing was sent and nothing
    /// has changed.
    pub(crate) fn request(
        &mut self,
        now: Instant,
        request: Request,
    ) -> Result<Vec<Action>, CanalError> {
        match self.phase {
            SessionPhase::Authenticated | SessionPhase::Streaming => {}
            _ => return Err(CanalError::NotConnected),
        }
        let streaming = self.phase == SessionPhase::Streaming;
        match request {
            Request::Subscribe { filter } => {
                self.enter(SessionPhase::Subscription, now);
                self.ledger.begin_epoch();
                self.expect(now, Answer::Subscribed);
                Ok(vec![Action::Send(
                    self.config.subscriber.subscription(&filter),
                )])
            }
            Request::Unsubscribe => {
                self.expect(now, Answer::Unsubscribed);
                Ok(vec![Action::Send(self.config.subscriber.unsubscription())])
            }
            _ if !streaming => Err(self.config.not_subscribed()),
            Request::Get {
                fetch_size,
                timeout,
            } => self.get(now, fetch_size, timeout),
            Request::Acknowledge(batch) => self.acknowledge(batch),
            Request::RollbackAll => Ok(self.rollback()),
            Request::RollbackTo(batch) => {
                self.ledger.check_rollback(batch)?;
                Ok(self.rollback())
            }
            Request::Probe => Ok(self.probe(now)),
        }
    }

    fn get(
        &mut self,
        now: Instant,
        fetch_size: u32,
        timeout: Option<Duration>,
    ) -> Result<Vec<Action>, CanalError> {
        let timeout = self.config.check_get(fetch_size, timeout)?;
        self.expect(
            now,
            Answer::Messages {
                epoch: self.ledger.epoch(),
                probe: None,
            },
        );
        Ok(vec![Action::Send(
            self.config.subscriber.get(fetch_size, timeout),
        )])
    }

    fn acknowledge(&mut self, batch: BatchId) -> Result<Vec<Action>, CanalError> {
        let batches = self.ledger.acknowledge(batch)?;
        Ok(batches
            .into_iter()
            .map(|batch| {
                self.expected.push_silent(NoAnswer::Acknowledgement(batch));
                Action::Send(self.config.subscriber.acknowledgement(batch.id()))
            })
            .collect())
    }

    fn rollback(&mut self) -> Vec<Action> {
        self.ledger.begin_epoch();
        self.expected.push_silent(NoAnswer::Rollback);
        vec![Action::Send(self.config.subscriber.rollback_all())]
    }

    fn probe(&mut self, now: Instant) -> Vec<Action> {
        self.probes += 1;
        if self.answers_heartbeat {
            self.expect(now, Answer::Probe(self.probes));
            vec![Action::Send(packet::heartbeat())]
        } else {
            // The smallest request that old servers answer with success. What it fetches is
            // handed out like any other batch.
            let epoch = self.ledger.epoch();
            self.expect(
                now,
                Answer::Messages {
                    epoch,
                    probe: Some(self.probes),
                },
            );
            vec![Action::Send(self.config.subscriber.get(1, -1))]
        }
    }

    fn expect(&mut self, now: Instant, answer: Answer) {
        self.expected
            .push(answer, now + self.config.request_timeout);
    }

    fn enter(&mut self, phase: SessionPhase, now: Instant) {
        self.phase = phase;
        let limit = match phase {
            SessionPhase::Handshake | SessionPhase::Authentication => {
                Some(self.config.connect_timeout)
            }
            _ => None,
        };
        self.phase_deadline = limit.map(|limit| (now + limit, limit));
    }

    fn check_deadlines(&self, now: Instant) -> Result<(), CanalError> {
        if let Some((_, after)) = self.phase_deadline.filter(|(at, _)| *at <= now) {
            return Err(CanalError::Timeout {
                phase: self.phase,
                after,
            });
        }
        if self.expected.deadline().is_some_and(|at| at <= now) {
            let after = self.config.request_timeout;
            return Err(CanalError::Timeout {
                phase: self.phase,
                after,
            });
        }
        Ok(())
    }

    fn close(&mut self) {
        self.phase = SessionPhase::Closed;
        self.phase_deadline = None;
        self.expected = ExpectedAnswers::default();
        self.ledger.begin_epoch();
    }
}

fn unexpected(phase: SessionPhase, what: &str) -> CanalError {
    CanalError::Protocol(format!("{what} came while {phase}"))
}
