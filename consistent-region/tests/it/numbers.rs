//! numbers → counts by key (two instances) → a file a cut. The truth is a closed form.
//!
//! The numbers come from an [`Upstream`] that forgets what is acknowledged, as a real one does: a
//! region that goes back behind its own acknowledgement fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{self, Poll};

use actix::{Actor, Context};
use futures_util::task::AtomicWaker;
use lockkeeper_consistent_region::graph::{Region, RegionBuilder, Stream};
use lockkeeper_consistent_region::operator::{
    Cut, Operator, OperatorError, Output, Prepared, Produced, RegionHandle, StartOperator,
};
use lockkeeper_consistent_region::sink::FileSink;
use tokio::sync::watch;

pub(crate) const KEYS: u64 = 10;

/// What the numbers are read from. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Upstream(Arc<Inside>);

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
    /// Gives the numbers up to `end`, the first `held` of them at once.
    pub(crate) fn new(end: u64, held: u64) -> Self {
        Self(Arc::new(Inside {
            end,
            held: AtomicU64::new(held),
            reader: AtomicWaker::new(),
            acknowledged: AtomicU64::new(0),
            padding: AtomicUsize::new(0),
            produced: watch::Sender::new(0),
        }))
    }

    pub(crate) fn release(&self) {
        self.release_to(self.0.end);
    }

    /// Gives the numbers below `end`.
    pub(crate) fn release_to(&self, end: u64) {
        self.0.held.store(end, Ordering::SeqCst);
        self.0.reader.wake();
    }

    pub(crate) fn pad(&self, bytes: usize) {
        self.0.padding.store(bytes, Ordering::SeqCst);
    }

    /// Until the numbers below `end` were given out.
    pub(crate) async fn produced(&self, end: u64) {
        let mut produced = self.0.produced.subscribe();
        let reached = produced.wait_for(|produced| *produced >= end).await;
        assert!(reached.is_ok());
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.0.acknowledged.load(Ordering::SeqCst)
    }
}

pub(crate) fn region(numbers: u64, output: &Path) -> Region {
    region_of(&Upstream::new(numbers, numbers), output)
}

/// The numbers by themselves.
pub(crate) fn numbers(upstream: &Upstream, graph: &mut RegionBuilder) -> Stream<u64> {
    let upstream = upstream.clone();
    graph.start("numbers", move |_| Numbers {
        upstream: upstream.clone(),
        next: 0,
        cuts: BTreeMap::new(),
    })
}

pub(crate) fn region_of(upstream: &Upstream, output: &Path) -> Region {
    region_called("numbers", upstream, output, Sink::TakesBack)
}

/// What the region's sink can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    TakesBack,
    Irrevocable,
}

pub(crate) fn region_called(name: &str, upstream: &Upstream, output: &Path, sink: Sink) -> Region {
    let mut graph = Region::builder(name);
    let source = numbers(upstream, &mut graph);
    let counts = graph.keyed(
        "counts",
        source,
        2,
        |number: &u64| number % KEYS,
        |_| Counts::default(),
    );
    let folder = output.to_owned();
    graph.end("sink", counts, move |context| {
        let files = FileSink::new(context, &folder, "cut-", ".txt", |_, counts, to| {
            for (key, count) in counts {
                writeln!(to, "{key} {count}")?;
            }
            Ok(())
        });
        match sink {
            Sink::TakesBack => files,
            Sink::Irrevocable => files.irrevocable(),
        }
    });
    graph.build().unwrap()
}

pub(crate) fn truth(numbers: u64) -> BTreeMap<u64, u64> {
    (0..KEYS)
        .map(|key| (key, (numbers + KEYS - 1 - key) / KEYS))
        .collect()
}

/// The last count of each key over ascending cuts.
pub(crate) fn output(folder: &Path) -> BTreeMap<u64, u64> {
    let mut cuts = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let seq = name
            .strip_prefix("cut-")
            .and_then(|name| name.strip_suffix(".txt"));
        if let Some(seq) = seq {
            let seq: u64 = seq.parse().unwrap();
            cuts.insert(seq, fs::read_to_string(folder.join(&name)).unwrap());
        }
    }
    let lines = cuts.values().flat_map(|text| text.lines());
    let pair = |line: &str| {
        let (key, count) = line.split_once(' ').unwrap();
        (key.parse().unwrap(), count.parse().unwrap())
    };
    lines.map(pair).collect()
}

struct Numbers {
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

#[derive(Default)]
pub(crate) struct Counts {
    counts: BTreeMap<u64, u64>,
    changed: BTreeSet<u64>,
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
            *self.counts.entry(number % KEYS).or_default() += 1;
            self.changed.insert(number % KEYS);
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
