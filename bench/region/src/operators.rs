//! The work as operators of a region.

use std::io::Read;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Instant;

use actix::{Actor, Context};
use lockkeeper_consistent_region::graph::{Region, TopologyError};
use lockkeeper_consistent_region::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced, RegionHandle,
    StartOperator,
};
use lockkeeper_consistent_region::state::{KeyedState, Loaded, Loader, Rescale};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::work::{BATCH, Limit, Seen, key};

/// What a region of the work needs besides its graph.
#[derive(Clone)]
pub struct Work {
    pub limit: Arc<Limit>,
    pub seen: Arc<Seen>,
    /// Called for each batch before its keys are made: where a run makes an operator panic.
    pub before_keys: Arc<dyn Fn() + Send + Sync>,
    /// Called when the first tuple is counted after a start or a reset.
    pub first_counted: Arc<dyn Fn() + Send + Sync>,
}

impl Work {
    pub fn new(limit: Arc<Limit>) -> Self {
        Self {
            limit,
            seen: Seen::new(),
            before_keys: Arc::new(|| {}),
            first_counted: Arc::new(|| {}),
        }
    }

    /// The graph, with bytes besides the count in the state of each key.
    pub fn region(&self, pad: usize) -> Result<Region, TopologyError> {
        match pad {
            0 => self.region_of::<u64>(0),
            pad => self.region_of::<Padded>(pad),
        }
    }

    fn region_of<V: Counted>(&self, pad: usize) -> Result<Region, TopologyError> {
        let mut graph = Region::builder("bench");
        let limit = Arc::clone(&self.limit);
        let numbers = graph.start("numbers", move |_| Numbers {
            next: 0,
            limit: Arc::clone(&limit),
        });
        let before = Arc::clone(&self.before_keys);
        let keys = graph.operator("keys", numbers, 1, move |_| Keys {
            before: Arc::clone(&before),
        });
        let first = Arc::clone(&self.first_counted);
        let counts = graph.keyed(
            "counts",
            keys,
            1,
            |pair: &(u64, u64)| pair.0,
            move |context| Counts::<V> {
                counts: KeyedState::new(),
                context,
                pad,
                resumed: false,
                first: Arc::clone(&first),
            },
        );
        let seen = Arc::clone(&self.seen);
        graph.end("last", counts, move |_| Last {
            seen: Arc::clone(&seen),
            before: None,
            cut: false,
        });
        graph.build()
    }
}

struct Numbers {
    next: u64,
    limit: Arc<Limit>,
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

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        let next = self.next;
        Ok(Prepared {
            state: Some(Box::new(move |to| to.write_all(&next.to_le_bytes()))),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        let mut next = [0; 8];
        state.read_exact(&mut next)?;
        self.next = u64::from_le_bytes(next);
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.next = 0;
        Ok(())
    }
}

impl StartOperator for Numbers {
    fn poll_produce(
        &mut self,
        _: &mut task::Context<'_>,
        output: &mut Output<u64>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        let end = self.limit.end(self.next);
        if self.next >= end {
            return Poll::Ready(Ok(Produced::End));
        }
        let to = end.min(self.next + BATCH);
        output.extend(self.next..to);
        self.next = to;
        Poll::Ready(Ok(Produced::More))
    }
}

struct Keys {
    before: Arc<dyn Fn() + Send + Sync>,
}

impl Actor for Keys {
    type Context = Context<Self>;
}

impl Operator for Keys {
    type Input = u64;
    type Output = (u64, u64);

    fn process(
        &mut self,
        batch: Vec<u64>,
        output: &mut Output<(u64, u64)>,
    ) -> Result<(), OperatorError> {
        (self.before)();
        output.extend(batch.into_iter().map(|number| (key(number), number)));
        Ok(())
    }
}

/// The state of a key.
pub trait Counted: Clone + Serialize + DeserializeOwned + Send + Sync + Unpin + 'static {
    fn new(key: u64, pad: usize) -> Self;
    fn count(&mut self) -> u64;
}

impl Counted for u64 {
    fn new(_: u64, _: usize) -> Self {
        0
    }

    fn count(&mut self) -> u64 {
        *self += 1;
        *self
    }
}

/// A count with bytes that do not compress.
#[derive(Clone, Serialize, Deserialize)]
pub struct Padded {
    count: u64,
    #[serde(with = "serde_bytes")]
    pad: Vec<u8>,
}

impl Counted for Padded {
    fn new(key: u64, pad: usize) -> Self {
        let mut random = key ^ 0x2545_f491_4f6c_dd1d;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.to_le_bytes()[3]
        };
        Self {
            count: 0,
            pad: (0..pad).map(|_| next()).collect(),
        }
    }

    fn count(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

struct Counts<V> {
    counts: KeyedState<u64, V>,
    context: InstanceContext,
    pad: usize,
    /// Nothing was counted since a start or a reset.
    resumed: bool,
    first: Arc<dyn Fn() + Send + Sync>,
}

impl<V: Counted> Actor for Counts<V> {
    type Context = Context<Self>;
}

impl<V: Counted> Operator for Counts<V> {
    type Input = (u64, u64);
    type Output = (u64, u64);
    const STATE_TYPE: &'static str = "counts";
    const RESCALE: Rescale = Rescale::ByKey;

    fn process(
        &mut self,
        batch: Vec<(u64, u64)>,
        output: &mut Output<(u64, u64)>,
    ) -> Result<(), OperatorError> {
        if std::mem::take(&mut self.resumed) {
            (self.first)();
        }
        let pad = self.pad;
        output.reserve(batch.len());
        self.counts.update_each(
            batch,
            |(key, _)| key,
            |(key, _)| V::new(*key, pad),
            |(key, _), counted| output.emit((key, counted.count())),
        );
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        Ok(self.counts.prepare(cut))
    }

    fn loader(&self) -> Option<Loader> {
        Some(self.counts.loader(&self.context))
    }

    fn loaded(&mut self, state: Loaded) -> Result<(), OperatorError> {
        self.counts.take(state)
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.counts.clear();
        Ok(())
    }

    fn resumed_at(&mut self, _: u64, _: u64) -> Result<(), OperatorError> {
        self.resumed = true;
        Ok(())
    }
}

struct Last {
    seen: Arc<Seen>,
    /// When the batch before came.
    before: Option<Instant>,
    /// A cut lies between it and the next.
    cut: bool,
}

impl Actor for Last {
    type Context = Context<Self>;
}

impl Operator for Last {
    type Input = (u64, u64);
    type Output = ();

    fn process(&mut self, batch: Vec<(u64, u64)>, _: &mut Output<()>) -> Result<(), OperatorError> {
        if std::mem::take(&mut self.cut)
            && let Some(before) = self.before
        {
            self.seen.paused(before);
        }
        self.seen.take(&batch);
        self.before = Some(Instant::now());
        Ok(())
    }

    fn drain(&mut self, _: &mut Output<()>) -> Result<(), OperatorError> {
        self.cut = true;
        Ok(())
    }

    fn resumed_at(&mut self, _: u64, _: u64) -> Result<(), OperatorError> {
        (self.before, self.cut) = (None, false);
        Ok(())
    }
}
