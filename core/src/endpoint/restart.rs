//! How often and how soon what has failed is restarted, an endpoint or a process: a pure machine.
//!
//! actix' own supervisor restarts at once, for ever, and never after a panic. Here a restart needs
//! room in a window, and the pause before it grows, with jitter, until a quiet window resets it.

use std::{collections::VecDeque, time::Duration};

use crate::error::{RpcError, RpcErrorKind};

/// What a supervised endpoint does after a panic in the synchronous part of a handler. A panic in
/// one of the actor's futures always ends the incarnation: its state can't be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AfterPanic {
    /// Throw the actor away and make a new one.
    #[default]
    Restart,
    /// Keep the actor as the panic left it.
    Keep,
}

/// What happens when the restart limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Escalation {
    /// The endpoint ends with the last cause; siblings live.
    #[default]
    EndEndpoint,
    /// The whole service is terminated.
    TerminateService,
}

/// How a supervised endpoint is restarted; through a [`RestartBudget`] of your own, anything else
/// that fails.
///
/// ```
/// use lockkeeper_core::RestartPolicy;
/// use std::time::Duration;
/// let policy = RestartPolicy::default().max_restarts(3).window(Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct RestartPolicy {
    max_restarts: usize,
    window: Duration,
    first_pause: Duration,
    max_pause: Duration,
    pub(crate) after_panic: AfterPanic,
    pub(crate) escalation: Escalation,
    seed: Option<u64>,
}

impl Default for RestartPolicy {
    /// 5 restarts in 60 s, pauses from 100 ms doubling to 10 s.
    fn default() -> Self {
        Self {
            max_restarts: 5,
            window: Duration::from_secs(60),
            first_pause: Duration::from_millis(100),
            max_pause: Duration::from_secs(10),
            after_panic: AfterPanic::default(),
            escalation: Escalation::default(),
            seed: None,
        }
    }
}

impl RestartPolicy {
    /// At most this many restarts within the window; one failure more ends the endpoint.
    #[must_use]
    pub fn max_restarts(mut self, count: usize) -> Self {
        self.max_restarts = count;
        self
    }

    /// The window in which restarts are counted. A window without failure resets the pause.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// The pause before the first restart; each further one doubles it up to `max`. Each pause is
    /// drawn from the upper half of its length.
    #[must_use]
    pub fn back_off(mut self, first: Duration, max: Duration) -> Self {
        self.first_pause = first;
        self.max_pause = max;
        self
    }

    /// What a caught panic in a handler leads to.
    #[must_use]
    pub fn after_panic(mut self, after_panic: AfterPanic) -> Self {
        self.after_panic = after_panic;
        self
    }

    /// What happens when the limit is reached.
    #[must_use]
    pub fn escalation(mut self, escalation: Escalation) -> Self {
        self.escalation = escalation;
        self
    }

    /// Draws the jitter from this seed, for tests.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

/// Why an incarnation is over.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// A panic, or a failed start under supervision: worth a restart.
    Panic(RpcError),
    /// The actor stopped itself: its own will, so no restart.
    StoppedItself,
}

impl Failure {
    pub(crate) fn into_cause(self) -> RpcError {
        match self {
            Self::Panic(error) => error,
            Self::StoppedItself => RpcError::new(
                RpcErrorKind::Stopped,
                "its actor stopped itself without the endpoint being terminated",
            ),
        }
    }
}

/// What to do about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartVerdict {
    /// Restart it after this pause.
    RestartAfter(Duration),
    /// Not any more, with the reason.
    GiveUp(String),
}

/// Counts the restarts of one thing, and says when there are too many. Has no clock: the caller
/// tells the time. [`after_panic`](RestartPolicy::after_panic) and
/// [`escalation`](RestartPolicy::escalation) are for endpoints alone.
///
/// ```
/// use lockkeeper_core::{RestartBudget, RestartPolicy, RestartVerdict};
/// use std::time::Duration;
///
/// let mut budget = RestartBudget::new(RestartPolicy::default().max_restarts(1));
/// let verdict = budget.failed(Duration::ZERO);
/// assert!(matches!(verdict, RestartVerdict::RestartAfter(pause) if pause.as_millis() <= 100));
/// let verdict = budget.failed(Duration::from_secs(1));
/// assert!(matches!(verdict, RestartVerdict::GiveUp(_)));
/// ```
#[derive(Debug)]
pub struct RestartBudget {
    policy: RestartPolicy,
    restarts: VecDeque<Duration>,
    random: fastrand::Rng,
}

impl RestartBudget {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new(policy: RestartPolicy) -> Self {
        let random = policy
            .seed
            .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self {
            policy,
            restarts: VecDeque::new(),
            random,
        }
    }

    /// A failure at `now` (time since any fixed point).
    pub fn failed(&mut self, now: Duration) -> RestartVerdict {
        let window = self.policy.window;
        while self
            .restarts
            .front()
            .is_some_and(|at| now.saturating_sub(*at) >= window)
        {
            self.restarts.pop_front();
        }
        if self.restarts.len() >= self.policy.max_restarts {
            return RestartVerdict::GiveUp(format!(
                "not restarted again after {} restarts within {window:?}",
                self.restarts.len()
            ));
        }
        let doublings = u32::try_from(self.restarts.len())
            .unwrap_or(u32::MAX)
            .min(31);
        let full = self.policy.first_pause.saturating_mul(1 << doublings);
        let full = std::cmp::min(full, self.policy.max_pause);
        self.restarts.push_back(now);
        RestartVerdict::RestartAfter(full.mul_f64(0.5 + 0.5 * self.random.f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_with_jitter_up_to_the_maximum() {
        let second = Duration::from_secs(1);
        let policy = RestartPolicy::default()
            .max_restarts(6)
            .back_off(second, 8 * second)
            .seed(7);
        let mut budget = RestartBudget::new(policy);
        for full in [1, 2, 4, 8, 8, 8] {
            let RestartVerdict::RestartAfter(pause) = budget.failed(second) else {
                unreachable!("within the limit")
            };
            assert!(
                pause >= full * second / 2 && pause <= full * second,
                "{pause:?} of {full} s"
            );
        }
        assert!(matches!(budget.failed(second), RestartVerdict::GiveUp(_)));
    }

    #[test]
    fn restarts_outside_the_window_are_forgotten() {
        let policy = RestartPolicy::default()
            .max_restarts(1)
            .window(Duration::from_secs(10));
        let mut budget = RestartBudget::new(policy);
        assert!(matches!(
            budget.failed(Duration::ZERO),
            RestartVerdict::RestartAfter(_)
        ));
        assert!(matches!(
            budget.failed(Duration::from_secs(9)),
            RestartVerdict::GiveUp(_)
        ));
        assert!(matches!(
            budget.failed(Duration::from_secs(10)),
            RestartVerdict::RestartAfter(_)
        ));
    }

    #[test]
    fn huge_pauses_do_not_overflow() {
        let policy = RestartPolicy::default()
            .max_restarts(100)
            .back_off(Duration::from_secs(u64::MAX / 4), Duration::from_secs(3600));
        let mut budget = RestartBudget::new(policy);
        for _ in 0..100 {
            assert!(matches!(
                budget.failed(Duration::MAX),
                RestartVerdict::RestartAfter(_)
            ));
        }
    }
}
