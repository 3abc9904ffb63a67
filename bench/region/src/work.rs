//! The work of the contract: numbers → a key for each → a count by key → a sink that keeps the last count of each key.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Keys of every run.
pub const KEYS: u64 = 100_000;
/// Tuples of a batch.
pub const BATCH: u64 = 1_024;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The key of a number.
pub fn key(number: u64) -> u64 {
    number.wrapping_mul(FACTOR) % KEYS
}

/// Where the numbers end: known from the beginning, or when somebody says so.
#[derive(Debug)]
pub struct Limit {
    end: AtomicU64,
    stopped: AtomicBool,
    /// Behind the last number that was ever given: a reset goes back behind it.
    farthest: AtomicU64,
}

impl Limit {
    pub fn at(end: u64) -> Arc<Self> {
        Arc::new(Self {
            end: AtomicU64::new(end),
            stopped: AtomicBool::new(false),
            farthest: AtomicU64::new(0),
        })
    }

    pub fn none() -> Arc<Self> {
        Self::at(u64::MAX)
    }

    /// The numbers end with the last that the source has given when it next looks, also if it was set back since.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// The end, for a source that stands at `next`. Once fixed it stays, whatever the source goes back to.
    pub fn end(&self, next: u64) -> u64 {
        let farthest = next.max(self.farthest.load(Relaxed));
        self.farthest.store(farthest, Relaxed);
        if self.stopped.load(Relaxed) {
            let _ = self
                .end
                .compare_exchange(u64::MAX, farthest, Relaxed, Relaxed);
        }
        self.end.load(Relaxed)
    }

    /// How many numbers there were; [`u64::MAX`] before that is known.
    pub fn numbers(&self) -> u64 {
        self.end.load(Relaxed)
    }
}

/// What the sink has seen.
#[derive(Debug)]
pub struct Seen {
    last: Vec<AtomicU64>,
    tuples: AtomicU64,
    /// From the last tuple of a cut to the first of the next.
    pauses: Mutex<Vec<Duration>>,
}

impl Seen {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            last: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            tuples: AtomicU64::new(0),
            pauses: Mutex::default(),
        })
    }

    /// Takes a batch of (key, count). One thread calls it.
    pub fn take(&self, batch: &[(u64, u64)]) {
        for (key, count) in batch {
            self.last[*key as usize].store(*count, Relaxed);
        }
        let tuples = self.tuples.load(Relaxed) + batch.len() as u64;
        self.tuples.store(tuples, Relaxed);
    }

    pub fn paused(&self, since: Instant) {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.push(since.elapsed());
    }

    pub fn pauses(&self) -> Vec<Duration> {
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.clone()
    }

    /// How many tuples came, those that came again after a reset included.
    pub fn tuples(&self) -> u64 {
        self.tuples.load(Relaxed)
    }

    /// Whether there is a count of each key: the state has its full size.
    pub fn every_key(&self) -> bool {
        self.last.iter().all(|count| count.load(Relaxed) > 0)
    }

    /// Whether each key has the count that the numbers below `numbers` give it: no figure counts without.
    pub fn correct(&self, numbers: u64) -> bool {
        let mut truth = vec![0_u64; self.last.len()];
        for number in 0..numbers {
            truth[key(number) as usize] += 1;
        }
        let counts = self.last.iter().map(|count| count.load(Relaxed));
        counts.eq(truth)
    }
}
