//! A start operator for what can't be read again: requests, messages of a socket, sensors.
//!
//! The tuples lie in a buffer until no cut that may be restored needs them any more; after a reset
//! they come again from there. The buffer is in memory: it survives its operator, not its process.
//! Whoever hands in tuples may wait until that does not matter: [`Receipt::covered`] resolves when the
//! tuple is in the state of a cut for good, and only then should a message be acknowledged to whoever
//! sent it. So the chain is at least once over a `kill -9`, and exactly once over everything else.
//!
//! ```
//! # use lockkeeper_consistent_region::graph::Region;
//! # use lockkeeper_consistent_region::source::replayable::{ReplayBuffer, ReplayableStart};
//! let buffer = ReplayBuffer::<String>::new(10_000);
//! let sender = buffer.sender();
//! let mut graph = Region::builder("requests");
//! let requests = graph.start("requests", move |context| ReplayableStart::new(context, &buffer));
//! # drop((requests, sender));
//! ```

mod buffer;

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::task::{self, Poll};

use actix::{Actor, Context};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::buffer::{Shared, Taken};
use crate::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced, RegionHandle,
    StartOperator, Tuple,
};

pub use self::buffer::{Closed, NotTaken, Receipt, ReplaySender};

/// Names the format of the state.
pub(crate) const STATE_TYPE: &str = "lockkeeper.replayable-start";
/// Tuples that are given out at once.
const BATCH: usize = 500;

/// What a [`ReplayableStart`] does when it finds that its buffer is not the one that the restored cut
/// was taken with: the process that held it is gone, and with it the tuples that no cut covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnLostBuffer {
    /// The region goes to its failed state and says so.
    #[default]
    Fail,
    /// Goes on with what comes from now on. Right where senders wait for
    /// [`covered`](Receipt::covered) and send again what was not.
    GoOn,
}

/// The buffer of a [`ReplayableStart`]: make one for each process, outside the operator's factory, so
/// that it survives the operator. Clones are the same buffer.
///
/// It belongs to an operator of width 1 that is placed on this process' worker.
pub struct ReplayBuffer<T>(Arc<Shared<T>>);

impl<T> Clone for ReplayBuffer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Tuple + Clone> ReplayBuffer<T> {
    /// A buffer of `capacity` tuples (at least 2). Senders wait while it is full: it must hold all
    /// tuples of as many cuts as are retained. At half of it, the operator asks for a cut.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self(Arc::new(Shared::new(capacity.max(2))))
    }

    /// Hands in tuples. When the last sender is dropped the source ends.
    #[must_use]
    pub fn sender(&self) -> ReplaySender<T> {
        ReplaySender::new(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for ReplayBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplayBuffer").field(&self.0).finish()
    }
}

/// Gives the tuples of a [`ReplayBuffer`] to a region, and gives them again after a reset. See the
/// [module](self).
pub struct ReplayableStart<T: Tuple + Clone> {
    context: InstanceContext,
    buffer: Arc<Shared<T>>,
    on_lost_buffer: OnLostBuffer,
    /// Index of the next tuple to give.
    next: u64,
    /// (cut, index behind its last tuple), oldest first.
    cuts: VecDeque<(u64, u64)>,
}

/// What a checkpoint holds (JSON).
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Saved {
    buffer: Uuid,
    next: u64,
    cuts: VecDeque<(u64, u64)>,
}

impl<T: Tuple + Clone> ReplayableStart<T> {
    /// An operator on `buffer`.
    #[must_use]
    pub fn new(context: InstanceContext, buffer: &ReplayBuffer<T>) -> Self {
        Self {
            context,
            buffer: Arc::clone(&buffer.0),
            on_lost_buffer: OnLostBuffer::default(),
            next: 0,
            cuts: VecDeque::new(),
        }
    }

    /// What happens after the process was lost that held the buffer. [`OnLostBuffer::Fail`].
    #[must_use]
    pub fn on_lost_buffer(mut self, on_lost_buffer: OnLostBuffer) -> Self {
        self.on_lost_buffer = on_lost_buffer;
        self
    }

    fn lost(&mut self) -> Result<(), OperatorError> {
        match self.on_lost_buffer {
            OnLostBuffer::Fail => Err(OperatorError::Permanent(format!(
                "the process that held the buffer of {} is gone, and the tuples that no cut covered \
                 with it; OnLostBuffer::GoOn goes on without them",
                self.context.instance()
            ))),
            OnLostBuffer::GoOn => {
                tracing::warn!(
                    instance = %self.context.instance(),
                    "going on without the tuples that a lost process held"
                );
                self.next = self.buffer.first();
                self.cuts.clear();
                Ok(())
            }
        }
    }
}

impl<T: Tuple + Clone> fmt::Debug for ReplayableStart<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayableStart")
            .field("buffer", &self.buffer)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl<T: Tuple + Clone> Actor for ReplayableStart<T> {
    type Context = Context<Self>;
}

impl<T: Tuple + Clone> Operator for ReplayableStart<T> {
    type Input = ();
    type Output = T;
    const STATE_TYPE: &'static str = STATE_TYPE;

    fn process(&mut self, _: Vec<()>, _: &mut Output<T>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        self.cuts.push_back((cut.seq, self.next));
        let saved = Saved {
            buffer: self.buffer.id(),
            next: self.next,
            cuts: self.cuts.clone(),
        };
        Ok(Prepared {
            state: Some(Box::new(move |to| {
                serde_json::to_writer(to, &saved).map_err(Into::into)
            })),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _version: u32) -> Result<(), OperatorError> {
        let saved: Saved = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Retry(format!("the source's state: {error}")))?;
        if saved.buffer != self.buffer.id() {
            return self.lost();
        }
        if saved.next < self.buffer.first() {
            return Err(OperatorError::Permanent(format!(
                "tuple {} is needed again, and the buffer begins at {}",
                saved.next,
                self.buffer.first()
            )));
        }
        (self.next, self.cuts) = (saved.next, saved.cuts);
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.cuts.clear();
        self.next = 0;
        // A buffer that was never read from is not that of the attempt before.
        if !self.buffer.was_read() || self.buffer.first() > 0 {
            return self.lost();
        }
        Ok(())
    }

    fn resumed_at(&mut self, _: u64, _: u64) -> Result<(), OperatorError> {
        self.buffer.begin_reading();
        Ok(())
    }

    fn region_checkpointed(&mut self, _: u64, oldest_retained: u64) -> Result<(), OperatorError> {
        while self.cuts.len() > 1 && self.cuts[1].0 <= oldest_retained {
            self.cuts.pop_front();
        }
        if let Some((cut, index)) = self.cuts.front()
            && *cut <= oldest_retained
        {
            self.buffer.forget_below(*index);
        }
        Ok(())
    }
}

impl<T: Tuple + Clone> StartOperator for ReplayableStart<T> {
    const ACKNOWLEDGES: bool = true;

    fn poll_produce(
        &mut self,
        cx: &mut task::Context<'_>,
        output: &mut Output<T>,
        region: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        if self.buffer.is_half_full() {
            region.want_cut();
        }
        match self.buffer.poll_take(cx, self.next, BATCH) {
            Taken::Tuples(tuples) => {
                self.next += tuples.len() as u64;
                output.extend(tuples);
                Poll::Ready(Ok(Produced::More))
            }
            Taken::NoneYet => Poll::Pending,
            Taken::NoMore => Poll::Ready(Ok(Produced::End)),
        }
    }
}

/// Position and changes in a state; see [`describe`](crate::source::describe).
pub(crate) fn describe(state: &[u8]) -> Option<(String, u64)> {
    let saved: Saved = serde_json::from_slice(state).ok()?;
    Some((
        format!("tuple {} of buffer {}", saved.next, saved.buffer),
        0,
    ))
}

#[cfg(test)]
mod tests;
