//! The moment after which a leader must not act, known to the leader without asking anybody.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{BootTime, Clock};

/// What of a session a leader uses: four fifths. The rest is the margin for clocks that run at
/// different rates and for the time between a check and its effect.
const USED: (u32, u32) = (4, 5);

/// Over for good.
const ENDED: u64 = 0;

/// The deadline of one leadership: the *send* time of the last answered own request plus
/// 0.8 × the session.
///
/// The acting code calls [`check`](Self::check) right before each effect. It reads the clock
/// there and then; a flag that a timer sets would be late exactly when the process was stopped.
/// Clones share one deadline, so that a driver can renew what a contender checks.
///
/// What a check cannot do: the process may be stopped between the check and the effect. Effects
/// that must not take hold then go to endpoints that compare tokens or to stores that fence
/// ([`EpochGuard`](crate::guard::EpochGuard)).
#[derive(Clone)]
pub struct LocalDeadline {
    clock: Arc<dyn Clock>,
    session: Duration,
    /// Nanoseconds since boot; [`ENDED`] when it is over for good.
    until: Arc<AtomicU64>,
}

/// The leadership's deadline has passed: the effect must not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the leadership's own deadline has passed (read at {now:?}); stop acting as leader")]
#[non_exhaustive]
pub struct DeadlinePassed {
    /// The clock's reading at the check.
    pub now: BootTime,
}

impl LocalDeadline {
    /// A deadline for a session of this length that was confirmed by a request sent at `sent`.
    #[must_use]
    pub fn start(clock: Arc<dyn Clock>, session: Duration, sent: BootTime) -> Self {
        let until = Arc::new(AtomicU64::new(nanoseconds(deadline_of(sent, session))));
        LocalDeadline {
            clock,
            session,
            until,
        }
    }

    /// A deadline that never passes by itself, for leaders that nothing can replace (in-process
    /// election, tests). [`end`](Self::end) ends it.
    #[must_use]
    pub fn unlimited(clock: Arc<dyn Clock>) -> Self {
        let until = Arc::new(AtomicU64::new(u64::MAX));
        LocalDeadline {
            clock,
            session: Duration::MAX,
            until,
        }
    }

    /// To be called right before each effect.
    ///
    /// # Errors
    /// [`DeadlinePassed`] when the effect must not be made.
    pub fn check(&self) -> Result<(), DeadlinePassed> {
        let now = self.clock.now();
        if nanoseconds(now) < self.until.load(Ordering::SeqCst) {
            Ok(())
        } else {
            Err(DeadlinePassed { now })
        }
    }

    /// How long effects are allowed from now on; zero when they are not.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let until = BootTime::since_boot(Duration::from_nanos(self.until.load(Ordering::SeqCst)));
        until.since(self.clock.now())
    }

    /// Moves the deadline after a request that was sent at `sent` has been answered.
    ///
    /// It counts only if the clock is still before the old deadline: somebody else may lead since
    /// (model-checked: without this rule there are two leaders at once). An answer to an older
    /// request than the last one changes nothing.
    ///
    /// # Errors
    /// [`DeadlinePassed`] when it came too late; the deadline has ended for good then.
    pub fn renew(&self, sent: BootTime) -> Result<(), DeadlinePassed> {
        let offered = nanoseconds(deadline_of(sent, self.session));
        let now = self.clock.now();
        let renewed = self
            .until
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |until| {
                (nanoseconds(now) < until).then_some(until.max(offered))
            });
        match renewed {
            Ok(_) => Ok(()),
            Err(_) => {
                self.end();
                Err(DeadlinePassed { now })
            }
        }
    }

    /// Moves the deadline also after it has passed: for answers by which the store itself proves
    /// that the leadership was never lost, neither then nor since. Whoever stops at the deadline
    /// uses [`renew`](Self::renew). One that was ended stays so.
    #[cfg(any(feature = "etcd", feature = "kubernetes", feature = "zookeeper"))]
    pub(crate) fn confirm(&self, sent: BootTime) {
        let offered = nanoseconds(deadline_of(sent, self.session));
        let later = |until| (until != ENDED).then_some(u64::max(until, offered));
        let _ = self
            .until
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    /// Ends it now and for good: every later check fails.
    pub fn end(&self) {
        self.until.store(ENDED, Ordering::SeqCst);
    }
}

impl fmt::Debug for LocalDeadline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LocalDeadline")
            .field("remaining", &self.remaining())
            .finish()
    }
}

fn deadline_of(sent: BootTime, session: Duration) -> BootTime {
    sent.after(session.saturating_mul(USED.0) / USED.1)
}

fn nanoseconds(reading: BootTime) -> u64 {
    u64::try_from(reading.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const SESSION: Duration = Duration::from_secs(10);

    fn started() -> (ManualClock, LocalDeadline) {
        let clock = ManualClock::new();
        let deadline = LocalDeadline::start(Arc::new(clock.clone()), SESSION, clock.now());
        (clock, deadline)
    }

    #[test]
    fn effects_end_at_four_fifths_of_the_session() {
        let (clock, deadline) = started();
        clock.advance(Duration::from_millis(7_999));
        assert_eq!(deadline.check(), Ok(()));
        assert_eq!(deadline.remaining(), Duration::from_millis(1));
        clock.advance(Duration::from_millis(1));
        assert!(deadline.check().is_err());
    }

    #[test]
    fn a_renewal_counts_from_the_sending_not_from_the_answer() {
        let (clock, deadline) = started();
        clock.advance(Duration::from_secs(1));
        let sent = clock.now();
        clock.advance(Duration::from_secs(6));
        deadline.renew(sent).unwrap();
        assert_eq!(deadline.remaining(), Duration::from_secs(2));
    }

    #[test]
    fn a_renewal_after_the_old_deadline_does_not_count_and_ends_it() {
        let (clock, deadline) = started();
        let contender = deadline.clone();
        clock.advance(Duration::from_secs(1));
        let sent = clock.now();
        clock.advance(Duration::from_secs(7));
        assert!(deadline.renew(sent).is_err());
        assert!(contender.check().is_err());
        assert!(deadline.renew(clock.now()).is_err(), "ended for good");
    }

    #[cfg(any(feature = "etcd", feature = "kubernetes", feature = "zookeeper"))]
    #[test]
    fn what_the_store_confirms_goes_on_after_the_deadline_but_not_after_the_end() {
        let (clock, deadline) = started();
        clock.advance(Duration::from_secs(9));
        assert!(deadline.check().is_err());
        deadline.confirm(clock.now());
        assert_eq!(deadline.remaining(), Duration::from_secs(8));
        deadline.end();
        deadline.confirm(clock.now());
        assert!(deadline.check().is_err());
    }

    #[test]
    fn an_answer_to_an_older_request_does_not_shorten_it() {
        let (clock, deadline) = started();
        let old = clock.now();
        clock.advance(Duration::from_secs(2));
        deadline.renew(clock.now()).unwrap();
        deadline.renew(old).unwrap();
        assert_eq!(deadline.remaining(), Duration::from_secs(8));
    }

    #[test]
    fn unlimited_ends_only_when_told() {
        let clock = ManualClock::new();
        let deadline = LocalDeadline::unlimited(Arc::new(clock.clone()));
        clock.advance(Duration::from_secs(1_000_000));
        assert!(deadline.check().is_ok());
        deadline.end();
        assert!(deadline.check().is_err());
    }
}
