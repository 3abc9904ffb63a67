//! The sending end of a connection: shares tuples out among the receiving instances.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

use crate::graph::{instance_of_group, key_group};

use super::BATCH_TUPLES;
use super::element::{Element, Item, Marker};

/// How a route chooses among its targets.
pub(crate) enum Partitioner<T> {
    /// Batch by batch, in turn.
    RoundRobin,
    /// By the stable hash of the tuple's key.
    Keyed(Arc<dyn Fn(&T) -> u64 + Send + Sync>),
    /// A copy to everybody.
    Broadcast(fn(&T) -> T),
}

impl<T> Clone for Partitioner<T> {
    fn clone(&self) -> Self {
        match self {
            Self::RoundRobin => Self::RoundRobin,
            Self::Keyed(hash) => Self::Keyed(Arc::clone(hash)),
            Self::Broadcast(copy) => Self::Broadcast(*copy),
        }
    }
}

/// The receiver of a channel is gone: it failed, or its streams were closed by a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The channel's index in the plan.
    pub(crate) channel: usize,
}

/// All channels from one instance over one connection.
pub(crate) struct Route<T> {
    targets: Vec<Target<T>>,
    partitioner: Partitioner<T>,
    duplicate: Option<fn(&T) -> T>,
    turn: usize,
}

/// One receiving instance.
pub(crate) struct Target<T> {
    channel: usize,
    sender: PollSender<Element<T>>,
    /// What did not fit yet. Bounded by what one call of an operator emits: nothing more is asked
    /// of the operator before this is empty.
    pending: VecDeque<Item<T>>,
}

impl<T: Send + 'static> Target<T> {
    pub(crate) fn new(channel: usize, sender: mpsc::Sender<Element<T>>) -> Self {
        Self {
            channel,
            sender: PollSender::new(sender),
            pending: VecDeque::new(),
        }
    }

    /// Ready when nothing is pending and a slot is reserved for the next item.
    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        let closed = Closed {
            channel: self.channel,
        };
        loop {
            ready!(self.sender.poll_reserve(task)).map_err(|_| closed)?;
            let Some(item) = self.pending.pop_front() else {
                return Poll::Ready(Ok(()));
            };
            let element = Element {
                channel: self.channel,
                item,
            };
            self.sender.send_item(element).map_err(|_| closed)?;
        }
    }

    /// Batches that the receiver has not taken yet.
    fn queued(&self) -> usize {
        let sent = self.sender.get_ref().map_or(0, |sender| {
            // One slot is reserved whenever there is room.
            (sender.max_capacity() - sender.capacity()).saturating_sub(1)
        });
        sent + self.pending.len()
    }

    fn push(&mut self, tuples: Vec<T>) {
        if tuples.len() <= BATCH_TUPLES {
            if !tuples.is_empty() {
                self.pending.push_back(Item::Batch(tuples));
            }
            return;
        }
        let mut tuples = tuples.into_iter();
        loop {
            let batch: Vec<T> = tuples.by_ref().take(BATCH_TUPLES).collect();
            if batch.is_empty() {
                return;
            }
            self.pending.push_back(Item::Batch(batch));
        }
    }
}

impl<T: Send + 'static> Route<T> {
    pub(crate) fn new(
        targets: Vec<Target<T>>,
        partitioner: Partitioner<T>,
        duplicate: Option<fn(&T) -> T>,
    ) -> Self {
        Self {
            targets,
            partitioner,
            duplicate,
            turn: 0,
        }
    }

    /// How this route's tuples are copied when others want them too; `None` when it is the one
    /// that takes the originals.
    pub(crate) fn duplicate(&self) -> Option<fn(&T) -> T> {
        self.duplicate
    }

    /// Ready when everything is handed over and every target has room for one batch more.
    pub(crate) fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        let mut all = Poll::Ready(Ok(()));
        for target in &mut self.targets {
            match target.poll_ready(task) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(closed)) => return Poll::Ready(Err(closed)),
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    }

    /// Takes tuples to send; [`poll_ready`](Self::poll_ready) sends them.
    pub(crate) fn accept(&mut self, tuples: Vec<T>) {
        if tuples.is_empty() {
            return;
        }
        match &self.partitioner {
            _ if self.targets.len() == 1 => self.targets[0].push(tuples),
            Partitioner::RoundRobin => {
                self.turn = (self.turn + 1) % self.targets.len();
                self.targets[self.turn].push(tuples);
            }
            Partitioner::Broadcast(copy) => {
                let Some((last, others)) = self.targets.split_last_mut() else {
                    return;
                };
                for target in others {
                    target.push(tuples.iter().map(copy).collect());
                }
                last.push(tuples);
            }
            Partitioner::Keyed(hash) => {
                let width = u16::try_from(self.targets.len()).unwrap_or(u16::MAX);
                let share = tuples.len() / self.targets.len() + 1;
                let mut shares: Vec<Vec<T>> = self
                    .targets
                    .iter()
                    .map(|_| Vec::with_capacity(share))
                    .collect();
                for tuple in tuples {
                    let owner = instance_of_group(key_group(hash(&tuple)), width);
                    shares[usize::from(owner)].push(tuple);
                }
                for (target, share) in self.targets.iter_mut().zip(shares) {
                    target.push(share);
                }
            }
        }
    }

    /// Batches that the receivers have not taken yet, all together.
    pub(crate) fn queued(&self) -> usize {
        self.targets.iter().map(Target::queued).sum()
    }

    /// Sends a marker behind all tuples, to every target.
    pub(crate) fn accept_marker(&mut self, marker: Marker) {
        for target in &mut self.targets {
            target.pending.push_back(Item::Marker(marker));
        }
    }
}
