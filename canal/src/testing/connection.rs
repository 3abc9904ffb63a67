//! One connection as the server's machine sees it: its bytes, its stage, its silence.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};

use super::fault::Fault;

/// Larger frames are waited for, as the real server does, but not kept: 16 MiB.
const FRAME_LIMIT: usize = 16 * 1024 * 1024;

/// Requests that a client sent ahead are read up to this many bytes.
const READ_AHEAD: usize = 64 * 1024;

/// What the server uses for an idle time-out that is 0 or less: one hour.
const DEFAULT_IDLE: Duration = Duration::from_secs(3_600);

/// A connection: see the [module](self).
#[derive(Debug)]
pub(crate) struct Connection {
    buffer: BytesMut,
    /// A frame was announced that will not be kept.
    swallowing: bool,
    pub(crate) stage: Stage,
    pub(crate) busy: Busy,
    /// The reader waits for leave to go on.
    owes_read: bool,
    last_read: Instant,
    last_write: Instant,
    /// What is to be sent after the write that is going on.
    pub(crate) unsent: VecDeque<Bytes>,
}

/// How far the connection has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Whatever comes is read as an authentication. There is no time-out here.
    Authenticating { seeds: [u8; 8] },
    /// Requests are served.
    Serving {
        idle_read: Duration,
        idle_write: Duration,
    },
}

/// Why the next request has to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Busy {
    No,
    /// A request waits for its destination's lock; the fault is for its answer.
    Locked(Option<Fault>),
    /// An answer is being written.
    Writing,
}

/// What the bytes of a connection hold next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    Frame(Bytes),
    Incomplete,
    /// A negative length.
    Broken,
}

impl Connection {
    pub(crate) fn new(seeds: [u8; 8], now: Instant) -> Self {
        Self {
            buffer: BytesMut::new(),
            swallowing: false,
            stage: Stage::Authenticating { seeds },
            busy: Busy::No,
            owes_read: false,
            last_read: now,
            last_write: now,
            unsent: VecDeque::new(),
        }
    }

    pub(crate) fn received(&mut self, bytes: &[u8], now: Instant) {
        self.last_read = now;
        self.owes_read = true;
        if !self.swallowing {
            self.buffer.extend_from_slice(bytes);
        }
    }

    pub(crate) fn written(&mut self, now: Instant) {
        self.last_write = now;
        self.busy = Busy::No;
    }

    /// Takes the next whole frame out of the bytes that came.
    pub(crate) fn next_frame(&mut self) -> Incoming {
        let Some(prefix) = self.buffer.first_chunk::<4>() else {
            return Incoming::Incomplete;
        };
        let Ok(length) = usize::try_from(i32::from_be_bytes(*prefix)) else {
            return Incoming::Broken;
        };
        if length > FRAME_LIMIT {
            self.swallowing = true;
            self.buffer.clear();
            return Incoming::Incomplete;
        }
        if self.buffer.len() - 4 < length {
            return Incoming::Incomplete;
        }
        self.buffer.advance(4);
        Incoming::Frame(self.buffer.split_to(length).freeze())
    }

    /// Whether the reader is to go on; `true` once for each time that bytes came.
    pub(crate) fn take_leave_to_read(&mut self) -> bool {
        let room = self.busy == Busy::No || self.buffer.len() < READ_AHEAD;
        let leave = self.owes_read && room;
        if leave {
            self.owes_read = false;
        }
        leave
    }

    /// The connection is authenticated; its idle times are in milliseconds.
    pub(crate) fn serve(&mut self, idle_read: i32, idle_write: i32, now: Instant) {
        let idle = |milliseconds: i32| match u64::try_from(milliseconds) {
            Ok(milliseconds @ 1..) => Duration::from_millis(milliseconds),
            _ => DEFAULT_IDLE,
        };
        self.stage = Stage::Serving {
            idle_read: idle(idle_read),
            idle_write: idle(idle_write),
        };
        self.last_read = now;
        self.last_write = now;
    }

    /// When the connection has been silent for too long in one of the directions.
    pub(crate) fn idle_deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Authenticating { .. } => None,
            Stage::Serving {
                idle_read,
                idle_write,
            } => [
                self.last_read.checked_add(idle_read),
                self.last_write.checked_add(idle_write),
            ]
            .into_iter()
            .flatten()
            .min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection::new([0; 8], Instant::now())
    }

    #[test]
    fn frames_come_whole_however_they_are_cut() {
        let mut connection = connection();
        for byte in [0, 0, 0, 2, 7] {
            connection.received(&[byte], Instant::now());
            assert_eq!(connection.next_frame(), Incoming::Incomplete);
        }
        connection.received(&[8, 0, 0, 0, 0], Instant::now());
        assert_eq!(
            connection.next_frame(),
            Incoming::Frame(Bytes::from_static(&[7, 8]))
        );
        assert_eq!(connection.next_frame(), Incoming::Frame(Bytes::new()));
        assert_eq!(connection.next_frame(), Incoming::Incomplete);
    }

    #[test]
    fn a_huge_frame_is_waited_for_and_not_kept() {
        let mut connection = connection();
        connection.received(&[0x7f, 0xff, 0xff, 0xff], Instant::now());
        assert_eq!(connection.next_frame(), Incoming::Incomplete);
        connection.received(&[1; 100_000], Instant::now());
        assert_eq!(connection.next_frame(), Incoming::Incomplete);
        assert!(connection.buffer.is_empty());
        assert!(connection.take_leave_to_read());
    }

    #[test]
    fn a_client_that_sends_far_ahead_is_not_read_while_it_waits() {
        let mut connection = connection();
        connection.busy = Busy::Writing;
        connection.received(&[1; 10], Instant::now());
        assert!(connection.take_leave_to_read());
        assert!(!connection.take_leave_to_read(), "leave is given once");
        connection.received(&[1; READ_AHEAD], Instant::now());
        assert!(!connection.take_leave_to_read());
        connection.written(Instant::now());
        assert!(connection.take_leave_to_read());
    }
}
