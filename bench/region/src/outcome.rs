//! What a process that runs the work says at its end.

use bench_harness::Failure;
use bench_harness::cell::cpu_seconds;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// From the start of the job to its end.
    pub seconds: f64,
    /// User and system time of the whole process until then.
    pub cpu: f64,
    pub tuples: u64,
    /// Every key has the count that it should.
    pub correct: bool,
    /// Completed rounds.
    pub rounds: u64,
    pub round_p50_ms: f64,
    /// From an injected failure to the first tuple that is counted again.
    pub failover_ms: f64,
    /// Of each round, from its beginning to its manifest.
    pub rounds_ms: Vec<f64>,
    /// Of each round, from the last tuple at the sink before the cut to the first behind it.
    pub pauses_ms: Vec<f64>,
    /// Time of the threads that no operator runs on: they write state and coordinate.
    pub rounds_cpu: f64,
    /// Bytes of state that the rounds have written.
    pub bytes: u64,
}

impl Outcome {
    /// With the processor's time up to now.
    pub fn now(seconds: f64, tuples: u64) -> Result<Self, Failure> {
        Ok(Self {
            seconds,
            cpu: cpu_seconds(0)?,
            tuples,
            ..Self::default()
        })
    }

    pub fn correct(mut self, correct: bool) -> Self {
        self.correct = correct;
        self
    }
}
