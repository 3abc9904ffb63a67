//! What is on its way, and when it arrives.

use std::time::Duration;

use crate::coordinator::event::{Action, Event};
use crate::protocol::{
    Heartbeat, HeartbeatAnswer, Notice, Progress, Refusal, Register, Registered,
};

#[derive(Debug, Clone)]
pub(super) enum Message {
    Register {
        from: usize,
        register: Register,
    },
    Heartbeat {
        from: usize,
        heartbeat: Heartbeat,
        sent: Duration,
    },
    Progress {
        from: usize,
        progress: Progress,
    },
    Registered {
        to: usize,
        sent: Duration,
        attempt: u64,
        answer: Result<Registered, Refusal>,
    },
    Alive {
        to: usize,
        sent: Duration,
        answer: Result<HeartbeatAnswer, Refusal>,
    },
    Taken {
        to: usize,
        progress: Progress,
        answer: Result<(), Refusal>,
    },
    Push {
        to: usize,
        notice: Notice,
    },
    /// The store has done what coordinator `term` wanted.
    Stored {
        term: u64,
        action: Box<Action>,
    },
    /// Something for coordinator `term` from its own process.
    Own {
        term: u64,
        event: Box<Event>,
    },
    /// Worker `to` has finished a step of its own, if it still is in incarnation `life`.
    Step {
        to: usize,
        life: u64,
        step: Step,
    },
    /// Worker `to` comes back as a new process.
    Reborn {
        to: usize,
    },
    /// A worker or coordinator goes on.
    Wakes {
        to: usize,
    },
    NewCoordinator,
    /// A worker looks at its clock.
    Clock {
        to: usize,
        life: u64,
    },
}

/// What a worker takes some time for.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Say(Progress),
}

impl Message {
    /// Links lose, repeat and reorder; a process does not do that to itself.
    pub(super) fn is_on_a_link(&self) -> bool {
        matches!(
            self,
            Self::Register { .. }
                | Self::Heartbeat { .. }
                | Self::Progress { .. }
                | Self::Registered { .. }
                | Self::Alive { .. }
                | Self::Taken { .. }
                | Self::Push { .. }
        )
    }
}

#[derive(Debug, Default)]
pub(super) struct Network {
    now: Duration,
    /// Sorted by time, the next one last; equal times in the order of sending.
    waiting: Vec<(Duration, u64, Message)>,
    sent: u64,
}

impl Network {
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn send(&mut self, after: Duration, message: Message) {
        self.sent += 1;
        let key = (self.now + after, self.sent);
        let position = self
            .waiting
            .partition_point(|(at, number, _)| (*at, *number) > key);
        self.waiting.insert(position, (key.0, key.1, message));
    }

    pub(super) fn next_at(&self) -> Option<Duration> {
        self.waiting.last().map(|(at, ..)| *at)
    }

    pub(super) fn advance(&mut self, to: Duration) {
        self.now = self.now.max(to);
    }

    pub(super) fn take(&mut self) -> Option<Message> {
        let (at, _, message) = self.waiting.pop()?;
        self.advance(at);
        Some(message)
    }
}
