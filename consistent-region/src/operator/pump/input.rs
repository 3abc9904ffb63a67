//! The ordinary port of an instance: takes what has come several batches at a time.

use std::collections::VecDeque;
use std::task::{self, Poll, ready};

use tokio::sync::mpsc;

use crate::stream::Element;

/// Batches and markers that are taken out of the channel at once. Each taking wakes the senders that
/// wait for room: to wake a thread costs as much as hundreds of tuples.
const TAKEN: usize = 8;

/// What comes over all channels into one instance.
pub(super) struct Input<T> {
    channel: mpsc::Receiver<Element<T>>,
    /// Taken and not given out yet, in order.
    taken: VecDeque<Element<T>>,
    /// Empty, and kept for its memory.
    arriving: Vec<Element<T>>,
}

impl<T> Input<T> {
    pub(super) fn new(channel: mpsc::Receiver<Element<T>>) -> Self {
        Self {
            channel,
            taken: VecDeque::new(),
            arriving: Vec::new(),
        }
    }

    /// The next batch or marker; `None` when all senders are gone.
    pub(super) fn poll_next(&mut self, task: &mut task::Context<'_>) -> Poll<Option<Element<T>>> {
        if self.taken.is_empty() {
            ready!(self.channel.poll_recv_many(task, &mut self.arriving, TAKEN));
            self.taken.extend(self.arriving.drain(..));
        }
        Poll::Ready(self.taken.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Item;

    #[test]
    fn senders_get_all_their_room_back_at_once_and_order_is_kept() {
        let (sender, channel) = mpsc::channel(TAKEN);
        let mut input = Input::new(channel);
        let mut task = task::Context::from_waker(task::Waker::noop());
        for number in 0..TAKEN {
            let item = Item::Batch(vec![number]);
            let sent = sender.try_send(Element { channel: 7, item });
            assert!(sent.is_ok(), "there is room");
        }
        let mut next = || match input.poll_next(&mut task) {
            Poll::Ready(Some(Element {
                item: Item::Batch(batch),
                ..
            })) => batch,
            _ => panic!("there is a batch"),
        };
        assert_eq!(next(), [0]);
        assert_eq!(sender.capacity(), TAKEN);
        for number in 1..TAKEN {
            assert_eq!(next(), [number]);
        }
        assert!(input.poll_next(&mut task).is_pending());
        drop(sender);
        assert!(matches!(input.poll_next(&mut task), Poll::Ready(None)));
    }
}
