//! How often and how soon a process that has ended is started again: a pure machine.

use std::collections::VecDeque;
use std::time::Duration;

/// How often a process is started again, and how soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartLimit {
    /// At most so many restarts within the window; one end more and it is given up. Default 10.
    pub restarts: usize,
    /// Where restarts are counted. Default 60 s.
    pub window: Duration,
    /// Pause before the first restart; each further one within the window doubles it. Default
    /// 100 ms.
    pub first_pause: Duration,
    /// No pause is longer. Default 10 s.
    pub longest_pause: Duration,
}

impl Default for RestartLimit {
    fn default() -> Self {
        Self {
            restarts: 10,
            window: Duration::from_secs(60),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
        }
    }
}

/// What to do about an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    RestartAfter(Duration),
    GiveUp,
}

/// Counts the restarts of one process.
#[derive(Debug)]
pub(super) struct Restarts {
    limit: RestartLimit,
    at: VecDeque<Duration>,
}

impl Restarts {
    pub(super) fn new(limit: RestartLimit) -> Self {
        Self {
            limit,
            at: VecDeque::new(),
        }
    }

    /// The process has ended, or was not started, at `now` (time since any fixed point).
    pub(super) fn ended(&mut self, now: Duration) -> Verdict {
        let window = self.limit.window;
        let is_over = |at: &Duration| now.saturating_sub(*at) >= window;
        while self.at.front().is_some_and(is_over) {
            self.at.pop_front();
        }
        if self.at.len() >= self.limit.restarts {
            return Verdict::GiveUp;
        }
        let doublings = u32::try_from(self.at.len()).unwrap_or(u32::MAX).min(31);
        let pause = self.limit.first_pause.saturating_mul(1 << doublings);
        self.at.push_back(now);
        Verdict::RestartAfter(std::cmp::min(pause, self.limit.longest_pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn restarts() -> Restarts {
        Restarts::new(RestartLimit {
            restarts: 3,
            window: 60 * S,
            first_pause: S,
            longest_pause: 3 * S,
        })
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_the_limit_ends_them() {
        let mut restarts = restarts();
        for pause in [S, 2 * S, 3 * S] {
            assert_eq!(restarts.ended(10 * S), Verdict::RestartAfter(pause));
        }
        assert_eq!(restarts.ended(69 * S), Verdict::GiveUp);
    }

    #[test]
    fn what_lies_behind_the_window_counts_no_more() {
        let mut restarts = restarts();
        for _ in 0..3 {
            restarts.ended(10 * S);
        }
        assert_eq!(restarts.ended(70 * S), Verdict::RestartAfter(S));
        assert_eq!(restarts.ended(100 * S), Verdict::RestartAfter(2 * S));
    }
}
