//! The bounded inbox outside the mailbox: what calls wait in.
//!
//! One lock guards the gate, the queue and the wake-up, so that each call sees one state of the
//! endpoint: it is either refused at once or in a queue that somebody will empty. Control messages
//! have a lane of their own, the supervisor's channel: STOP never waits behind the data.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Waker,
    time::Duration,
};

use actix::Addr;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::{RpcEndpoint, entry::Entry, lifecycle::Gate};
use crate::error::{RpcError, RpcErrorKind};

/// How much may wait at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InboxLimits {
    /// Calls and closures. Default: 16,384.
    pub messages: usize,
    /// Bytes of encoded messages, and of the shallow size of local ones. Default: 32 MiB. A single
    /// message may be larger if the inbox is empty.
    pub bytes: usize,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self {
            messages: 16_384,
            bytes: 32 << 20,
        }
    }
}

pub(crate) struct Inbox<A: RpcEndpoint> {
    lanes: Mutex<Lanes<A>>,
    /// A wake-up is under way, or a turn runs; changes under the lock only.
    woken: AtomicBool,
    /// What the present turn has taken out and not begun: it counts as waiting. Written by the
    /// turn's thread only.
    turn_messages: AtomicUsize,
    turn_bytes: AtomicUsize,
    limits: InboxLimits,
    room: Notify,
    room_waiters: AtomicUsize,
}

struct Lanes<A: RpcEndpoint> {
    gate: Gate,
    calls: VecDeque<Entry<A>>,
    bytes: usize,
    actor: Option<Addr<A>>,
    /// The task in which the actor lives, while it waits for a wake-up.
    task: Option<Waker>,
}

/// An entry that was not taken, and why.
pub(crate) type Rejected<A> = Box<(Entry<A>, RpcError)>;

impl<A: RpcEndpoint> Inbox<A> {
    pub(crate) fn new(limits: InboxLimits) -> Self {
        Self {
            lanes: Mutex::new(Lanes {
                gate: Gate::Refuse,
                calls: VecDeque::new(),
                bytes: 0,
                actor: None,
                task: None,
            }),
            woken: AtomicBool::new(false),
            turn_messages: AtomicUsize::new(0),
            turn_bytes: AtomicUsize::new(0),
            limits,
            room: Notify::new(),
            room_waiters: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes<A>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry in, and wakes the actor if need be.
    pub(crate) fn push(&self, entry: Entry<A>) -> Result<(), Rejected<A>> {
        let bytes = entry.header().bytes;
        let mut lanes = self.lock();
        let refusal = match lanes.gate.refusal() {
            None => self.full(&lanes, bytes),
            refusal => refusal,
        };
        if let Some(error) = refusal {
            drop(lanes);
            return Err(Box::new((entry, error)));
        }
        lanes.bytes += bytes;
        lanes.calls.push_back(entry);
        self.wake_up(lanes);
        Ok(())
    }

    fn full(&self, lanes: &Lanes<A>, more_bytes: usize) -> Option<RpcError> {
        let InboxLimits { messages, bytes } = self.limits;
        let (waiting, waiting_bytes) = self.count(lanes);
        if waiting >= messages {
            return Some(RpcError::new(
                RpcErrorKind::Full,
                format!("the inbox holds {messages} messages, its limit"),
            ));
        }
        (waiting > 0 && waiting_bytes.saturating_add(more_bytes) > bytes).then(|| {
            RpcError::new(
                RpcErrorKind::Full,
                format!("the inbox holds {waiting_bytes} of at most {bytes} bytes"),
            )
        })
    }

    fn count(&self, lanes: &Lanes<A>) -> (usize, usize) {
        (
            lanes.calls.len() + self.turn_messages.load(Ordering::Relaxed),
            lanes.bytes + self.turn_bytes.load(Ordering::Relaxed),
        )
    }

    /// True if there is something to take. Without the lock: a push that this misses wakes the
    /// actor's task again.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Takes up to `limit` entries for a turn; none ends the turn, and the next push or
    /// [`wake`](Self::wake) begins another. What was taken before must have begun, or be back.
    pub(crate) fn take(&self, batch: &mut VecDeque<Entry<A>>, limit: usize, task: &Waker) {
        let mut lanes = self.lock();
        let count = match lanes.gate {
            Gate::Open => lanes.calls.len().min(limit),
            _ => 0,
        };
        if count == 0 {
            self.woken.store(false, Ordering::Release);
            lanes.task = Some(task.clone());
            self.tell_of_room(&lanes);
            return;
        }
        if count == lanes.calls.len() && batch.is_empty() {
            std::mem::swap(batch, &mut lanes.calls);
            self.turn_bytes
                .store(std::mem::take(&mut lanes.bytes), Ordering::Relaxed);
        } else {
            batch.extend(lanes.calls.drain(..count));
            let bytes = batch.iter().map(|entry| entry.header().bytes).sum();
            lanes.bytes = lanes.bytes.saturating_sub(bytes);
            self.turn_bytes.store(bytes, Ordering::Relaxed);
        }
        self.turn_messages.store(count, Ordering::Relaxed);
        self.tell_of_room(&lanes);
    }

    /// An entry of the turn begins: there is room for another.
    pub(crate) fn begin(&self, bytes: usize) {
        let messages = self.turn_messages.load(Ordering::Relaxed);
        self.turn_messages
            .store(messages.saturating_sub(1), Ordering::Relaxed);
        let waiting = self.turn_bytes.load(Ordering::Relaxed);
        self.turn_bytes
            .store(waiting.saturating_sub(bytes), Ordering::Relaxed);
        if self.room_waiters.load(Ordering::Relaxed) > 0 {
            self.room.notify_one();
        }
    }

    /// Puts back, at the front, what a turn took and did not begin.
    pub(crate) fn put_back(&self, batch: &mut VecDeque<Entry<A>>) {
        let mut lanes = self.lock();
        self.turn_messages.store(0, Ordering::Relaxed);
        lanes.bytes += self.turn_bytes.swap(0, Ordering::Relaxed);
        while let Some(entry) = batch.pop_back() {
            lanes.calls.push_front(entry);
        }
    }

    /// Who began to wait for room while a turn ran may have missed what it freed.
    fn tell_of_room(&self, lanes: &Lanes<A>) {
        let waiters = self.room_waiters.load(Ordering::Relaxed);
        if waiters > 0 {
            let room = self.limits.messages.saturating_sub(self.count(lanes).0);
            for _ in 0..waiters.min(room) {
                self.room.notify_one();
            }
        }
    }

    /// Wakes the actor if something waits that can run.
    pub(crate) fn wake(&self) {
        let lanes = self.lock();
        if !lanes.calls.is_empty() {
            self.wake_up(lanes);
        }
    }

    /// Decides under the lock, so that each call finds an awake actor or wakes it; wakes it after,
    /// so that it does not run into the lock.
    fn wake_up(&self, mut lanes: MutexGuard<'_, Lanes<A>>) {
        if !matches!(lanes.gate, Gate::Open) {
            return;
        }
        if let Some(task) = lanes.task.take() {
            self.woken.store(true, Ordering::Release);
            drop(lanes);
            task.wake();
        }
    }

    /// Notes the task in which the actor lives, and wakes it if something waits.
    pub(crate) fn set_task(&self, task: Waker) {
        let mut lanes = self.lock();
        lanes.task = Some(task);
        self.woken.store(false, Ordering::Release);
        if !lanes.calls.is_empty() {
            self.wake_up(lanes);
        }
    }

    /// Sets the gate. What waits and can't be served any more comes back, with its refusal.
    pub(crate) fn set_gate(&self, gate: Gate) -> Option<(VecDeque<Entry<A>>, RpcError)> {
        let mut lanes = self.lock();
        let refusal = gate.refusal();
        lanes.gate = gate;
        let refused = refusal.map(|error| {
            lanes.bytes = 0;
            (std::mem::take(&mut lanes.calls), error)
        });
        drop(lanes);
        if refused.is_some() {
            self.room.notify_waiters();
        }
        refused
    }

    /// Puts another incarnation's address in place, or none. Wake-ups of the former are forgotten.
    pub(crate) fn set_actor(&self, actor: Option<Addr<A>>) {
        let former = {
            let mut lanes = self.lock();
            lanes.task = None;
            self.woken.store(false, Ordering::Release);
            std::mem::replace(&mut lanes.actor, actor)
        };
        drop(former);
    }

    pub(crate) fn actor(&self) -> Option<Addr<A>> {
        self.lock().actor.clone()
    }

    /// Messages and bytes that wait.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        self.count(&self.lock())
    }

    /// How long the oldest that waits has waited.
    pub(crate) fn age(&self) -> Duration {
        let oldest = self.lock().calls.front().map(|entry| entry.header().sent);
        oldest.map_or(Duration::ZERO, |sent| sent.elapsed())
    }

    /// Resolves when there may be room. Poll it once before the push that counts.
    pub(crate) async fn room(&self) {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.room_waiters.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.room_waiters);
        self.room.notified().await;
    }
}

impl Gate {
    /// What calls get that can neither run nor wait.
    fn refusal(&self) -> Option<RpcError> {
        match self {
            Self::Open | Self::Hold => None,
            Self::Refuse => Some(RpcError::new(
                RpcErrorKind::NotStarted,
                "the endpoint is STOPPED: start it first",
            )),
            Self::Closed(cause) => Some(cause.clone()),
        }
    }
}
