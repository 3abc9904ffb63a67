//! How many asks of one session may be unanswered: the rest wait in turn.
//!
//! Without it one endpoint that does not keep up would take all calls that the connection may have
//! in flight, and callers of other endpoints would wait for it. Their bytes are not counted: an ask
//! holds its room until it is answered, which may be long after its message has left the inbox, and
//! a large one would keep all others of its session waiting.

use std::sync::OnceLock;

use tokio::sync::{Semaphore, SemaphorePermit};

/// A session's room for asks. There is none before it is opened.
#[derive(Debug, Default)]
pub(crate) struct AskRoom(OnceLock<Semaphore>);

impl AskRoom {
    /// Makes room for as many as the peer takes one-way messages.
    pub(super) fn open(&self, messages: u32) {
        let asks = usize::try_from(messages.max(1)).unwrap_or(Semaphore::MAX_PERMITS);
        // A session begins once.
        let _ = self.0.set(Semaphore::new(asks));
    }

    /// How many more may be asked now.
    pub(crate) fn left(&self) -> usize {
        self.0.get().map_or(0, Semaphore::available_permits)
    }

    /// Takes room if there is some. It is given back when the permit is dropped.
    pub(crate) fn try_take(&self) -> Option<SemaphorePermit<'_>> {
        self.0.get()?.try_acquire().ok()
    }

    /// Waits for room, behind those who wait already; `None` if the session was never opened.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        self.0.get()?.acquire().await.ok()
    }
}
