//! The bounded past of the numbers that are drawn.

use std::{collections::HashMap, collections::VecDeque, time::Duration};

use crate::status::{Plot, StatusFact};

/// Values of one plot: two minutes of them.
pub(super) const POINTS: usize = 240;
/// Plots at a time; what comes beyond is shown as a number only.
const PLOTS: usize = 500;

/// The plots of all sources.
#[derive(Debug, Default)]
pub(super) struct History {
    courses: HashMap<(String, String), Course>,
    round: u64,
}

#[derive(Debug)]
struct Course {
    points: VecDeque<f64>,
    /// The last number and when it was seen, for what it grows.
    last: Option<(Duration, f64)>,
    /// The round in which it was seen last.
    seen: u64,
}

impl History {
    /// Begins a round of values.
    pub(super) fn begin(&mut self) {
        self.round += 1;
    }

    /// Takes a source's value in this round. `now` is a time of any clock that only goes forward.
    pub(super) fn take(&mut self, now: Duration, source: &str, fact: &StatusFact) {
        let Some(value) = fact.value.as_f64().filter(|value| value.is_finite()) else {
            return;
        };
        let key = (source.to_owned(), fact.label.clone());
        if self.courses.len() >= PLOTS && !self.courses.contains_key(&key) {
            return;
        }
        let round = self.round;
        let course = self.courses.entry(key).or_insert_with(|| Course {
            points: VecDeque::new(),
            last: None,
            seen: round,
        });
        course.seen = round;
        let point = match fact.plot {
            Plot::None => None,
            Plot::Value => Some(value),
            Plot::Rate => course.rate(now, value),
        };
        course.last = Some((now, value));
        course.points.extend(point);
        while course.points.len() > POINTS {
            course.points.pop_front();
        }
    }

    /// Ends the round: what was not seen in it is forgotten.
    pub(super) fn end(&mut self) {
        let round = self.round;
        self.courses.retain(|_, course| course.seen == round);
    }

    /// The values of a plot, oldest first.
    pub(super) fn points(&self, source: &str, label: &str) -> Vec<f64> {
        let key = (source.to_owned(), label.to_owned());
        let course = self.courses.get(&key);
        course.map_or_else(Vec::new, |course| course.points.iter().copied().collect())
    }
}

impl Course {
    /// A count that shrank began anew: its process was started again.
    fn rate(&self, now: Duration, value: f64) -> Option<f64> {
        let (at, before) = self.last?;
        let seconds = now.checked_sub(at)?.as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let grown = if value >= before {
            value - before
        } else {
            value
        };
        Some(grown / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{StatusValue, Unit};

    fn fact(value: impl Into<StatusValue>, plot: Plot) -> StatusFact {
        StatusFact {
            label: "rows".into(),
            value: value.into(),
            unit: Unit::None,
            plot,
        }
    }

    fn feed(history: &mut History, seconds: u64, value: u64, plot: Plot) {
        history.begin();
        history.take(Duration::from_secs(seconds), "a", &fact(value, plot));
        history.end();
    }

    #[test]
    fn a_rate_is_what_a_count_grows_in_a_second_and_a_count_that_shrank_began_anew() {
        let mut history = History::default();
        for (seconds, count) in [(0, 100), (2, 300), (3, 300), (4, 50)] {
            feed(&mut history, seconds, count, Plot::Rate);
        }
        assert_eq!(history.points("a", "rows"), [100.0, 0.0, 50.0]);
    }

    #[test]
    fn a_plot_is_bounded_and_ends_with_its_source() {
        let mut history = History::default();
        for second in 0..1_000 {
            feed(&mut history, second, second, Plot::Value);
        }
        let points = history.points("a", "rows");
        assert_eq!(points.len(), POINTS);
        assert_eq!(points.last(), Some(&999.0));
        history.begin();
        history.end();
        assert!(history.points("a", "rows").is_empty());
    }

    #[test]
    fn plots_beyond_the_limit_and_what_is_no_number_are_left_out() {
        let mut history = History::default();
        history.begin();
        for source in 0..2 * PLOTS {
            let source = source.to_string();
            history.take(Duration::ZERO, &source, &fact(1_u64, Plot::Value));
        }
        history.take(Duration::ZERO, "0", &fact(f64::NAN, Plot::Value));
        history.take(Duration::ZERO, "0", &fact("text", Plot::Value));
        history.end();
        assert_eq!(history.courses.len(), PLOTS);
        assert_eq!(history.points("0", "rows"), [1.0]);
    }
}
