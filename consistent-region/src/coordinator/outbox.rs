//! The notices of one worker: numbered, held back until the record is durable, repeated until
//! acknowledged.

use std::collections::VecDeque;
use std::time::Duration;

use crate::protocol::{Notice, Order, Stamp};

/// More notices than this without an acknowledgement: the worker is taken for lost.
pub(crate) const MOST_UNACKNOWLEDGED: usize = 64;

#[derive(Debug)]
pub(crate) struct Outbox {
    worker_epoch: u64,
    next_number: u64,
    held: VecDeque<Held>,
    sent: VecDeque<Notice>,
    resend: Option<Resend>,
}

/// Not to leave before the entry `after` is durable.
#[derive(Debug)]
struct Held {
    after: u64,
    stamp: Stamp,
    order: Order,
}

#[derive(Debug, Clone, Copy)]
struct Resend {
    at: Duration,
    pause: Duration,
}

impl Outbox {
    pub(crate) fn new(worker_epoch: u64) -> Self {
        Self {
            worker_epoch,
            next_number: 1,
            held: VecDeque::new(),
            sent: VecDeque::new(),
            resend: None,
        }
    }

    /// Puts an order in; it leaves with the first [`release`](Self::release) that covers `after`.
    pub(crate) fn hold(&mut self, after: u64, stamp: Stamp, order: Order) {
        self.held.push_back(Held {
            after,
            stamp,
            order,
        });
    }

    /// Forgets what has not left yet: a reset makes it meaningless. What has left stays: the worker
    /// takes notices by number, without holes.
    pub(crate) fn drop_held(&mut self) {
        self.held.clear();
    }

    /// The notices that may leave now that the log is durable through `durable`.
    pub(crate) fn release(&mut self, durable: u64, now: Duration, pause: Duration) -> Vec<Notice> {
        let mut leaving = Vec::new();
        while self.held.front().is_some_and(|held| held.after <= durable) {
            let Some(Held { stamp, order, .. }) = self.held.pop_front() else {
                break;
            };
            let (number, worker_epoch) = (self.next_number, self.worker_epoch);
            self.next_number += 1;
            leaving.push(Notice {
                number,
                worker_epoch,
                stamp,
                order,
            });
        }
        if !leaving.is_empty() {
            self.sent.extend(leaving.iter().cloned());
            self.resend = Some(Resend {
                at: now + pause,
                pause,
            });
        }
        leaving
    }

    /// The worker has taken every notice up to `number`.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        while self
            .sent
            .front()
            .is_some_and(|notice| notice.number <= number)
        {
            self.sent.pop_front();
        }
        if self.sent.is_empty() {
            self.resend = None;
        }
    }

    /// What the worker has not acknowledged, in order.
    pub(crate) fn unacknowledged(&self) -> Vec<Notice> {
        self.sent.iter().cloned().collect()
    }

    pub(crate) fn is_overfull(&self) -> bool {
        self.sent.len() > MOST_UNACKNOWLEDGED
    }

    /// Everything that was put in has been acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.sent.is_empty()
    }

    /// What is to be pushed again now; the next time after twice the pause, at most `longest`.
    pub(crate) fn take_due(&mut self, now: Duration, longest: Duration) -> Vec<Notice> {
        match &mut self.resend {
            Some(resend) if now >= resend.at => {
                resend.pause = (resend.pause * 2).min(longest);
                resend.at = now + resend.pause;
                self.unacknowledged()
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.resend.map(|resend| resend.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn numbers(notices: &[Notice]) -> Vec<u64> {
        notices.iter().map(|notice| notice.number).collect()
    }

    #[test]
    fn nothing_leaves_before_its_record_is_durable() {
        let mut outbox = Outbox::new(7);
        outbox.hold(3, Stamp::default(), Order::Resume);
        outbox.hold(4, Stamp::default(), Order::End);
        assert!(outbox.release(2, MS, MS).is_empty());
        assert_eq!(numbers(&outbox.release(3, MS, MS)), [1]);
        assert!(!outbox.is_empty());
        assert_eq!(numbers(&outbox.release(9, MS, MS)), [2]);
    }

    #[test]
    fn what_is_not_acknowledged_is_repeated_with_growing_pauses() {
        let mut outbox = Outbox::new(7);
        outbox.hold(0, Stamp::default(), Order::Resume);
        outbox.hold(0, Stamp::default(), Order::End);
        outbox.release(0, MS, 10 * MS);
        assert_eq!(outbox.next_due(), Some(11 * MS));
        assert!(outbox.take_due(10 * MS, 30 * MS).is_empty());
        assert_eq!(numbers(&outbox.take_due(11 * MS, 30 * MS)), [1, 2]);
        assert_eq!(outbox.next_due(), Some(31 * MS));
        outbox.acknowledge(1);
        assert_eq!(numbers(&outbox.take_due(31 * MS, 30 * MS)), [2]);
        assert_eq!(outbox.next_due(), Some(61 * MS));
        outbox.acknowledge(2);
        assert_eq!(outbox.next_due(), None);
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_reset_drops_what_has_not_left_and_leaves_no_hole_in_the_numbers() {
        let mut outbox = Outbox::new(7);
        outbox.hold(
            0,
            Stamp::default(),
            Order::Drain {
                last: false,
                completed: 0,
            },
        );
        outbox.release(0, MS, MS);
        outbox.hold(5, Stamp::default(), Order::Resume);
        outbox.drop_held();
        outbox.hold(6, Stamp::default(), Order::End);
        assert_eq!(numbers(&outbox.release(6, MS, MS)), [2]);
    }
}
