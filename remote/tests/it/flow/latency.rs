//! How long small calls take while something else goes on.

use std::time::{Duration, Instant};

use lockkeeper_core::prelude::*;

use crate::support::*;

/// Times of calls, in the order of their lengths.
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Asks for 16 bytes, one call after the other, until the time is over and `done` says so.
    pub(super) async fn measure(
        counter: &Gateway<CounterGateway>,
        least: Duration,
        done: impl Fn() -> bool,
    ) -> Self {
        let begun = Instant::now();
        let mut times = Vec::new();
        while begun.elapsed() < least || !done() {
            let sent = Instant::now();
            counter.send(Echo(vec![7; 16])).await.unwrap();
            times.push(sent.elapsed());
        }
        times.sort_unstable();
        Self(times)
    }

    /// The time within which so many of a hundred calls came back, in microseconds.
    pub(super) fn percentile(&self, percent: usize) -> u128 {
        let place = (self.0.len() * percent / 100).min(self.0.len() - 1);
        self.0[place].as_micros()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}
