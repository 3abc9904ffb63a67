//! Notices handlers that hold their arbiter, and names them.
//!
//! An arbiter is one thread: a handler that computes or blocks for a second holds up every actor,
//! timer and heartbeat on it. The watchdog is a thread of its own, one a service, that looks now and
//! then at a number which each endpoint changes with every poll and every handler. It costs the
//! endpoints two plain stores a call and no look at the clock.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// What one actor's thread is doing. Written by that thread only.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Odd while the actor runs; another number with each poll and each handler.
    sequence: AtomicU64,
    /// The handler's method number and one; 0 outside handlers.
    method: AtomicUsize,
}

impl Activity {
    fn advance(&self, steps: u64) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence
            .store(sequence.wrapping_add(steps), Ordering::Relaxed);
    }

    /// The actor begins, or ends, to run.
    pub(crate) fn toggle(&self) {
        self.advance(1);
    }

    /// A handler of that number begins, or, with `None`, has ended.
    pub(crate) fn handler(&self, method: Option<usize>) {
        self.method
            .store(method.map_or(0, |number| number + 1), Ordering::Relaxed);
        self.advance(2);
    }

    fn look(&self) -> (u64, Option<usize>) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        (sequence, self.method.load(Ordering::Relaxed).checked_sub(1))
    }
}

/// What the watchdog looks at.
pub(crate) trait Watched: Send + Sync {
    /// The present actor's activity.
    fn activity(&self) -> (u64, Option<usize>);

    /// The watchdog has come by.
    fn looked_at(&self);

    /// The actor has run for so long without a pause.
    fn stalled(&self, method: Option<usize>, since: Duration);
}

impl Activity {
    /// For [`Watched::activity`].
    pub(crate) fn seen(&self) -> (u64, Option<usize>) {
        self.look()
    }
}

/// The endpoints under watch. The thread lives as long as this does.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limit: Duration,
    kennel: Arc<Mutex<Kennel>>,
}

#[derive(Default)]
struct Kennel {
    is_running: bool,
    watched: Vec<Entry>,
}

struct Entry {
    endpoint: Weak<dyn Watched>,
    sequence: u64,
    since: Instant,
    /// The next length of a stall that is told.
    next: Duration,
}

impl std::fmt::Debug for Kennel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kennel")
            .field("watched", &self.watched.len())
            .finish_non_exhaustive()
    }
}

impl Watchdog {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            kennel: Arc::default(),
        }
    }

    pub(crate) fn watch(&self, endpoint: Weak<dyn Watched>) {
        let mut kennel = self.kennel.lock().unwrap_or_else(PoisonError::into_inner);
        kennel.watched.push(Entry {
            endpoint,
            sequence: 0,
            since: Instant::now(),
            next: self.limit,
        });
        if !std::mem::replace(&mut kennel.is_running, true) {
            let (kennel, limit) = (Arc::downgrade(&self.kennel), self.limit);
            let thread = std::thread::Builder::new().name("lockkeeper-watchdog".into());
            if let Err(error) = thread.spawn(move || look_around(&kennel, limit)) {
                tracing::warn!(%error, "no thread for the watchdog");
            }
        }
    }
}

fn look_around(kennel: &Weak<Mutex<Kennel>>, limit: Duration) {
    let pause = (limit / 4).clamp(Duration::from_millis(1), Duration::from_millis(250));
    while let Some(living) = kennel.upgrade() {
        let (mut stalls, mut living_endpoints) = (Vec::new(), Vec::new());
        {
            let mut kennel = living.lock().unwrap_or_else(PoisonError::into_inner);
            kennel
                .watched
                .retain_mut(|entry| match entry.endpoint.upgrade() {
                    Some(endpoint) => {
                        let stall = look(entry, &*endpoint, limit);
                        stalls.extend(stall.map(|stall| (Arc::clone(&endpoint), stall)));
                        living_endpoints.push(endpoint);
                        true
                    }
                    None => false,
                });
            if kennel.watched.is_empty() {
                kennel.is_running = false;
                return;
            }
        }
        drop(living);
        for endpoint in living_endpoints {
            endpoint.looked_at();
        }
        for (endpoint, (method, since)) in stalls {
            endpoint.stalled(method, since);
        }
        std::thread::park_timeout(pause);
    }
}

/// A stall to be told, once when it passes the limit and again each time it has doubled.
fn look(
    entry: &mut Entry,
    endpoint: &dyn Watched,
    limit: Duration,
) -> Option<(Option<usize>, Duration)> {
    let (sequence, method) = endpoint.activity();
    let is_idle = sequence.is_multiple_of(2);
    if is_idle || sequence != entry.sequence {
        entry.sequence = sequence;
        entry.since = Instant::now();
        entry.next = limit;
        return None;
    }
    let since = entry.since.elapsed();
    if since < entry.next {
        return None;
    }
    entry.next = since * 2;
    Some((method, since))
}
