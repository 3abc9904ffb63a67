//! Which worker runs which instance.

use std::collections::BTreeMap;

use crate::protocol::InstanceId;

/// A worker that takes instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seat<'a> {
    pub(crate) worker: &'a str,
    pub(crate) slots: u16,
}

/// Gives every instance a worker, or `None` when there are not enough slots.
///
/// An instance stays where it was if that worker is there and has room. The others go to the worker
/// that has the fewest instances of the same operator, then the fewest in all, then the lowest name:
/// parallel instances spread, and the result depends on nothing but the arguments.
pub(crate) fn place(
    instances: &[InstanceId],
    before: &[(InstanceId, String)],
    seats: &[Seat<'_>],
) -> Option<Vec<(InstanceId, String)>> {
    let before: BTreeMap<&InstanceId, &str> = before
        .iter()
        .map(|(instance, worker)| (instance, worker.as_str()))
        .collect();
    let mut table = Table::new(seats);
    let mut placed = BTreeMap::new();
    for instance in instances {
        let seat = before
            .get(instance)
            .and_then(|worker| table.free_seat(worker));
        if let Some(seat) = seat {
            placed.insert(instance, table.take(seat, instance));
        }
    }
    for instance in instances {
        if !placed.contains_key(instance) {
            let seat = table.best_seat(instance)?;
            placed.insert(instance, table.take(seat, instance));
        }
    }
    Some(
        placed
            .into_iter()
            .map(|(instance, worker)| (instance.clone(), worker))
            .collect(),
    )
}

struct Table<'a> {
    seats: &'a [Seat<'a>],
    taken: Vec<Vec<InstanceId>>,
}

impl<'a> Table<'a> {
    fn new(seats: &'a [Seat<'a>]) -> Self {
        Self {
            seats,
            taken: vec![Vec::new(); seats.len()],
        }
    }

    fn has_room(&self, seat: usize) -> bool {
        self.taken[seat].len() < usize::from(self.seats[seat].slots)
    }

    fn free_seat(&self, worker: &str) -> Option<usize> {
        let seat = self.seats.iter().position(|seat| seat.worker == worker)?;
        self.has_room(seat).then_some(seat)
    }

    fn best_seat(&self, instance: &InstanceId) -> Option<usize> {
        let load = |seat: &usize| {
            let taken = &self.taken[*seat];
            let same = taken
                .iter()
                .filter(|other| other.operator == instance.operator)
                .count();
            (same, taken.len(), self.seats[*seat].worker)
        };
        (0..self.seats.len())
            .filter(|&seat| self.has_room(seat))
            .min_by_key(load)
    }

    fn take(&mut self, seat: usize, instance: &InstanceId) -> String {
        self.taken[seat].push(instance.clone());
        self.seats[seat].worker.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn instances(operators: &[(&str, u16)]) -> Vec<InstanceId> {
        let of = |(operator, width): &(&str, u16)| {
            let operator = (*operator).to_owned();
            (0..*width).map(move |index| InstanceId {
                operator: operator.clone(),
                index,
            })
        };
        operators.iter().flat_map(of).collect()
    }

    fn seats<'a>(workers: &[(&'a str, u16)]) -> Vec<Seat<'a>> {
        workers
            .iter()
            .map(|&(worker, slots)| Seat { worker, slots })
            .collect()
    }

    fn text(placed: &[(InstanceId, String)]) -> String {
        let one = |(instance, worker): &(InstanceId, String)| format!("{instance}@{worker}");
        placed.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn instances_of_one_operator_spread_over_the_workers() {
        let all = instances(&[("sink", 1), ("source", 1), ("totals", 2)]);
        let placed = place(&all, &[], &seats(&[("a", 4), ("b", 4)])).unwrap();
        assert_eq!(
            text(&placed),
            "sink[0]@a source[0]@b totals[0]@a totals[1]@b"
        );
    }

    #[test]
    fn what_has_a_place_keeps_it_and_the_rest_goes_to_spare_slots() {
        let all = instances(&[("source", 1), ("totals", 2)]);
        let before = place(&all, &[], &seats(&[("a", 2), ("b", 2)])).unwrap();
        assert_eq!(text(&before), "source[0]@a totals[0]@b totals[1]@a");
        let after = place(&all, &before, &seats(&[("b", 2), ("c", 2)])).unwrap();
        assert_eq!(text(&after), "source[0]@c totals[0]@b totals[1]@c");
    }

    #[test]
    fn without_enough_slots_there_is_no_placement() {
        let all = instances(&[("totals", 3)]);
        assert_eq!(place(&all, &[], &seats(&[("a", 2)])), None);
    }

    proptest! {
        #[test]
        fn every_instance_has_one_place_and_no_worker_is_overfull(
            widths in proptest::collection::vec(1_u16..5, 1..5),
            first in proptest::collection::vec(0_u16..6, 1..5),
            second in proptest::collection::vec(0_u16..6, 1..5),
        ) {
            const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
            let operators: Vec<(&str, u16)> = NAMES.into_iter().zip(widths).collect();
            let all = instances(&operators);
            let (first, second): (Vec<_>, Vec<_>) = (
                NAMES.into_iter().zip(first).collect(),
                NAMES.into_iter().rev().zip(second).collect(),
            );
            let before = place(&all, &[], &seats(&first)).unwrap_or_default();
            let room: u32 = second.iter().map(|(_, slots)| u32::from(*slots)).sum();
            let placed = place(&all, &before, &seats(&second));
            prop_assert_eq!(placed.is_some(), room as usize >= all.len());
            let placed = placed.unwrap_or_default();
            for (worker, slots) in &second {
                let count = placed.iter().filter(|(_, on)| on == worker).count();
                prop_assert!(count <= usize::from(*slots));
            }
            if !placed.is_empty() {
                let mut ids: Vec<_> = placed.iter().map(|(instance, _)| instance.clone()).collect();
                ids.dedup();
                prop_assert_eq!(ids, all);
            }
        }
    }
}
