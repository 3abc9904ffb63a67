//! Ping and pong: whether the other process and the link to it are there.
//!
//! This says nothing about an endpoint: pings are answered by the I/O thread.

use std::time::{Duration, Instant};

use super::Loss;

/// What [`Liveness::tick`] asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Ping(u64),
    Dead(Loss),
}

/// Watches for silence. Whatever the peer sends is a sign of life.
#[derive(Debug)]
pub(super) struct Liveness {
    interval: Duration,
    timeout: Duration,
    heard: Instant,
    pinged: Option<Instant>,
    nonce: u64,
    /// When the last ping was sent, until it is answered.
    sent: Option<Instant>,
    round_trip: Option<Duration>,
}

impl Liveness {
    pub(super) fn new(interval: Duration, timeout: Duration, now: Instant) -> Self {
        Self {
            interval,
            timeout,
            heard: now,
            pinged: None,
            nonce: 0,
            sent: None,
            round_trip: None,
        }
    }

    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.pinged = None;
    }

    /// The answer to the last ping tells how long the way is, there and back.
    pub(super) fn answered(&mut self, now: Instant, nonce: u64) {
        if nonce == self.nonce
            && let Some(sent) = self.sent.take()
        {
            self.round_trip = Some(now.saturating_duration_since(sent));
        }
    }

    /// What the last ping took that was answered.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// The next time at which [`tick`](Self::tick) has something to say.
    pub(super) fn next(&self) -> Instant {
        match self.pinged {
            Some(at) => at + self.timeout,
            None => self.heard + self.interval,
        }
    }

    pub(super) fn tick(&mut self, now: Instant) -> Due {
        // A process that was stopped itself (SIGSTOP, suspend) looks far too late, and what the peer
        // sent meanwhile waits in the socket. The silence was ours: measure it anew.
        let stalled = now.saturating_duration_since(self.next()) > self.timeout / 2;
        match self.pinged {
            Some(at) if now.saturating_duration_since(at) >= self.timeout => {
                if stalled {
                    self.pinged = Some(now);
                    return Due::Nothing;
                }
                Due::Dead(Loss::Silent(now.saturating_duration_since(self.heard)))
            }
            Some(_) => Due::Nothing,
            None if now.saturating_duration_since(self.heard) >= self.interval => {
                self.nonce += 1;
                self.pinged = Some(now);
                self.sent = Some(now);
                Due::Ping(self.nonce)
            }
            None => Due::Nothing,
        }
    }
}
