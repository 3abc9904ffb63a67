//! Which worker runs which instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::settings::InstanceShape;
use crate::protocol::InstanceId;

/// A worker that takes instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seat<'a> {
    pub(crate) worker: &'a str,
    pub(crate) slots: u16,
    pub(crate) labels: &'a [String],
}

/// Gives every instance a worker that has all labels that it needs, or names the instances that
/// there is no place for.
///
/// An instance stays where it was if that worker is there and has room. The others go to the worker
/// that has the fewest instances of the same operator, then the fewest in all, then the lowest name:
/// parallel instances spread, and the result depends on nothing but the arguments. Those with the
/// smallest choice come first; if they still find no room, others make room for them.
pub(crate) fn place(
    instances: &[InstanceShape],
    before: &[(InstanceId, String)],
    seats: &[Seat<'_>],
) -> Result<Vec<(InstanceId, String)>, Vec<InstanceId>> {
    let before: BTreeMap<&InstanceId, &str> = before
        .iter()
        .map(|(instance, worker)| (instance, worker.as_str()))
        .collect();
    let mut table = Table::new(instances, seats);
    let mut open = Vec::new();
    for (index, shape) in instances.iter().enumerate() {
        let seat = before
            .get(&shape.instance)
            .and_then(|worker| table.free_seat(index, worker));
        match seat {
            Some(seat) => table.take(seat, index),
            None => open.push(index),
        }
    }
    open.sort_by_key(|&index| table.fitting(index).count());
    let mut waiting = Vec::new();
    for index in open {
        match table.best_seat(index).or_else(|| table.made_free(index)) {
            Some(seat) => table.take(seat, index),
            None => waiting.push(instances[index].instance.clone()),
        }
    }
    if waiting.is_empty() {
        return Ok(table.placement());
    }
    waiting.sort();
    Err(waiting)
}

/// What each worker of a placement runs.
pub(crate) fn by_worker(placement: &[(InstanceId, String)]) -> BTreeMap<String, Arc<[InstanceId]>> {
    let mut by_worker: BTreeMap<&String, Vec<InstanceId>> = BTreeMap::new();
    for (instance, worker) in placement {
        by_worker.entry(worker).or_default().push(instance.clone());
    }
    let shared = |(worker, instances): (&String, Vec<_>)| (worker.clone(), instances.into());
    by_worker.into_iter().map(shared).collect()
}

struct Table<'a> {
    instances: &'a [InstanceShape],
    seats: &'a [Seat<'a>],
    /// The instances at each seat, by their index.
    taken: Vec<Vec<usize>>,
}

impl<'a> Table<'a> {
    fn new(instances: &'a [InstanceShape], seats: &'a [Seat<'a>]) -> Self {
        Self {
            instances,
            seats,
            taken: vec![Vec::new(); seats.len()],
        }
    }

    fn has_room(&self, seat: usize) -> bool {
        self.taken[seat].len() < usize::from(self.seats[seat].slots)
    }

    fn fits(&self, index: usize, seat: usize) -> bool {
        let labels = self.seats[seat].labels;
        let needed = &self.instances[index].labels;
        needed.iter().all(|label| labels.contains(label))
    }

    fn fitting(&self, index: usize) -> impl Iterator<Item = usize> {
        (0..self.seats.len()).filter(move |&seat| self.fits(index, seat))
    }

    fn free_seat(&self, index: usize, worker: &str) -> Option<usize> {
        let seat = self.seats.iter().position(|seat| seat.worker == worker)?;
        (self.has_room(seat) && self.fits(index, seat)).then_some(seat)
    }

    fn best_seat(&self, index: usize) -> Option<usize> {
        let operator = &self.instances[index].instance.operator;
        let load = |seat: &usize| {
            let taken = &self.taken[*seat];
            let same = taken
                .iter()
                .filter(|&&other| &self.instances[other].instance.operator == operator)
                .count();
            (same, taken.len(), self.seats[*seat].worker)
        };
        self.fitting(index)
            .filter(|&seat| self.has_room(seat))
            .min_by_key(load)
    }

    /// A seat that fits and has room once instances that can sit elsewhere do.
    fn made_free(&mut self, index: usize) -> Option<usize> {
        let mut seen = vec![false; self.seats.len()];
        let fitting: Vec<usize> = self.fitting(index).collect();
        fitting
            .into_iter()
            .find(|&seat| self.make_room(seat, &mut seen))
    }

    fn make_room(&mut self, seat: usize, seen: &mut [bool]) -> bool {
        if self.has_room(seat) {
            return true;
        }
        if std::mem::replace(&mut seen[seat], true) {
            return false;
        }
        for position in 0..self.taken[seat].len() {
            let index = self.taken[seat][position];
            let elsewhere: Vec<usize> =
                self.fitting(index).filter(|&other| other != seat).collect();
            for other in elsewhere {
                if self.make_room(other, seen) {
                    self.taken[seat].swap_remove(position);
                    self.take(other, index);
                    return true;
                }
            }
        }
        false
    }

    fn take(&mut self, seat: usize, index: usize) {
        self.taken[seat].push(index);
    }

    fn placement(&self) -> Vec<(InstanceId, String)> {
        let at = |(seat, taken): (usize, &Vec<usize>)| {
            let worker = self.seats[seat].worker;
            let named = |&index: &usize| {
                let instance = self.instances[index].instance.clone();
                (instance, worker.to_owned())
            };
            taken.iter().map(named).collect::<Vec<_>>()
        };
        let mut placement: Vec<_> = self.taken.iter().enumerate().flat_map(at).collect();
        placement.sort();
        placement
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn instances(operators: &[(&str, u16)]) -> Vec<InstanceShape> {
        let of = |(operator, width): &(&str, u16)| {
            let operator = (*operator).to_owned();
            (0..*width).map(move |index| InstanceShape {
                instance: InstanceId {
                    operator: operator.clone(),
                    index,
                },
                start: false,
                acknowledges: false,
                labels: Vec::new(),
            })
        };
        operators.iter().flat_map(of).collect()
    }

    fn seats<'a>(workers: &[(&'a str, u16)]) -> Vec<Seat<'a>> {
        workers
            .iter()
            .map(|&(worker, slots)| Seat {
                worker,
                slots,
                labels: &[],
            })
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
        let waiting = place(&all, &[], &seats(&[("a", 2)])).unwrap_err();
        assert_eq!(waiting.len(), 1);
        assert_eq!(waiting[0].to_string(), "totals[2]");
    }

    #[test]
    fn an_operator_runs_where_its_labels_are_and_others_make_room_for_it() {
        let gpu = ["gpu".to_owned()];
        let both = ["gpu".to_owned(), "disk".to_owned()];
        let mut all = instances(&[("model", 1), ("sink", 1), ("source", 1)]);
        let seat = |worker, slots, labels| Seat {
            worker,
            slots,
            labels,
        };
        let seats = [seat("a", 2, &[][..]), seat("b", 1, &gpu[..])];
        all[0].labels = vec!["gpu".to_owned()];
        let placed = place(&all, &[], &seats).unwrap();
        assert_eq!(text(&placed), "model[0]@b sink[0]@a source[0]@a");
        // Who sits on the only seat that fits moves.
        let before = [(all[1].instance.clone(), "b".to_owned())];
        let placed = place(&all, &before, &seats).unwrap();
        assert_eq!(text(&placed), "model[0]@b sink[0]@a source[0]@a");
        // Also when that takes several moves.
        all[1].labels = vec!["disk".to_owned()];
        let before = [
            (all[1].instance.clone(), "c".to_owned()),
            (all[2].instance.clone(), "b".to_owned()),
        ];
        let disk = ["disk".to_owned()];
        let seats = [
            seat("a", 1, &[][..]),
            seat("b", 1, &disk[..]),
            seat("c", 1, &both[..]),
        ];
        let placed = place(&all, &before, &seats).unwrap();
        assert_eq!(text(&placed), "model[0]@c sink[0]@b source[0]@a");
        // Nobody has it: that instance waits, by name.
        let waiting = place(&all, &before, &seats[..2]).unwrap_err();
        assert_eq!(waiting, [all[0].instance.clone()]);
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
            prop_assert_eq!(placed.is_ok(), room as usize >= all.len());
            let placed = placed.unwrap_or_default();
            for (worker, slots) in &second {
                let count = placed.iter().filter(|(_, on)| on == worker).count();
                prop_assert!(count <= usize::from(*slots));
            }
            if !placed.is_empty() {
                let mut ids: Vec<_> = placed.iter().map(|(instance, _)| instance.clone()).collect();
                ids.dedup();
                let expected: Vec<_> = all.iter().map(|shape| shape.instance.clone()).collect();
                prop_assert_eq!(ids, expected);
            }
        }
    }
}
