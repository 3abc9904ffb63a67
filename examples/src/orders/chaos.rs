//! Which processes are killed or stopped, where and when: drawn from the seed. Pure.

use fastrand::Rng;
use lockkeeper_consistent_region::point::Point;

/// Points of a worker.
pub const WORKER_POINTS: [Point; 6] = [
    Point::Emitting,
    Point::Draining,
    Point::Staging,
    Point::BeforeCommit,
    Point::AfterCommitBeforeAck,
    Point::DuringReset,
];

/// Points of the leading coordinator.
pub const LEADER_POINTS: [Point; 3] = [
    Point::BeforeManifest,
    Point::AfterManifest,
    Point::BetweenRecordAndMessage,
];

/// One kill: the process that reaches `point` for the `times`-th time after it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    /// Where.
    pub point: Point,
    /// 1: the first time.
    pub times: u64,
    /// It is stopped beyond its lease and continued, not killed.
    pub stop: bool,
}

impl Kill {
    /// Whether the leading coordinator reaches it, not a worker.
    #[must_use]
    pub fn hits_leader(&self) -> bool {
        LEADER_POINTS.contains(&self.point)
    }

    /// Whether it must be set while the region recovers from the kill before.
    #[must_use]
    pub fn needs_a_reset(&self) -> bool {
        self.point == Point::DuringReset
    }
}

/// The kills of a run: one of the leader, two of workers. Over nine seeds in a row every point has
/// its turn.
#[must_use]
pub fn kills(seed: u64) -> Vec<Kill> {
    let mut random = Rng::with_seed(seed ^ 0x006b_696c_6c73);
    let turn = usize::try_from(seed % 18).unwrap_or(0);
    let leader = LEADER_POINTS[turn % LEADER_POINTS.len()];
    let first = WORKER_POINTS[turn % WORKER_POINTS.len()];
    let second = WORKER_POINTS[(turn + 1 + random.usize(0..4)) % WORKER_POINTS.len()];
    let mut points = vec![first, second];
    // a reset is reached for certain only right after a worker was killed
    points.sort_by_key(|point| *point == Point::DuringReset);
    let place = match points.last() {
        Some(Point::DuringReset) => 0,
        _ => random.usize(0..2),
    };
    points.insert(place, leader);
    points
        .into_iter()
        .map(|point| Kill {
            point,
            times: times(point, &mut random),
            stop: false,
        })
        .collect()
}

/// The kills at `points`, in this order.
#[must_use]
pub fn kills_at(points: &[Point], seed: u64, stop: bool) -> Vec<Kill> {
    let mut random = Rng::with_seed(seed);
    points
        .iter()
        .map(|&point| Kill {
            point,
            times: times(point, &mut random),
            stop,
        })
        .collect()
}

fn times(point: Point, random: &mut Rng) -> u64 {
    match point {
        Point::Emitting => random.u64(5..60),
        Point::DuringReset | Point::BetweenRecordAndMessage => 1,
        _ => random.u64(1..3),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn twenty_seeds_in_a_row_hit_every_point() {
        let points: BTreeSet<Point> = (1..=20).flat_map(kills).map(|kill| kill.point).collect();
        let all: BTreeSet<Point> = WORKER_POINTS.into_iter().chain(LEADER_POINTS).collect();
        assert_eq!(points, all);
    }

    #[test]
    fn every_run_kills_the_leader_and_workers_and_never_begins_with_a_reset() {
        for seed in 0..200 {
            let kills = kills(seed);
            assert_eq!(
                kills.iter().filter(|kill| kill.hits_leader()).count(),
                1,
                "seed {seed}"
            );
            assert_eq!(kills.len(), 3);
            assert!(!kills[0].needs_a_reset(), "seed {seed}");
            assert_eq!(kills, self::kills(seed));
        }
    }
}
