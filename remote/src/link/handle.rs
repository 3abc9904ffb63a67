//! What callers hold of a connection, on whatever thread they are.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_core::Authority;
use lockkeeper_core::trace::TraceContext;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Asked, Role};
use crate::connection::{CallEnd, Loss, OpenEnd};
use crate::wire::{Connect, Farewell, TRACE, TRACES_SINCE};

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// This run of the peer's service.
    pub(crate) incarnation: Uuid,
    /// Where the peer says that it can be dialled.
    pub(crate) listening: Option<Authority>,
    /// Its application's version.
    pub(crate) application: String,
    /// The protocol version that both sides speak.
    pub(crate) version: u16,
    /// The socket's address.
    pub(crate) socket: std::net::SocketAddr,
    /// Whether we dialled or accepted.
    pub(crate) role: Role,
}

/// How a session request ended; the task adds nothing to the machine's word.
pub(crate) type Opened = OpenEnd;

/// What callers ask of a link's task.
pub(crate) enum Request {
    Open {
        connect: Connect,
        deadline: Instant,
        asked: Arc<Asked>,
        opener: oneshot::Sender<Opened>,
    },
    Call {
        call: u32,
        session: u32,
        method: u16,
        deadline: Instant,
        trace: Option<Box<TraceContext>>,
        payload: Bytes,
        room: Room,
        waiter: oneshot::Sender<CallEnd>,
    },
    Tell {
        session: u32,
        method: u16,
        trace: Option<Box<TraceContext>>,
        payload: Bytes,
        room: Room,
    },
    Cancel {
        call: u32,
    },
    Leave {
        session: u32,
    },
    Retire {
        reason: Farewell,
        text: String,
    },
}

/// Messages of more bytes than this go in chunks. No peer's frame limit is smaller.
pub(crate) const WHOLE_LIMIT: usize = 60 * 1024;

/// Room that a message holds while it waits for the socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// What it takes of the limit, in bytes.
    pub(crate) share: u32,
    /// Held until the last chunk is out, not only until the task takes the message.
    pub(crate) large: bool,
}

/// Bytes and latency of a connection, written by its task.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
    /// In microseconds and one; 0: no ping was answered yet.
    round_trip: AtomicU64,
}

impl Traffic {
    pub(super) fn add_sent(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_received(&self, bytes: u64) {
        if bytes > 0 {
            self.received.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn set_round_trip(&self, round_trip: Option<Duration>) {
        let micros = round_trip.and_then(|time| u64::try_from(time.as_micros()).ok());
        let shown = micros.map_or(0, |micros| micros.saturating_add(1));
        self.round_trip.store(shown, Ordering::Relaxed);
    }

    /// Bytes that were sent, and received.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (
            self.sent.load(Ordering::Relaxed),
            self.received.load(Ordering::Relaxed),
        )
    }

    /// What the last ping took, there and back.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let shown = self.round_trip.load(Ordering::Relaxed);
        shown.checked_sub(1).map(Duration::from_micros)
    }
}

/// A connection as its users see it. Its task lives on the I/O thread.
pub(crate) struct LinkHandle {
    peer: Peer,
    frame_limit: u32,
    requests: mpsc::UnboundedSender<Request>,
    room: Semaphore,
    /// Large messages wait among themselves: a small one need not wait for a long transfer.
    large_room: Semaphore,
    room_limit: u32,
    next_call: AtomicU32,
    /// Calls that have no answer yet, to the peer and from it, as of the task's last turn.
    calls_out: AtomicUsize,
    calls_in: AtomicUsize,
    traffic: Traffic,
    /// Sessions that this side has at the peer, for those who look from outside.
    sessions: Mutex<Vec<Weak<Asked>>>,
    retired: AtomicBool,
    loss: OnceLock<Loss>,
    closed: CancellationToken,
}

impl LinkHandle {
    /// A handle, and the receiver that its task takes.
    pub(crate) fn new(
        peer: Peer,
        frame_limit: u32,
        room_limit: u32,
    ) -> (Self, mpsc::UnboundedReceiver<Request>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let room = usize::try_from(room_limit).unwrap_or(Semaphore::MAX_PERMITS);
        let handle = Self {
            peer,
            frame_limit,
            requests,
            room: Semaphore::new(room),
            large_room: Semaphore::new(room),
            room_limit,
            next_call: AtomicU32::new(1),
            calls_out: AtomicUsize::new(0),
            calls_in: AtomicUsize::new(0),
            traffic: Traffic::default(),
            sessions: Mutex::default(),
            retired: AtomicBool::new(false),
            loss: OnceLock::new(),
            closed: CancellationToken::new(),
        };
        (handle, receiver)
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn frame_limit(&self) -> u32 {
        self.frame_limit
    }

    /// Whether a message of `size` bytes with its fields can say which span it is sent from. One
    /// that just fits is sent without.
    pub(crate) fn takes_trace(&self, size: usize) -> bool {
        let limit = usize::try_from(self.frame_limit).unwrap_or(usize::MAX);
        self.peer.version >= TRACES_SINCE && size.saturating_add(TRACE) <= limit
    }

    pub(super) fn set_in_flight(&self, to_peer: usize, from_peer: usize) {
        self.calls_out.store(to_peer, Ordering::Relaxed);
        self.calls_in.store(from_peer, Ordering::Relaxed);
    }

    /// Calls to the peer, and from it, that have no answer yet.
    pub(crate) fn in_flight(&self) -> (usize, usize) {
        (
            self.calls_out.load(Ordering::Relaxed),
            self.calls_in.load(Ordering::Relaxed),
        )
    }

    /// What has gone through so far.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(super) fn session_opened(&self, asked: &Arc<Asked>) {
        let mut sessions = self.lock_sessions();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(asked));
    }

    /// The sessions that this side has at the peer.
    pub(crate) fn sessions(&self) -> Vec<Arc<Asked>> {
        let sessions = self.lock_sessions();
        let living = sessions.iter().filter_map(Weak::upgrade);
        living.filter(|session| session.end().is_none()).collect()
    }

    fn lock_sessions(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Asked>>> {
        // Every change is one push or retain: a panic leaves no half of it.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether new calls may go here.
    pub(crate) fn is_usable(&self) -> bool {
        !self.retired.load(Ordering::Acquire) && !self.closed.is_cancelled()
    }

    /// From now on new calls go elsewhere; what is in flight here ends here.
    pub(crate) fn mark_retired(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Leaves in order: what is in flight ends here.
    pub(crate) fn retire(&self, reason: Farewell, text: &str) {
        self.mark_retired();
        self.send(Request::Retire {
            reason,
            text: text.to_owned(),
        });
    }

    /// Why it is gone, once it is.
    pub(crate) fn loss(&self) -> Option<&Loss> {
        self.loss.get()
    }

    /// Resolves when the link is gone and all its calls have their ends.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    pub(super) fn set_closed(&self, loss: Loss) {
        // The first word stands.
        let _ = self.loss.set(loss);
        self.mark_retired();
        self.room.close();
        self.large_room.close();
        self.closed.cancel();
    }

    /// A number for a call.
    pub(crate) fn next_call(&self) -> u32 {
        self.next_call.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands a request to the task; false if the link is gone.
    pub(crate) fn send(&self, request: Request) -> bool {
        self.requests.send(request).is_ok()
    }

    /// What a message of that size takes of the room. A message larger than all room takes all.
    fn share(&self, size: usize) -> Room {
        // A queued entry costs memory beyond its payload.
        const ENTRY: usize = 128;
        let share = u32::try_from(size.saturating_add(ENTRY)).unwrap_or(u32::MAX);
        Room {
            share: share.min(self.room_limit),
            large: size > WHOLE_LIMIT,
        }
    }

    fn semaphore(&self, room: Room) -> &Semaphore {
        if room.large {
            &self.large_room
        } else {
            &self.room
        }
    }

    /// Takes room for a message of that size if there is some; `None` if not.
    pub(crate) fn try_room(&self, size: usize) -> Option<Room> {
        let room = self.share(size);
        let permit = self.semaphore(room).try_acquire_many(room.share).ok()?;
        permit.forget();
        Some(room)
    }

    /// Waits for room; `None` if the link went away.
    pub(crate) async fn room(&self, size: usize) -> Option<Room> {
        let room = self.share(size);
        let permit = self.semaphore(room).acquire_many(room.share).await.ok()?;
        permit.forget();
        Some(room)
    }

    /// Gives room back.
    pub(crate) fn free(&self, room: Room) {
        let share = usize::try_from(room.share).unwrap_or(0);
        self.semaphore(room).add_permits(share);
    }
}

impl fmt::Debug for LinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkHandle")
            .field("peer", &self.peer)
            .field("usable", &self.is_usable())
            .field("loss", &self.loss)
            .finish_non_exhaustive()
    }
}
