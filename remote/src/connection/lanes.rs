//! Messages that do not go out in one piece, and what has to wait behind them.
//!
//! A session's messages keep their order, so a small one waits behind a large one of its own
//! session and of no other. Lanes take turns, a piece at a time.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::outgoing::Outgoing;
use crate::wire::{Frame, Progress};

/// Transfers that may be under way at once, each way. The receiver holds as many frames in part.
pub(super) const TRANSFERS: usize = 4;

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Call(u32),
    /// A one-way message, by its method.
    Tell(u16),
    /// The end of the session.
    Leave,
    Reply(u32),
}

#[derive(Debug)]
struct Item {
    origin: Origin,
    /// Kind and fields.
    head: BytesMut,
    payload: Bytes,
    /// How much of head and payload is out, if that has begun, and under which number.
    transfer: Option<(u32, usize)>,
    room: u32,
}

impl Item {
    fn size(&self) -> usize {
        self.head.len() + self.payload.len()
    }
}

#[derive(Debug)]
struct Lane {
    /// The session whose order it keeps; a reply has a lane of its own.
    session: Option<u32>,
    items: VecDeque<Item>,
}

/// A message that is out, to its last byte.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) origin: Origin,
    pub(super) session: Option<u32>,
    pub(super) payload: Bytes,
    /// Place of its last byte in all bytes sent.
    pub(super) end: u64,
    /// The room that it held.
    pub(super) room: u32,
}

/// A message that was given up.
#[derive(Debug)]
pub(super) struct Abandoned {
    /// The transfer that the peer holds a part of.
    pub(super) transfer: Option<u32>,
    pub(super) payload: Bytes,
    pub(super) room: u32,
}

/// The lanes of one connection.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: VecDeque<Lane>,
    turn: usize,
    next_transfer: u32,
    bytes: usize,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Bytes that wait here.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a message of that session has to wait.
    pub(super) fn is_busy(&self, session: u32) -> bool {
        self.lanes.iter().any(|lane| lane.session == Some(session))
    }

    /// Puts a message behind those of its session; `None` is a lane of its own.
    pub(super) fn enqueue(
        &mut self,
        session: Option<u32>,
        origin: Origin,
        head: BytesMut,
        frame: &Frame,
        room: u32,
    ) {
        let item = Item {
            origin,
            head,
            payload: frame.payload().clone(),
            transfer: None,
            room,
        };
        self.bytes += item.size();
        let lane = self
            .lanes
            .iter_mut()
            .find(|lane| lane.session == session && session.is_some());
        match lane {
            Some(lane) => lane.items.push_back(item),
            None => self.lanes.push_back(Lane {
                session,
                items: VecDeque::from([item]),
            }),
        }
    }

    /// Puts the next piece into the buffer: a message of up to `whole` bytes as its frame, of a
    /// larger one up to `whole` bytes as a chunk.
    pub(super) fn push_piece(&mut self, whole: usize, outgoing: &mut Outgoing) -> Option<Done> {
        // Lanes beyond the limit wait until one before them is empty.
        let active = self.lanes.len().min(TRANSFERS);
        if self.turn >= active {
            self.turn = 0;
        }
        let lane = self.lanes.get_mut(self.turn)?;
        let item = lane.items.front_mut()?;
        let size = item.size();
        let (end, out, finished) = if size <= whole && item.transfer.is_none() {
            (
                outgoing.push_parts(&[&item.head, &item.payload]),
                size,
                true,
            )
        } else {
            let (transfer, from) = *item.transfer.get_or_insert_with(|| {
                self.next_transfer = self.next_transfer.wrapping_add(1);
                (self.next_transfer, 0)
            });
            let to = size.min(from + whole);
            let progress = if to == size {
                Progress::Last
            } else {
                Progress::More
            };
            let head = item.head.len();
            let first = &item.head[from.min(head)..to.min(head)];
            let second = &item.payload[from.saturating_sub(head)..to.saturating_sub(head)];
            let whole_size = u32::try_from(size).unwrap_or(u32::MAX);
            item.transfer = Some((transfer, to));
            (
                outgoing.push_chunk(transfer, progress, whole_size, &[first, second]),
                to - from,
                to == size,
            )
        };
        self.bytes -= out;
        self.turn += 1;
        if !finished {
            return None;
        }
        let session = lane.session;
        let Item {
            origin,
            room,
            payload,
            ..
        } = lane.items.pop_front()?;
        if lane.items.is_empty() {
            self.turn -= 1;
            self.lanes.remove(self.turn);
        }
        Some(Done {
            origin,
            session,
            payload,
            end,
            room,
        })
    }

    /// Takes out a message that is not out to its end yet.
    pub(super) fn abandon(&mut self, origin: Origin) -> Option<Abandoned> {
        for at in 0..self.lanes.len() {
            let items = &mut self.lanes[at].items;
            let Some(place) = items.iter().position(|item| item.origin == origin) else {
                continue;
            };
            let item = items.remove(place)?;
            let out = item.transfer.map_or(0, |(_, out)| out);
            self.bytes -= item.size() - out;
            if items.is_empty() {
                self.lanes.remove(at);
                if at < self.turn {
                    self.turn -= 1;
                }
            }
            let transfer = item.transfer.map(|(transfer, _)| transfer);
            return Some(Abandoned {
                transfer,
                payload: item.payload,
                room: item.room,
            });
        }
        None
    }

    /// The one-way messages that are not out to their end, by session and method.
    pub(super) fn tells(&self) -> Vec<(u32, u16)> {
        let mut tells = Vec::new();
        for lane in &self.lanes {
            for item in &lane.items {
                if let (Origin::Tell(method), Some(session)) = (item.origin, lane.session) {
                    tells.push((session, method));
                }
            }
        }
        tells
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
