//! How long to wait before the next attempt, and when to give up. A machine: no clock, no dice.

use std::time::Duration;

/// Waits that double from a first to a longest one, with jitter, for a limited number of times.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    limit: Option<u32>,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration, limit: Option<u32>) -> Self {
        Self {
            first,
            longest,
            limit,
            failures: 0,
        }
    }

    /// One more failure in a row: how long to wait, or `None` when that was the last allowed.
    /// `dice` is a number from 0 to 1; the wait is half to all of what it would be without.
    pub(crate) fn failed(&mut self, dice: f64) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        if self.limit.is_some_and(|limit| self.failures > limit) {
            return None;
        }
        let doublings = self.failures.saturating_sub(1).min(31);
        let whole = self.first.saturating_mul(1 << doublings).min(self.longest);
        Some(whole.mul_f64(0.5 + dice.clamp(0.0, 1.0) / 2.0))
    }

    /// It works again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_end_at_the_limit() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5), Some(4));
        let waits: Vec<_> = (0..5).map(|_| backoff.failed(1.0)).collect();
        assert_eq!(
            waits,
            [
                Some(seconds(1)),
                Some(seconds(2)),
                Some(seconds(4)),
                Some(seconds(5)),
                None
            ]
        );
        backoff.reset();
        assert_eq!(backoff.failed(0.0), Some(Duration::from_millis(500)));
    }

    #[test]
    fn without_a_limit_it_goes_on() {
        let longest = Duration::from_secs(30);
        let mut backoff = Backoff::new(Duration::from_millis(100), longest, None);
        let last = (0..1000).map(|_| backoff.failed(1.0)).last();
        assert_eq!(last, Some(Some(longest)));
    }
}
