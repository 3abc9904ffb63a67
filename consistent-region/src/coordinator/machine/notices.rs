//! Orders to workers: held until the log covers them, repeated until they are acknowledged.

use std::collections::BTreeSet;

#[cfg(test)]
use super::broken;
use super::{Action, Machine, Moment};
use crate::protocol::Order;

impl Machine {
    /// Gives an order to a worker as soon as the newest record is durable.
    pub(super) fn order(&mut self, worker: &str, order: Order) {
        let (after, stamp) = (self.record.number, self.stamp());
        if let Some(member) = self.members.get_mut(worker) {
            member.outbox.hold(after, stamp, order);
        }
    }

    /// Gives it to every worker that runs an instance.
    pub(super) fn order_participants(&mut self, order: &Order) {
        for worker in self.participants() {
            self.order(&worker, order.clone());
        }
    }

    pub(super) fn order_everybody(&mut self, order: &Order) {
        let workers: Vec<String> = self
            .members
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        for worker in workers {
            self.order(&worker, order.clone());
        }
    }

    /// Lets go what the log now covers.
    pub(super) fn release(&mut self, now: Moment) {
        let (durable, pause) = (self.durable, self.settings.resend);
        #[cfg(test)]
        let durable = match self.broken {
            Some(broken::Broken::MessageBeforeRecord) => self.record.number,
            _ => durable,
        };
        for (worker, member) in self.members.iter_mut() {
            for notice in member.outbox.release(durable, now, pause) {
                self.actions.push(Action::Push {
                    worker: worker.to_owned(),
                    notice,
                });
            }
        }
    }

    pub(super) fn push_due(&mut self, now: Moment) {
        self.release(now);
        let longest = self.settings.lease;
        let mut overfull = Vec::new();
        for (worker, member) in self.members.iter_mut() {
            for notice in member.outbox.take_due(now, longest) {
                self.actions.push(Action::Push {
                    worker: worker.to_owned(),
                    notice,
                });
            }
            if member.outbox.is_overfull() {
                overfull.push(worker.to_owned());
            }
        }
        for worker in overfull {
            self.lose(now, &worker, "it acknowledges nothing");
            self.release(now);
        }
    }

    pub(super) fn participants(&self) -> BTreeSet<String> {
        self.placed.keys().cloned().collect()
    }

    pub(super) fn participates(&self, worker: &str) -> bool {
        self.placed.contains_key(worker)
    }
}
