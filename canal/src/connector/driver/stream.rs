//! One connection's work: what is with handlers, and what is not acknowledged.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::connector::delivery::Delivery;
use crate::connector::rows::Outcome;
use crate::connector::spans::Spans;
use crate::connector::stall::{BinlogAnswer, StallWatch};
use crate::entry::Position;
use crate::message::BatchId;
use crate::transaction::TransactionAssembler;

pub(super) type Handling = Pin<Box<dyn Future<Output = Handled>>>;
pub(super) type Probing = Pin<Box<dyn Future<Output = BinlogAnswer>>>;

/// What a handler has dealt with, from the first batch of which it had an entry to the last.
pub(super) struct Handled {
    pub(super) first: BatchId,
    pub(super) last: BatchId,
    pub(super) position: Option<Position>,
    pub(super) outcome: Outcome,
}

/// One connection's work.
pub(super) struct Stream {
    pub(super) delivery: Delivery,
    /// Whether the next batch was asked for already.
    pub(super) asked: bool,
    pub(super) assembler: TransactionAssembler,
    pub(super) spans: Spans,
    pub(super) handling: FuturesUnordered<Handling>,
    /// Batches that are not acknowledged, and since when.
    pub(super) unacknowledged: VecDeque<(BatchId, std::time::Instant)>,
    /// Before the next question while nothing comes.
    pub(super) pause: Duration,
    /// When the subscription stood.
    pub(super) since: Instant,
    /// When handlers are no longer waited for.
    pub(super) stop_at: Option<Instant>,
    pub(super) keep_alive: Duration,
    pub(super) stall: Option<StallWatch>,
    /// The question to the database, if one is open.
    pub(super) probing: FuturesUnordered<Probing>,
}

impl Stream {
    /// Forgets the batches up to this one, and says how many they were.
    pub(super) fn acknowledged(&mut self, last: BatchId) -> u64 {
        let mut count = 0;
        while self
            .unacknowledged
            .front()
            .is_some_and(|(batch, _)| *batch <= last)
        {
            self.unacknowledged.pop_front();
            count += 1;
        }
        count
    }

    pub(super) fn oldest_since(&self) -> Option<std::time::Instant> {
        self.unacknowledged.front().map(|(_, since)| *since)
    }

    /// Waits for a handler's result.
    pub(super) fn handle(
        &mut self,
        first: BatchId,
        last: BatchId,
        position: Option<Position>,
        request: impl Future<Output = Outcome> + 'static,
    ) {
        self.handling.push(Box::pin(async move {
            Handled {
                first,
                last,
                position,
                outcome: request.await,
            }
        }));
    }
}
