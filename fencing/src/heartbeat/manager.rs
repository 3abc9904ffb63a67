//! The pure machine of heartbeats.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::BootTime;

/// How often to ask, and when a target counts as dead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeartbeatOptions {
    /// The time between two questions (10 s).
    pub interval: Duration,
    /// How long a target may be silent (50 s).
    pub timeout: Duration,
    /// After so many consecutive questions that could not be delivered a target is unreachable
    /// (2); `None` turns that off.
    pub unreachable_threshold: Option<u32>,
}

impl Default for HeartbeatOptions {
    fn default() -> Self {
        HeartbeatOptions {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(50),
            unreachable_threshold: Some(2),
        }
    }
}

impl HeartbeatOptions {
    /// Sets interval and time-out.
    #[must_use]
    pub fn with_times(mut self, interval: Duration, timeout: Duration) -> Self {
        (self.interval, self.timeout) = (interval, timeout);
        self
    }

    /// Sets the threshold.
    #[must_use]
    pub fn with_unreachable_threshold(mut self, threshold: Option<u32>) -> Self {
        self.unreachable_threshold = threshold;
        self
    }
}

/// Options that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("heartbeats need timeout >= interval > 0 and a threshold above 0")]
#[non_exhaustive]
pub struct InvalidHeartbeatOptions;

/// What the owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeartbeatAction<T> {
    /// Ask the target, and hand its answer to [`HeartbeatManager::beat`] with this round.
    Ask {
        /// The target.
        target: T,
        /// The round of the question.
        round: u64,
    },
    /// The target was silent for too long. Told once; it is not monitored any longer.
    TimedOut {
        /// The target.
        target: T,
    },
    /// Too many questions in a row could not be delivered. Told once, as above.
    Unreachable {
        /// The target.
        target: T,
    },
}

/// Asks targets at intervals and notices who does not answer.
#[derive(Clone, Debug)]
pub struct HeartbeatManager<T> {
    options: HeartbeatOptions,
    targets: BTreeMap<T, Target>,
    round: u64,
    next_tick: BootTime,
    largest_lateness: Duration,
}

#[derive(Clone, Debug)]
struct Target {
    /// It is asked; otherwise it says by itself that it lives.
    is_asked: bool,
    /// Answers to earlier rounds are of a former time.
    first_round: u64,
    last_beat: Option<BootTime>,
    silent_until: BootTime,
    failures: u32,
}

impl Target {
    /// Always true: it is there.
    fn lives(&mut self, now: BootTime, timeout: Duration) -> bool {
        self.last_beat = Some(now);
        self.silent_until = now.after(timeout);
        self.failures = 0;
        true
    }
}

impl<T: Ord + Clone> HeartbeatManager<T> {
    /// A manager without targets, whose first tick is due now.
    ///
    /// # Errors
    /// [`InvalidHeartbeatOptions`].
    pub fn new(options: HeartbeatOptions, now: BootTime) -> Result<Self, InvalidHeartbeatOptions> {
        let sound = !options.interval.is_zero()
            && options.timeout >= options.interval
            && options.unreachable_threshold != Some(0);
        if !sound {
            return Err(InvalidHeartbeatOptions);
        }
        Ok(HeartbeatManager {
            options,
            targets: BTreeMap::new(),
            round: 0,
            next_tick: now,
            largest_lateness: Duration::ZERO,
        })
    }

    /// Begins to monitor a target; one that is monitored already goes on as it is.
    pub fn monitor(&mut self, target: T, now: BootTime) {
        self.begin(target, now, true);
    }

    /// Begins to monitor a target that is not asked: it asks this side, and
    /// [`heard`](Self::heard) is to be called with each of its questions.
    pub fn listen(&mut self, target: T, now: BootTime) {
        self.begin(target, now, false);
    }

    fn begin(&mut self, target: T, now: BootTime, is_asked: bool) {
        let silent_until = now.after(self.options.timeout);
        let first_round = self.round + 1;
        let new = Target {
            is_asked,
            first_round,
            last_beat: None,
            silent_until,
            failures: 0,
        };
        self.targets.entry(target).or_insert(new);
    }

    /// Ends monitoring; nothing is told about this target any longer.
    pub fn unmonitor(&mut self, target: &T) {
        self.targets.remove(target);
    }

    /// A beat has come: the answer to a question of that round. Beats of unknown targets and
    /// of rounds before the monitoring are ignored. Returns whether it counts.
    pub fn beat(&mut self, target: &T, round: u64, now: BootTime) -> bool {
        let found = self.targets.get_mut(target);
        let found = found.filter(|found| round >= found.first_round);
        found.is_some_and(|target| target.lives(now, self.options.timeout))
    }

    /// A target has said by itself that it lives. Unknown ones are ignored. Returns whether it counts.
    pub fn heard(&mut self, target: &T, now: BootTime) -> bool {
        let found = self.targets.get_mut(target);
        found.is_some_and(|target| target.lives(now, self.options.timeout))
    }

    /// A question could not be delivered. A mere time-out of a call is none.
    pub fn undelivered(&mut self, target: &T, round: u64) -> Option<HeartbeatAction<T>> {
        let threshold = self.options.unreachable_threshold?;
        let found = self
            .targets
            .get_mut(target)
            .filter(|found| round >= found.first_round)?;
        found.failures = found.failures.saturating_add(1);
        if found.failures < threshold {
            return None;
        }
        self.targets.remove(target);
        Some(HeartbeatAction::Unreachable {
            target: target.clone(),
        })
    }

    /// When [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> BootTime {
        let silent = self
            .targets
            .values()
            .map(|target| target.silent_until)
            .min();
        silent.map_or(self.next_tick, |silent| silent.min(self.next_tick))
    }

    /// What is due now. May be called early.
    pub fn tick(&mut self, now: BootTime) -> Vec<HeartbeatAction<T>> {
        let lateness = now.since(self.next_tick());
        self.largest_lateness = self.largest_lateness.max(lateness);
        if lateness > self.options.interval {
            // We stood still, not they: their beats may be in our inbox.
            let grace = now.after(self.options.interval);
            for target in self.targets.values_mut() {
                target.silent_until = target.silent_until.max(grace);
            }
        }
        let silent = |target: &Target| now >= target.silent_until;
        let dead: Vec<T> = self
            .targets
            .iter()
            .filter(|(_, target)| silent(target))
            .map(|(name, _)| name.clone())
            .collect();
        let mut actions = Vec::new();
        for target in dead {
            self.targets.remove(&target);
            actions.push(HeartbeatAction::TimedOut { target });
        }
        if now >= self.next_tick {
            self.round += 1;
            self.next_tick = now.after(self.options.interval);
            let round = self.round;
            let ask = |target: &T| HeartbeatAction::Ask {
                target: target.clone(),
                round,
            };
            let asked = self.targets.iter().filter(|(_, target)| target.is_asked);
            actions.extend(asked.map(|(target, _)| ask(target)));
        }
        actions
    }

    /// When the last beat of a target came; `None` for none, and for unknown targets.
    #[must_use]
    pub fn last_beat(&self, target: &T) -> Option<BootTime> {
        self.targets.get(target)?.last_beat
    }

    /// The targets that are monitored.
    pub fn targets(&self) -> impl Iterator<Item = &T> {
        self.targets.keys()
    }

    /// The most that a tick came too late, since the beginning: large values say that the owner's
    /// thread is overloaded or blocked.
    #[must_use]
    pub fn largest_lateness(&self) -> Duration {
        self.largest_lateness
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootTime {
        BootTime::since_boot(Duration::from_secs(seconds))
    }

    fn manager() -> HeartbeatManager<&'static str> {
        HeartbeatManager::new(HeartbeatOptions::default(), at(0)).unwrap()
    }

    fn ask(target: &'static str, round: u64) -> HeartbeatAction<&'static str> {
        HeartbeatAction::Ask { target, round }
    }

    #[test]
    fn a_silent_target_times_out_once_and_a_living_one_does_not() {
        let mut beats = manager();
        beats.monitor("a", at(0));
        beats.monitor("b", at(0));
        for round in 1..=5 {
            let now = at((round - 1) * 10);
            assert_eq!(beats.tick(now), [ask("a", round), ask("b", round)]);
            beats.beat(&"a", round, now);
        }
        assert_eq!(beats.next_tick(), at(50));
        let timed_out = HeartbeatAction::TimedOut { target: "b" };
        assert_eq!(beats.tick(at(50)), [timed_out, ask("a", 6)]);
        assert_eq!(beats.tick(at(55)), []);
        assert_eq!(beats.last_beat(&"a"), Some(at(40)));
        assert_eq!(beats.last_beat(&"b"), None);
    }

    #[test]
    fn undelivered_questions_count_only_in_a_row() {
        let mut beats = manager();
        beats.monitor("a", at(0));
        beats.tick(at(0));
        assert_eq!(beats.undelivered(&"a", 1), None);
        beats.beat(&"a", 1, at(1));
        assert_eq!(beats.undelivered(&"a", 1), None);
        let unreachable = Some(HeartbeatAction::Unreachable { target: "a" });
        assert_eq!(beats.undelivered(&"a", 1), unreachable);
        assert_eq!(beats.undelivered(&"a", 1), None, "told once");
        let options = HeartbeatOptions::default().with_unreachable_threshold(None);
        let mut beats = HeartbeatManager::new(options, at(0)).unwrap();
        beats.monitor("a", at(0));
        beats.tick(at(0));
        assert!((0..9).all(|_| beats.undelivered(&"a", 1).is_none()));
    }

    #[test]
    fn answers_from_before_the_monitoring_are_ignored() {
        let mut beats = manager();
        beats.monitor("a", at(0));
        beats.tick(at(0));
        beats.unmonitor(&"a");
        beats.monitor("a", at(1));
        beats.beat(&"a", 1, at(2));
        assert_eq!(beats.last_beat(&"a"), None);
        assert_eq!(beats.undelivered(&"a", 1), None);
        beats.beat(&"stranger", 1, at(2));
        assert_eq!(beats.targets().count(), 1);
    }

    #[test]
    fn an_owner_that_stood_still_declares_nobody_dead_at_once() {
        let mut beats = manager();
        beats.monitor("a", at(0));
        beats.tick(at(0));
        assert_eq!(beats.tick(at(100)), [ask("a", 2)]);
        assert_eq!(beats.largest_lateness(), Duration::from_secs(90));
        assert_eq!(
            beats.tick(at(110)),
            [HeartbeatAction::TimedOut { target: "a" }]
        );
    }

    #[test]
    fn a_target_that_is_listened_to_is_not_asked_and_times_out_when_it_asks_no_more() {
        let mut beats = manager();
        beats.listen("asks", at(0));
        assert_eq!(beats.tick(at(0)), []);
        assert!(beats.heard(&"asks", at(30)));
        assert!(!beats.heard(&"stranger", at(30)));
        for seconds in [10, 20, 30, 40, 50, 60, 70] {
            assert_eq!(beats.tick(at(seconds)), []);
        }
        let timed_out = HeartbeatAction::TimedOut { target: "asks" };
        assert_eq!(beats.tick(at(80)), [timed_out]);
        assert!(!beats.heard(&"asks", at(81)), "late");
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let options = HeartbeatOptions::default;
        let second = Duration::from_secs(1);
        for options in [
            options().with_times(Duration::ZERO, second),
            options().with_times(second * 2, second),
            options().with_unreachable_threshold(Some(0)),
        ] {
            assert!(HeartbeatManager::<u8>::new(options, at(0)).is_err());
        }
    }
}
