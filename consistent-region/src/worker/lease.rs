//! The worker's right to act.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_fencing::clock::{Clock, SystemClock};

/// Ended, not to be renewed by a late answer.
const ENDED: u64 = 0;
/// Has no end.
const UNLIMITED: u64 = u64::MAX;

/// Until when a worker may act. Sources and sinks [`check`](Self::check) it right before each
/// effect: fetching, acknowledging, staging, committing.
///
/// The deadline is the *send* time of the last answered heartbeat plus four fifths of the lease,
/// on a clock that goes on while the machine sleeps. It is compared with the clock at each check,
/// never kept as a flag: a process that was stopped for an hour finds out before it acts.
///
/// A check can't protect an effect that is stopped in its middle: what takes it must refuse a
/// second one (see the sinks), or be made harmless by the successor (see the sources).
#[derive(Clone)]
pub struct Lease {
    /// Nanoseconds since the machine's start.
    until: Arc<AtomicU64>,
    /// The holder was replaced, whatever the worker may still do.
    revoked: Arc<AtomicBool>,
}

/// The worker's lease has ended: the effect must not happen. The worker registers anew and its
/// instances are reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker's lease has ended")]
pub struct LeaseLost;

impl Lease {
    /// A lease that does not end, for tests of a source or sink by itself.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::until(UNLIMITED)
    }

    pub(crate) fn ended() -> Self {
        Self::until(ENDED)
    }

    fn until(until: u64) -> Self {
        Self {
            until: Arc::new(AtomicU64::new(until)),
            revoked: Arc::default(),
        }
    }

    /// The same lease for one instance: it can be revoked by itself.
    pub(crate) fn share(&self) -> Self {
        Self {
            until: Arc::clone(&self.until),
            revoked: Arc::default(),
        }
    }

    pub(crate) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
    }

    /// Whether the worker may act now.
    pub fn check(&self) -> Result<(), LeaseLost> {
        match self.remaining() {
            Duration::ZERO => Err(LeaseLost),
            _ => Ok(()),
        }
    }

    /// How long the worker may still act if no heartbeat is answered; zero when it may not.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.until.load(Ordering::Acquire) {
            _ if self.revoked.load(Ordering::Acquire) => Duration::ZERO,
            UNLIMITED => Duration::MAX,
            until => Duration::from_nanos(until).saturating_sub(since_boot()),
        }
    }

    pub(crate) fn renew(&self, until: Duration) {
        let until = u64::try_from(until.as_nanos()).unwrap_or(UNLIMITED - 1);
        self.until.store(until, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.until.store(ENDED, Ordering::Release);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("remaining", &self.remaining())
            .finish()
    }
}

/// Time since the machine's start, its sleep included.
pub(crate) fn since_boot() -> Duration {
    SystemClock.now().elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_the_clock_alone() {
        let lease = Lease::ended();
        assert_eq!(lease.check(), Err(LeaseLost));
        lease.renew(since_boot() + Duration::from_secs(60));
        assert_eq!(lease.check(), Ok(()));
        // As if the process had been stopped for long: nobody told the lease.
        lease.renew(since_boot());
        assert_eq!(lease.check(), Err(LeaseLost));
    }

    #[test]
    fn an_ended_lease_is_ended_for_every_holder() {
        let lease = Lease::unlimited();
        let held = lease.clone();
        lease.end();
        assert_eq!(held.check(), Err(LeaseLost));
    }

    #[test]
    fn a_replaced_instance_may_not_act_while_its_worker_may() {
        let worker = Lease::unlimited();
        let (former, successor) = (worker.share(), worker.share());
        former.revoke();
        assert_eq!(former.check(), Err(LeaseLost));
        assert_eq!(successor.check(), Ok(()));
        worker.end();
        assert_eq!(successor.check(), Err(LeaseLost));
    }
}
