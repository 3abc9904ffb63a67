//! What to do next with batches: fetch, wait, acknowledge, roll back. A machine: no I/O, no clock.
//!
//! Batches are pushed in order and at most `window` of them wait for their handler's result.
//! Acknowledgements go out in order. A batch whose handler failed is rolled back together with all
//! later ones, but only when those before it are acknowledged and no handler works any more:
//! nothing is handled twice at the same time.

use std::collections::VecDeque;

use crate::message::BatchId;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Fetch another batch.
    Fetch,
    /// Acknowledge all batches up to this one.
    Acknowledge(BatchId),
    /// Roll back everything.
    RollBack,
    /// Wait for a handler, or for being told to go on.
    Wait,
    /// Nothing is in flight, and nothing shall be fetched any more.
    Finished,
}

/// What the user wants of the connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Desired {
    /// Batches are pushed.
    #[default]
    Running,
    /// No batch is fetched; those in flight are handled and acknowledged.
    Paused,
    /// As paused, and then the end.
    Stopping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Working,
    /// Nobody works on it: the rest of its last transaction has to be fetched first.
    Open,
    Handled,
    Failed,
}

/// The batches in flight.
#[derive(Debug)]
pub(super) struct Delivery {
    window: usize,
    in_flight: VecDeque<(BatchId, State)>,
}

impl Delivery {
    /// At most `window` batches, at least one, are in flight.
    pub(super) fn new(window: usize) -> Self {
        Self {
            window: window.max(1),
            in_flight: VecDeque::new(),
        }
    }

    /// A batch was fetched and pushed.
    pub(super) fn pushed(&mut self, batch: BatchId) {
        self.in_flight.push_back((batch, State::Working));
    }

    /// Whether a batch waits for entries of a later one.
    pub(super) fn set_open(&mut self, batch: BatchId, open: bool) {
        let state = if open { State::Open } else { State::Working };
        if let Some(entry) = self.in_flight.iter_mut().find(|(id, _)| *id == batch) {
            entry.1 = state;
        }
    }

    /// A handler has ended.
    pub(super) fn handled(&mut self, batch: BatchId, succeeded: bool) {
        let state = if succeeded {
            State::Handled
        } else {
            State::Failed
        };
        if let Some(entry) = self.in_flight.iter_mut().find(|(id, _)| *id == batch) {
            entry.1 = state;
        }
    }

    /// All batches up to `batch` are acknowledged.
    pub(super) fn acknowledged(&mut self, batch: BatchId) {
        while let Some((first, _)) = self.in_flight.front()
            && *first <= batch
        {
            self.in_flight.pop_front();
        }
    }

    /// Everything was rolled back.
    pub(super) fn rolled_back(&mut self) {
        self.in_flight.clear();
    }

    /// Whether a batch that has come can be pushed and yet another be fetched.
    pub(super) fn has_room_behind_another(&self) -> bool {
        self.next(Desired::Running) == Step::Fetch && self.closed() + 1 < self.window
    }

    /// Batches that take up room.
    fn closed(&self) -> usize {
        self.in_flight
            .iter()
            .filter(|(_, state)| *state != State::Open)
            .count()
    }

    /// What to do next.
    pub(super) fn next(&self, desired: Desired) -> Step {
        let done = self
            .in_flight
            .iter()
            .take_while(|(_, state)| *state == State::Handled);
        if let Some((batch, _)) = done.last() {
            return Step::Acknowledge(*batch);
        }
        let failed = self
            .in_flight
            .iter()
            .any(|(_, state)| *state == State::Failed);
        if failed {
            let working = self
                .in_flight
                .iter()
                .any(|(_, state)| *state == State::Working);
            return if working { Step::Wait } else { Step::RollBack };
        }
        let closed = self.closed();
        match desired {
            Desired::Running if closed < self.window => Step::Fetch,
            // What is open comes again, from its transaction's beginning.
            Desired::Stopping if closed == 0 => Step::Finished,
            _ => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batch(id: i64) -> BatchId {
        BatchId::new(1, id)
    }

    #[test]
    fn the_window_bounds_what_is_in_flight() {
        let mut delivery = Delivery::new(2);
        assert_eq!(delivery.next(Desired::Running), Step::Fetch);
        delivery.pushed(batch(1));
        assert_eq!(delivery.next(Desired::Running), Step::Fetch);
        delivery.pushed(batch(2));
        assert_eq!(delivery.next(Desired::Running), Step::Wait);
        delivery.handled(batch(2), true);
        assert_eq!(
            delivery.next(Desired::Running),
            Step::Wait,
            "acks are in order"
        );
        delivery.handled(batch(1), true);
        assert_eq!(delivery.next(Desired::Running), Step::Acknowledge(batch(2)));
        delivery.acknowledged(batch(2));
        assert_eq!(delivery.next(Desired::Running), Step::Fetch);
    }

    #[test]
    fn another_batch_is_asked_for_only_if_both_have_room() {
        let mut delivery = Delivery::new(2);
        assert!(delivery.has_room_behind_another());
        delivery.pushed(batch(1));
        assert!(!delivery.has_room_behind_another());
        delivery.set_open(batch(1), true);
        assert!(delivery.has_room_behind_another());
        delivery.handled(batch(1), false);
        assert!(!delivery.has_room_behind_another());
        assert!(!Delivery::new(1).has_room_behind_another());
    }

    #[test]
    fn a_failed_batch_waits_for_the_earlier_and_takes_the_later_with_it() {
        let mut delivery = Delivery::new(3);
        (1..=3).for_each(|id| delivery.pushed(batch(id)));
        delivery.handled(batch(2), false);
        assert_eq!(delivery.next(Desired::Running), Step::Wait);
        delivery.handled(batch(1), true);
        assert_eq!(delivery.next(Desired::Running), Step::Acknowledge(batch(1)));
        delivery.acknowledged(batch(1));
        assert_eq!(
            delivery.next(Desired::Running),
            Step::Wait,
            "batch 3 is being handled"
        );
        delivery.handled(batch(3), true);
        assert_eq!(delivery.next(Desired::Running), Step::RollBack);
        delivery.rolled_back();
        assert_eq!(delivery.next(Desired::Running), Step::Fetch);
    }

    #[test]
    fn stopping_finishes_what_is_in_flight() {
        let mut delivery = Delivery::new(1);
        delivery.pushed(batch(1));
        assert_eq!(delivery.next(Desired::Stopping), Step::Wait);
        delivery.handled(batch(1), true);
        assert_eq!(
            delivery.next(Desired::Stopping),
            Step::Acknowledge(batch(1))
        );
        delivery.acknowledged(batch(1));
        assert_eq!(delivery.next(Desired::Paused), Step::Wait);
        assert_eq!(delivery.next(Desired::Stopping), Step::Finished);
    }

    #[test]
    fn a_batch_that_waits_for_a_later_one_takes_no_room() {
        let mut delivery = Delivery::new(1);
        delivery.pushed(batch(1));
        delivery.set_open(batch(1), true);
        assert_eq!(delivery.next(Desired::Running), Step::Fetch);
        delivery.pushed(batch(2));
        delivery.set_open(batch(1), false);
        assert_eq!(delivery.next(Desired::Running), Step::Wait);
        delivery.handled(batch(1), true);
        delivery.handled(batch(2), true);
        assert_eq!(delivery.next(Desired::Running), Step::Acknowledge(batch(2)));
        delivery.acknowledged(batch(2));
        delivery.pushed(batch(3));
        delivery.set_open(batch(3), true);
        assert_eq!(delivery.next(Desired::Stopping), Step::Finished);
    }

    proptest! {
        /// Whatever handlers do: only what succeeded is acknowledged, in order, and a rollback
        /// comes only when nothing works.
        #[test]
        fn only_handled_batches_are_acknowledged(
            window in 1_usize..5,
            script in proptest::collection::vec((0_usize..6, any::<bool>()), 0..80),
        ) {
            let mut delivery = Delivery::new(window);
            let (mut next_id, mut working) = (1, Vec::new());
            let mut outcome = std::collections::BTreeMap::new();
            let mut acknowledged = 0;
            for (pick, succeeds) in script {
                match delivery.next(Desired::Running) {
                    Step::Fetch => {
                        delivery.pushed(batch(next_id));
                        working.push(next_id);
                        next_id += 1;
                        prop_assert!(working.len() <= window);
                    }
                    Step::Acknowledge(last) => {
                        for id in acknowledged + 1..=last.id() {
                            prop_assert_eq!(outcome.get(&id), Some(&true));
                        }
                        acknowledged = last.id();
                        delivery.acknowledged(last);
                    }
                    Step::RollBack => {
                        prop_assert!(working.is_empty());
                        prop_assert!(outcome.values().any(|succeeded| !succeeded));
                        outcome.clear();
                        acknowledged = next_id - 1;
                        delivery.rolled_back();
                    }
                    Step::Wait => {
                        prop_assert!(!working.is_empty());
                        let id = working.remove(pick % working.len());
                        outcome.insert(id, succeeds);
                        delivery.handled(batch(id), succeeds);
                    }
                    Step::Finished => prop_assert!(false),
                }
            }
        }
    }
}
