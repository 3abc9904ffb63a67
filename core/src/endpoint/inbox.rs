//! The bounded inbox outside the mailbox: what calls wait in.
//!
//! One lock guards the gate, the queue and the wake-up, so that each call sees one state of the
//! endpoint: it is either refused at once or in a queue that somebody will empty. Control messages
//! have a lane of their own, the supervisor's channel: STOP never waits behind the data.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use actix::Addr;
use tokio::sync::Notify;

use super::{RpcEndpoint, entry::Entry, lifecycle::Gate};
use crate::error::{RpcError, RpcErrorKind};

/// How much may wait at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    limits: InboxLimits,
    room: Notify,
    room_waiters: AtomicUsize,
}

struct Lanes<A: RpcEndpoint> {
    gate: Gate,
    calls: VecDeque<Entry<A>>,
    bytes: usize,
    /// A wake-up is under way, or a turn runs.
    woken: bool,
    actor: Option<Addr<A>>,
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
                woken: false,
                actor: None,
            }),
            limits,
            room: Notify::new(),
            room_waiters: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes<A>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry in, and wakes the actor if need be.
    pub(crate) fn push(
        &self,
        entry: Entry<A>,
        wake_up: impl FnOnce(&Addr<A>),
    ) -> Result<(), Rejected<A>> {
        let mut lanes = self.lock();
        let refusal = match &lanes.gate {
            Gate::Open | Gate::Hold => None,
            Gate::Refuse => Some(not_started()),
            Gate::Closed(cause) => Some(cause.clone()),
        };
        let refusal = refusal.or_else(|| self.full(&lanes, entry.header.bytes));
        if let Some(error) = refusal {
            drop(lanes);
            return Err(Box::new((entry, error)));
        }
        lanes.bytes += entry.header.bytes;
        lanes.calls.push_back(entry);
        lanes.wake_up(wake_up);
        Ok(())
    }

    fn full(&self, lanes: &Lanes<A>, more_bytes: usize) -> Option<RpcError> {
        let InboxLimits { messages, bytes } = self.limits;
        if lanes.calls.len() >= messages {
            return Some(RpcError::new(
                RpcErrorKind::Full,
                format!("the inbox holds {messages} messages, its limit"),
            ));
        }
        (!lanes.calls.is_empty() && lanes.bytes.saturating_add(more_bytes) > bytes).then(|| {
            RpcError::new(
                RpcErrorKind::Full,
                format!("the inbox holds {} of at most {bytes} bytes", lanes.bytes),
            )
        })
    }

    /// The next entry of a turn; `None` ends the turn, and the next push or [`wake`](Self::wake)
    /// begins another.
    pub(crate) fn next(&self, busy: bool) -> Option<Entry<A>> {
        let mut lanes = self.lock();
        let is_shut = busy || !matches!(lanes.gate, Gate::Open);
        let next = if is_shut {
            None
        } else {
            lanes.calls.pop_front()
        };
        match &next {
            Some(entry) => lanes.bytes = lanes.bytes.saturating_sub(entry.header.bytes),
            None => lanes.woken = false,
        }
        drop(lanes);
        if next.is_some() && self.room_waiters.load(Ordering::SeqCst) > 0 {
            self.room.notify_one();
        }
        next
    }

    /// Wakes the actor if something waits that can run.
    pub(crate) fn wake(&self, wake_up: impl FnOnce(&Addr<A>)) {
        let mut lanes = self.lock();
        if !lanes.calls.is_empty() {
            lanes.wake_up(wake_up);
        }
    }

    /// Sets the gate. What waits and can't be served any more comes back, with its refusal.
    pub(crate) fn set_gate(&self, gate: Gate) -> Option<(VecDeque<Entry<A>>, RpcError)> {
        let mut lanes = self.lock();
        let refusal = match &gate {
            Gate::Open | Gate::Hold => None,
            Gate::Refuse => Some(not_started()),
            Gate::Closed(cause) => Some(cause.clone()),
        };
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
            lanes.woken = false;
            std::mem::replace(&mut lanes.actor, actor)
        };
        drop(former);
    }

    pub(crate) fn actor(&self) -> Option<Addr<A>> {
        self.lock().actor.clone()
    }

    /// Messages and bytes that wait.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let lanes = self.lock();
        (lanes.calls.len(), lanes.bytes)
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

impl<A: RpcEndpoint> Lanes<A> {
    /// Under the lock: to clone the actor's address would cost more than to send to it.
    fn wake_up(&mut self, wake_up: impl FnOnce(&Addr<A>)) {
        if self.woken || !matches!(self.gate, Gate::Open) {
            return;
        }
        if let Some(actor) = &self.actor {
            self.woken = true;
            wake_up(actor);
        }
    }
}

fn not_started() -> RpcError {
    RpcError::new(
        RpcErrorKind::NotStarted,
        "the endpoint is STOPPED: start it first",
    )
}
