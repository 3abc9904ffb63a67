//! Which connection leads to which process: one a pair, found by address, dialled on demand.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use lockkeeper_core::Authority;
use uuid::Uuid;

use crate::link::{LinkHandle, Role};
use crate::wire::Farewell;

/// With notes about more addresses than this, those that say nothing any more are swept.
const PAUSES: usize = 256;

/// The connections of one service.
pub(crate) struct Peers {
    own: Uuid,
    /// By the address that was dialled, and by the one that the peer says it listens on.
    by_address: DashMap<Authority, Arc<LinkHandle>>,
    /// All that live, in the order in which they came. Also the lock under which a pair's choice
    /// is made.
    links: Mutex<Vec<Arc<LinkHandle>>>,
    dialling: DashMap<Authority, Arc<tokio::sync::Mutex<Pause>>>,
}

/// Failed attempts to dial one address.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    pub(crate) attempts: u32,
    pub(crate) until: Option<Instant>,
}

impl Pause {
    /// Notes a failure: the next attempt waits, longer each time, with jitter.
    pub(crate) fn failed(&mut self, now: Instant, first: Duration, limit: Duration) {
        let doubled = first.saturating_mul(1 << self.attempts.min(16));
        self.attempts = self.attempts.saturating_add(1);
        let pause = if doubled < limit { doubled } else { limit };
        self.until = Some(now + pause.mul_f64(0.5 + fastrand::f64() / 2.0));
    }

    /// Notes a success.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

impl Peers {
    pub(crate) fn new(own: Uuid) -> Self {
        Self {
            own,
            by_address: DashMap::new(),
            links: Mutex::new(Vec::new()),
            dialling: DashMap::new(),
        }
    }

    /// A connection that calls to this address can take.
    pub(crate) fn usable(&self, authority: &Authority) -> Option<Arc<LinkHandle>> {
        self.by_address
            .get(authority)
            .filter(|link| link.is_usable())
            .map(|link| Arc::clone(&link))
    }

    /// What only one attempt at a time may hold for an address.
    pub(crate) fn dialling(&self, authority: &Authority) -> Arc<tokio::sync::Mutex<Pause>> {
        if self.dialling.len() >= PAUSES {
            self.sweep_pauses();
        }
        Arc::clone(&self.dialling.entry(authority.clone()).or_default())
    }

    /// All connections.
    pub(crate) fn all(&self) -> Vec<Arc<LinkHandle>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<LinkHandle>>> {
        // Every change is one push or retain: a panic leaves no half of it.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a connection whose introduction is done, and returns the one to be used for calls
    /// to its process.
    ///
    /// If both sides dialled at once there are two. The one from the smaller incarnation stays;
    /// only the side that dialled the other retires it, so that never both go.
    pub(crate) fn admit(
        &self,
        link: &Arc<LinkHandle>,
        dialled: Option<&Authority>,
    ) -> Arc<LinkHandle> {
        let mut links = self.lock();
        let peer = link.peer();
        let to_self = peer.incarnation == self.own;
        let other = links
            .iter()
            .rev()
            .find(|other| other.peer().incarnation == peer.incarnation && other.is_usable())
            .filter(|_| !to_self)
            .cloned();
        links.push(Arc::clone(link));
        let (used, retired) = match other {
            None => (Arc::clone(link), None),
            Some(other) => self.choose(other, link),
        };
        if let Some(retired) = &retired {
            retired.mark_retired();
        }
        if !(to_self && peer.role == Role::Acceptor) {
            let listening = peer.listening.as_ref();
            for authority in dialled.into_iter().chain(listening) {
                self.by_address.insert(authority.clone(), Arc::clone(&used));
            }
        }
        drop(links);
        if let Some(retired) = retired {
            self.unregister_address(&retired, &used);
            retired.retire(
                Farewell::Duplicate,
                "the two processes have another connection",
            );
        }
        used
    }

    /// Of an older and a newer connection with the same process: the one for new calls, and the one
    /// that is ours to retire.
    fn choose(
        &self,
        old: Arc<LinkHandle>,
        new: &Arc<LinkHandle>,
    ) -> (Arc<LinkHandle>, Option<Arc<LinkHandle>>) {
        let new = Arc::clone(new);
        match (old.peer().role, new.peer().role) {
            // We dialled twice (two names of one process): the older is as good.
            (Role::Dialler, Role::Dialler) => (old, Some(new)),
            // The peer dialled twice: it may have lost the older.
            (Role::Acceptor, Role::Acceptor) => (new, None),
            (Role::Dialler, Role::Acceptor) if self.own < new.peer().incarnation => (old, None),
            (Role::Dialler, Role::Acceptor) => (new, Some(old)),
            (Role::Acceptor, Role::Dialler) if self.own < old.peer().incarnation => (new, None),
            (Role::Acceptor, Role::Dialler) => (old, Some(new)),
        }
    }

    fn unregister_address(&self, gone: &Arc<LinkHandle>, used: &Arc<LinkHandle>) {
        for mut entry in self.by_address.iter_mut() {
            if Arc::ptr_eq(entry.value(), gone) {
                *entry.value_mut() = Arc::clone(used);
            }
        }
    }

    /// Forgets the pauses that are over. An address that is dialled right now keeps its entry.
    fn sweep_pauses(&self) {
        let now = Instant::now();
        self.dialling.retain(|_, pause| {
            Arc::strong_count(pause) > 1
                || pause
                    .try_lock()
                    .is_ok_and(|pause| pause.until.is_some_and(|until| until > now))
        });
    }

    /// Forgets a connection that is gone.
    pub(crate) fn remove(&self, link: &Arc<LinkHandle>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, link));
        self.by_address.retain(|_, other| !Arc::ptr_eq(other, link));
        self.sweep_pauses();
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers")
            .field("links", &self.lock().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_attempts_double_with_jitter_up_to_the_limit_and_end_with_a_success() {
        let (first, limit) = (Duration::from_millis(50), Duration::from_secs(2));
        let now = Instant::now();
        let mut pause = Pause::default();
        let mut seen = std::collections::BTreeSet::new();
        for attempt in 0..40 {
            pause.failed(now, first, limit);
            let whole = first.saturating_mul(1 << attempt.min(16)).min(limit);
            let waited = pause.until.unwrap() - now;
            assert!(
                whole / 2 <= waited && waited <= whole,
                "{attempt}: {waited:?}"
            );
            seen.insert(waited);
        }
        // Thirty pauses of the limit's length, and no two processes dial at once.
        assert!(seen.len() > 20, "{seen:?}");
        pause.succeeded();
        assert_eq!((pause.attempts, pause.until), (0, None));
    }
}
