//! How many asks of one session may be unanswered, in messages and bytes: the rest wait in turn.
//!
//! Without it one endpoint that does not keep up would take all calls that the connection may have
//! in flight, and callers of other endpoints would wait for it.

use std::sync::OnceLock;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::wire::Grant;

/// A session's room for asks. There is none before it is opened.
#[derive(Debug, Default)]
pub(crate) struct AskRoom(OnceLock<Opened>);

#[derive(Debug)]
struct Opened {
    messages: Semaphore,
    bytes: Semaphore,
    whole: u32,
}

/// The room of one ask, held until it has its answer.
pub(crate) type Taken<'a> = (SemaphorePermit<'a>, SemaphorePermit<'a>);

impl AskRoom {
    /// Makes as much room as the peer gives for one-way messages.
    pub(super) fn open(&self, grant: Grant) {
        let permits = |count: u32| Semaphore::new(usize::try_from(count).unwrap_or(usize::MAX));
        // A session begins once.
        let _ = self.0.set(Opened {
            messages: permits(grant.messages.max(1)),
            bytes: permits(grant.bytes.max(1)),
            whole: grant.bytes.max(1),
        });
    }

    /// Takes room if there is some.
    pub(crate) fn try_take(&self, size: usize) -> Option<Taken<'_>> {
        let room = self.0.get()?;
        let message = room.messages.try_acquire().ok()?;
        let bytes = room.bytes.try_acquire_many(room.share(size)).ok()?;
        Some((message, bytes))
    }

    /// Waits for room, behind those who wait already; `None` if the session was never opened.
    pub(crate) async fn take(&self, size: usize) -> Option<Taken<'_>> {
        let room = self.0.get()?;
        let message = room.messages.acquire().await.ok()?;
        let bytes = room.bytes.acquire_many(room.share(size)).await.ok()?;
        Some((message, bytes))
    }
}

impl Opened {
    /// A message larger than all room takes all.
    fn share(&self, size: usize) -> u32 {
        u32::try_from(size).map_or(self.whole, |size| size.min(self.whole))
    }
}
