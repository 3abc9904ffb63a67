//! One session that is served to the peer: its endpoint, and the room that its messages take.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lockkeeper_core::transport::InboundSession;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::task::Done;
use crate::wire::{Fault, Grant};

/// A served session; clones share it. The last one stops watching the endpoint.
#[derive(Clone)]
pub(crate) struct Served {
    pub(super) session: Arc<dyn InboundSession>,
    room: Arc<Room>,
    watch: Arc<Watch>,
}

impl Served {
    pub(super) fn new(
        session: Arc<dyn InboundSession>,
        whole: Grant,
        done: mpsc::UnboundedSender<Done>,
    ) -> Self {
        let room = Room {
            worth_telling: Grant {
                messages: whole.messages.div_ceil(4),
                bytes: whole.bytes.div_ceil(4),
            },
            messages: AtomicU32::new(0),
            bytes: AtomicU32::new(0),
            is_told: AtomicBool::new(false),
            session: OnceLock::new(),
            done,
        };
        Self {
            session,
            room: Arc::new(room),
            watch: Arc::default(),
        }
    }

    /// The session's number is known: its endpoint's end is told from now on.
    pub(super) fn begin(&self, number: u32) {
        // Each session begins once.
        let _ = self.room.session.set(number);
        let closed = self.session.closed();
        let done = self.room.done.clone();
        let watch = tokio::spawn(async move {
            let fault = Fault::from(&closed.await);
            // The connection may have gone meanwhile.
            let _ = done.send(Done::Ended {
                session: number,
                fault,
            });
        });
        let _ = self.watch.0.set(watch.abort_handle());
    }

    /// A message's payload, which gives its room back when it is dropped: when the message leaves
    /// the inbox.
    pub(super) fn held(&self, payload: Bytes) -> Bytes {
        Bytes::from_owner(Held {
            payload,
            room: Arc::clone(&self.room),
        })
    }

    /// What messages have given back since this was called last.
    pub(super) fn freed(&self) -> Grant {
        self.room.take()
    }
}

#[derive(Default)]
struct Watch(OnceLock<AbortHandle>);

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watch) = self.0.get() {
            watch.abort();
        }
    }
}

/// Room that messages have given back and the peer has not been told of.
struct Room {
    /// Less than this waits for more.
    worth_telling: Grant,
    messages: AtomicU32,
    bytes: AtomicU32,
    is_told: AtomicBool,
    session: OnceLock<u32>,
    done: mpsc::UnboundedSender<Done>,
}

impl Room {
    fn give_back(self: &Arc<Self>, size: u32) {
        let bytes = self
            .bytes
            .fetch_add(size, Ordering::Relaxed)
            .wrapping_add(size);
        let messages = self.messages.fetch_add(1, Ordering::AcqRel) + 1;
        let is_enough =
            messages >= self.worth_telling.messages || bytes >= self.worth_telling.bytes;
        if is_enough
            && !self.is_told.swap(true, Ordering::AcqRel)
            && let Some(session) = self.session.get()
        {
            // The connection may have gone meanwhile.
            let _ = self.done.send(Done::Freed { session: *session });
        }
    }

    fn take(&self) -> Grant {
        self.is_told.store(false, Ordering::Release);
        Grant {
            messages: self.messages.swap(0, Ordering::AcqRel),
            bytes: self.bytes.swap(0, Ordering::AcqRel),
        }
    }
}

struct Held {
    payload: Bytes,
    room: Arc<Room>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A payload is smaller than a frame.
        self.room
            .give_back(u32::try_from(self.payload.len()).unwrap_or(u32::MAX));
    }
}
