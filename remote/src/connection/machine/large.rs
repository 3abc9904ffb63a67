//! Sending: at once if that is possible, else in turn and in pieces.

use bytes::{Bytes, BytesMut};

use super::{Connection, free};
use crate::connection::lanes::Origin;
use crate::connection::{Action, Host, Loss, TellLoss};
use crate::wire::{Chunk, Frame, Progress, WireError};

/// Pieces that lie in the outgoing buffer at most.
const PIECES: usize = 2;

impl<H: Host> Connection<H> {
    /// Sends a message at once, or in its turn; returns the place of its last byte, which is
    /// beyond all bytes as long as it waits.
    pub(super) fn send(
        &mut self,
        session: Option<u32>,
        origin: Origin,
        frame: &Frame,
        room: u32,
        actions: &mut Vec<Action<H>>,
    ) -> Result<u64, WireError> {
        // More than any message's fields.
        const FIELDS: usize = 48;
        let busy = session.is_some_and(|session| self.lanes.is_busy(session));
        if frame.payload().len() + FIELDS <= self.settings.whole_limit && !busy {
            let end = self.outgoing.push(frame)?;
            free(room, actions);
            return Ok(end);
        }
        let mut head = BytesMut::with_capacity(FIELDS);
        frame.encode_fields(&mut head)?;
        let size = u64::try_from(head.len() + frame.payload().len()).unwrap_or(u64::MAX);
        let limit = u64::from(self.settings.frame_limit);
        if size > limit {
            return Err(WireError::FrameTooLong { size, limit });
        }
        self.lanes.enqueue(session, origin, head, frame, room);
        Ok(u64::MAX)
    }

    /// Puts pieces of waiting messages into the buffer, never many of them: what comes next has to
    /// wait for what is there.
    pub(super) fn fill(&mut self, actions: &mut Vec<Action<H>>) {
        if self.is_gone() {
            return;
        }
        let whole = self.settings.whole_limit;
        while !self.lanes.is_empty() && self.outgoing.unsent().len() < PIECES * whole {
            if let Some(done) = self.lanes.push_piece(whole, &mut self.outgoing) {
                match (done.origin, done.session) {
                    (Origin::Call(call), _) => self.calls.set_end(call, done.end),
                    (Origin::Tell(method), Some(session)) => {
                        self.tells.push_back((done.end, session, method));
                    }
                    _ => {}
                }
                discard(done.payload, actions);
                free(done.room, actions);
            }
        }
    }

    /// Gives up a message that is not out to its end: it can't have run. False if it is out.
    pub(super) fn abandon(&mut self, origin: Origin, actions: &mut Vec<Action<H>>) -> bool {
        let Some(abandoned) = self.lanes.abandon(origin) else {
            return false;
        };
        free(abandoned.room, actions);
        discard(abandoned.payload, actions);
        if let Some(transfer) = abandoned.transfer {
            let progress = Progress::Abandoned;
            let payload = Bytes::new();
            self.push(&Frame::Chunk(Chunk {
                transfer,
                progress,
                size: 0,
                payload,
            }));
        }
        true
    }

    /// Forgets all that has not left, but for the calls.
    pub(super) fn lose_tells(&mut self, loss: &Loss, actions: &mut Vec<Action<H>>) {
        let buffered = self
            .tells
            .drain(..)
            .map(|(_, session, method)| (session, method));
        for (session, method) in buffered.chain(self.lanes.tells()) {
            actions.push(Action::TellLost {
                session,
                method,
                loss: TellLoss::NotSent(loss.clone()),
            });
        }
    }

    /// Bytes that wait for the peer to read, in the buffer and in lanes.
    pub(super) fn backlog(&self) -> usize {
        self.outgoing.unsent().len() + self.lanes.bytes()
    }

    /// Whether more bytes wait than one message and the limit for all others.
    pub(super) fn is_unread(&self) -> bool {
        let one = usize::try_from(self.settings.frame_limit).unwrap_or(usize::MAX);
        self.outgoing.unsent().len() > self.settings.unsent_limit
            || self.backlog() > self.settings.unsent_limit.saturating_add(one)
    }
}

/// Payloads of at least this many bytes are given to the shell to be dropped elsewhere: the system
/// takes milliseconds to take so many pages back, and others wait for this thread.
const DISCARDED: usize = 1024 * 1024;

fn discard<H: Host>(payload: Bytes, actions: &mut Vec<Action<H>>) {
    if payload.len() >= DISCARDED {
        actions.push(Action::Discard(payload));
    }
}
