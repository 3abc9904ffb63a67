//! Operators for tests of regions: numbers from an [`Upstream`] that forgets what is acknowledged, as a real
//! one does, and a count by key (feature `testing`).
//!
//! ```
//! use lockkeeper_consistent_region::graph::Region;
//! use lockkeeper_consistent_region::testing::{Counts, Upstream};
//!
//! // The numbers 0 to 999, of which the first 500 come at once and the others when they are released.
//! let upstream = Upstream::new(1_000, 500);
//! let mut graph = Region::builder("numbers");
//! let reader = upstream.clone();
//! let numbers = graph.start("numbers", move |_| reader.numbers());
//! let key = |number: &u64| number % 10;
//! let counts = graph.keyed("counts", numbers, 2, key, |_| Counts::of_keys(10));
//! # graph.autonomous("sink", counts, 1, |_| Display);
//! # struct Display;
//! # impl actix::Actor for Display { type Context = actix::Context<Self>; }
//! # impl lockkeeper_consistent_region::operator::Operator for Display {
//! #     type Input = (u64, u64);
//! #     type Output = ();
//! #     fn process(
//! #         &mut self,
//! #         _: Vec<(u64, u64)>,
//! #         _: &mut lockkeeper_consistent_region::operator::Output<()>,
//! #     ) -> Result<(), lockkeeper_consistent_region::operator::OperatorError> { Ok(()) }
//! # }
//! # graph.build().unwrap();
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{self, Poll};

use actix::{Actor, Context};
use futures_util::task::AtomicWaker;
use tokio::sync::watch;

use crate::operator::{
    Cut, Operator, OperatorError, Output, Prepared, Produced, RegionHandle, StartOperator,
};

/// What the numbers are read from. Clones are the same.
#[derive(Debug, Clone)]
pub struct Upstream(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    end: u64,
    /// The number that nobody may have yet.
    held: AtomicU64,
    reader: AtomicWaker,
    /// Numbers below are forgotten.
    acknowledged: AtomicU64,
    /// Bytes that make the reader's state longer.
    padding: AtomicUsize,
    /// How many numbers were given out.
    produced: watch::Sender<u64>,
}

impl Upstream {
    /// Gives the numbers below `end`, those below `held` at once and the others when they are released.
    #[must_use]
    pub fn new(end: u64, held: u64) -> Self {
        Self(Arc::new(Inside {
            end,
            held: AtomicU64::new(held),
            reader: AtomicWaker::new(),
            acknowledged: AtomicU64::new(0),
            padding: AtomicUsize::new(0),
            produced: watch::Sender::new(0),
        }))
    }

    /// Gives all numbers.
    pub fn release(&self) {
        self.release_to(self.0.end);
    }

    /// Gives the numbers below `end`.
    pub fn release_to(&self, end: u64) {
        self.0.held.store(end, Ordering::SeqCst);
        self.0.reader.wake();
    }

    /// Makes the reader's state longer by so many bytes.
    pub fn pad(&self, bytes: usize) {
        self.0.padding.store(bytes, Ordering::SeqCst);
    }

    /// Waits until the numbers below `end` were given out.
    pub async fn produced(&self, end: u64) {
        let mut produced = self.0.produced.subscribe();
        // Its sender is here.
        let _ = produced.wait_for(|produced| *produced >= end).await;
    }

    /// Numbers below this one are covered by every kept cut, and can't be read again.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.0.acknowledged.load(Ordering::SeqCst)
    }

    /// A start operator that reads it from its begin. A region that goes back behind what was
    /// acknowledged fails.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        Numbers {
            upstream: self.clone(),
            next: 0,
            cuts: BTreeMap::new(),
        }
    }
}

/// Reads an [`Upstream`].
#[derive(Debug)]
pub struct Numbers {
    upstream: Upstream,
    next: u64,
    /// Where the cuts lie that are not acknowledged.
    cuts: BTreeMap<u64, u64>,
}

impl Actor for Numbers {
    type Context = Context<Self>;
}

impl Operator for Numbers {
    type Input = ();
    type Output = u64;
    const STATE_TYPE: &'static str = "position";

    fn process(&mut self, _: Vec<()>, _: &mut Output<u64>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        self.cuts.insert(cut.seq, self.next);
        let state = (self.next, self.cuts.clone());
        let padding = self.upstream.0.padding.load(Ordering::SeqCst);
        let write = move |to: &mut dyn Write| {
            to.write_all(&vec![b' '; padding])?;
            serde_json::to_writer(to, &state).map_err(std::io::Error::from)
        };
        Ok(Prepared {
            state: Some(Box::new(write)),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        (self.next, self.cuts) = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Permanent(error.to_string()))?;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        (self.next, self.cuts) = (0, BTreeMap::new());
        Ok(())
    }

    fn resumed_at(&mut self, _: u64, _: u64) -> Result<(), OperatorError> {
        let acknowledged = self.upstream.acknowledged();
        if self.next < acknowledged {
            return Err(OperatorError::Permanent(format!(
                "{} is forgotten, the numbers begin at {acknowledged}",
                self.next
            )));
        }
        Ok(())
    }

    fn region_checkpointed(&mut self, _: u64, oldest_retained: u64) -> Result<(), OperatorError> {
        if let Some(position) = self.cuts.get(&oldest_retained) {
            let acknowledged = &self.upstream.0.acknowledged;
            acknowledged.fetch_max(*position, Ordering::SeqCst);
        }
        self.cuts = self.cuts.split_off(&oldest_retained);
        Ok(())
    }
}

impl StartOperator for Numbers {
    fn poll_produce(
        &mut self,
        task: &mut task::Context<'_>,
        output: &mut Output<u64>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        let inside = &self.upstream.0;
        if self.next == inside.end {
            return Poll::Ready(Ok(Produced::End));
        }
        inside.reader.register(task.waker());
        let end = inside.held.load(Ordering::SeqCst).min(self.next + 100);
        if self.next >= end {
            return Poll::Pending;
        }
        output.extend(self.next..end);
        self.next = end;
        inside.produced.send_replace(end);
        Poll::Ready(Ok(Produced::More))
    }
}

/// Counts numbers by their remainder; at each cut it gives (remainder, count so far) of those that
/// changed. Its state is a JSON object.
#[derive(Debug)]
pub struct Counts {
    keys: u64,
    counts: BTreeMap<u64, u64>,
    changed: BTreeSet<u64>,
}

impl Counts {
    /// Counts by the remainders of `keys`, which is not 0.
    #[must_use]
    pub fn of_keys(keys: u64) -> Self {
        Self {
            keys: keys.max(1),
            counts: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }
}

impl Actor for Counts {
    type Context = Context<Self>;
}

impl Operator for Counts {
    type Input = u64;
    type Output = (u64, u64);
    const STATE_TYPE: &'static str = "counts";

    fn process(
        &mut self,
        batch: Vec<u64>,
        _: &mut Output<(u64, u64)>,
    ) -> Result<(), OperatorError> {
        for number in batch {
            let key = number % self.keys;
            *self.counts.entry(key).or_default() += 1;
            self.changed.insert(key);
        }
        Ok(())
    }

    fn drain(&mut self, output: &mut Output<(u64, u64)>) -> Result<(), OperatorError> {
        let changed = std::mem::take(&mut self.changed);
        output.extend(changed.into_iter().map(|key| (key, self.counts[&key])));
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        let counts = self.counts.clone();
        let write = move |to: &mut dyn Write| {
            serde_json::to_writer(to, &counts).map_err(std::io::Error::from)
        };
        Ok(Prepared {
            state: Some(Box::new(write)),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        self.changed.clear();
        self.counts = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Permanent(error.to_string()))?;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.changed.clear();
        self.counts.clear();
        Ok(())
    }
}
