//! The tuples between their senders and the operator.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task;

use futures_util::task::AtomicWaker;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

/// What operator and senders share.
pub(super) struct Shared<T> {
    id: Uuid,
    capacity: usize,
    state: Mutex<State<T>>,
    /// Wakes the operator.
    reader: AtomicWaker,
    /// Wakes senders that wait for room.
    room: Notify,
    /// Index behind the tuples that no cut needs any more.
    covered: watch::Sender<u64>,
    senders: AtomicUsize,
}

struct State<T> {
    /// Index of `tuples[0]`.
    first: u64,
    tuples: VecDeque<T>,
    /// An operator has begun to read.
    was_read: bool,
}

/// What the operator gets.
pub(super) enum Taken<T> {
    Tuples(Vec<T>),
    /// It is woken when there are some.
    NoneYet,
    /// All senders are gone.
    NoMore,
}

impl<T> Shared<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            id: Uuid::new_v4(),
            capacity,
            state: Mutex::new(State {
                first: 0,
                tuples: VecDeque::new(),
                was_read: false,
            }),
            reader: AtomicWaker::new(),
            room: Notify::new(),
            covered: watch::Sender::new(0),
            senders: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // The state is whole at every point where a holder could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    pub(super) fn first(&self) -> u64 {
        self.state().first
    }

    pub(super) fn was_read(&self) -> bool {
        self.state().was_read
    }

    pub(super) fn begin_reading(&self) {
        self.state().was_read = true;
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.state().tuples.len() * 2 >= self.capacity
    }

    /// No cut needs the tuples below `index` any more.
    pub(super) fn forget_below(&self, index: u64) {
        let mut state = self.state();
        let count = usize::try_from(index.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let count = count.min(state.tuples.len());
        state.tuples.drain(..count);
        state.first += count as u64;
        let first = state.first;
        drop(state);
        self.covered.send_replace(first);
        self.room.notify_waiters();
    }

    /// Appends a tuple if there is room; gives its index, or the tuple back.
    fn push(&self, tuple: T) -> Result<u64, T> {
        let mut state = self.state();
        if state.tuples.len() >= self.capacity {
            return Err(tuple);
        }
        let index = state.first + state.tuples.len() as u64;
        state.tuples.push_back(tuple);
        drop(state);
        self.reader.wake();
        Ok(index)
    }
}

impl<T: Clone> Shared<T> {
    /// At most `most` tuples from `next` on.
    pub(super) fn poll_take(&self, cx: &mut task::Context<'_>, next: u64, most: usize) -> Taken<T> {
        // First: what comes after this look wakes.
        self.reader.register(cx.waker());
        let over = self.senders.load(Ordering::Acquire) == 0;
        let state = self.state();
        let from = usize::try_from(next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let tuples: Vec<T> = state.tuples.iter().skip(from).take(most).cloned().collect();
        match (tuples.is_empty(), over && state.was_sent()) {
            (false, _) => Taken::Tuples(tuples),
            (true, true) => Taken::NoMore,
            (true, false) => Taken::NoneYet,
        }
    }
}

impl<T> State<T> {
    /// A buffer that nobody has sent to yet waits for its first sender.
    fn was_sent(&self) -> bool {
        self.first > 0 || !self.tuples.is_empty()
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Shared")
            .field("id", &self.id)
            .field("capacity", &self.capacity)
            .field("first", &state.first)
            .field("tuples", &state.tuples.len())
            .finish_non_exhaustive()
    }
}

/// Hands tuples to a [`ReplayableStart`](super::ReplayableStart). Cheap to clone.
pub struct ReplaySender<T> {
    shared: Arc<Shared<T>>,
}

/// There is no room, and the tuple comes back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the buffer is full: no cut has completed that would make room")]
pub struct NotTaken<T>(pub T);

/// The buffer is gone, and so is the process' part in the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the buffer is gone: whether a cut covers the tuple is not known")]
pub struct Closed;

impl<T> ReplaySender<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        shared.senders.fetch_add(1, Ordering::AcqRel);
        Self { shared }
    }

    /// Hands in a tuple, if there is room now.
    ///
    /// # Errors
    /// [`NotTaken`] with the tuple when there is none.
    pub fn try_send(&self, tuple: T) -> Result<Receipt, NotTaken<T>> {
        match self.shared.push(tuple) {
            Ok(index) => Ok(Receipt {
                index,
                covered: self.shared.covered.subscribe(),
            }),
            Err(tuple) => Err(NotTaken(tuple)),
        }
    }

    /// Hands in a tuple; waits while there is no room. What is dropped while it waits was not handed
    /// in.
    pub async fn send(&self, mut tuple: T) -> Receipt {
        loop {
            let room = self.shared.room.notified();
            let mut room = std::pin::pin!(room);
            // Before the look, so that room that comes after it wakes.
            room.as_mut().enable();
            match self.try_send(tuple) {
                Ok(receipt) => return receipt,
                Err(NotTaken(back)) => tuple = back,
            }
            room.await;
        }
    }
}

impl<T> Clone for ReplaySender<T> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }
}

impl<T> Drop for ReplaySender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.reader.wake();
        }
    }
}

impl<T> fmt::Debug for ReplaySender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplaySender").field(&self.shared).finish()
    }
}

/// A tuple that was handed in.
#[derive(Debug, Clone)]
pub struct Receipt {
    index: u64,
    covered: watch::Receiver<u64>,
}

impl Receipt {
    /// Waits until the tuple is in the state of a cut for good: no reset goes back behind it. With
    /// two cuts retained that is when the second cut after it is complete.
    ///
    /// # Errors
    /// [`Closed`] when the buffer is dropped before.
    pub async fn covered(mut self) -> Result<(), Closed> {
        let index = self.index;
        match self.covered.wait_for(|covered| *covered > index).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Closed),
        }
    }
}
