//! What happens when: drawn from the seed. Pure.

use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// SIGKILL of a worker.
    KillWorker,
    /// SIGKILL of two workers at once.
    KillTwoWorkers,
    /// SIGKILL of the leading coordinator.
    KillLeader,
    /// SIGKILL of the other coordinator.
    KillStandby,
    /// SIGSTOP of a worker, and SIGCONT before its lease is over.
    PauseWorker,
    /// SIGSTOP of a worker beyond its lease.
    StopWorker,
    /// SIGSTOP of the leading coordinator for a moment.
    PauseLeader,
    /// SIGSTOP of the leading coordinator beyond its session.
    StopLeader,
    /// SIGSTOP of the other coordinator.
    StopStandby,
    /// A worker is cut off from everybody.
    IsolateWorker,
    /// The leading coordinator is cut off from everybody.
    IsolateLeader,
    /// What a worker sends is swallowed, what it is sent arrives.
    MuteWorker,
    /// The leading coordinator is cut off from ZooKeeper alone.
    CutLeaderFromZooKeeper,
    /// The workers are cut off from the Canal server.
    CutCanal,
    /// The Canal server is stopped and started again.
    RestartCanal,
    /// ZooKeeper is stopped and started again.
    RestartZooKeeper,
    /// Redis is stopped and started again.
    RestartRedis,
    /// The disk of the job's folder is full.
    DiskFull,
}

/// What a kind of fault needs of the machine, or of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// Network namespaces.
    Network,
    /// A disk of its own.
    Mount,
    /// Checkpoints at Redis.
    Redis,
}

impl Kind {
    /// Every kind.
    pub(crate) const ALL: [Self; 18] = [
        Self::KillWorker,
        Self::KillTwoWorkers,
        Self::KillLeader,
        Self::KillStandby,
        Self::PauseWorker,
        Self::StopWorker,
        Self::PauseLeader,
        Self::StopLeader,
        Self::StopStandby,
        Self::IsolateWorker,
        Self::IsolateLeader,
        Self::MuteWorker,
        Self::CutLeaderFromZooKeeper,
        Self::CutCanal,
        Self::RestartCanal,
        Self::RestartZooKeeper,
        Self::RestartRedis,
        Self::DiskFull,
    ];

    /// Its name in kebab case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KillWorker => "kill-worker",
            Self::KillTwoWorkers => "kill-two-workers",
            Self::KillLeader => "kill-leader",
            Self::KillStandby => "kill-standby",
            Self::PauseWorker => "pause-worker",
            Self::StopWorker => "stop-worker",
            Self::PauseLeader => "pause-leader",
            Self::StopLeader => "stop-leader",
            Self::StopStandby => "stop-standby",
            Self::IsolateWorker => "isolate-worker",
            Self::IsolateLeader => "isolate-leader",
            Self::MuteWorker => "mute-worker",
            Self::CutLeaderFromZooKeeper => "cut-leader-from-zookeeper",
            Self::CutCanal => "cut-canal",
            Self::RestartCanal => "restart-canal",
            Self::RestartZooKeeper => "restart-zookeeper",
            Self::RestartRedis => "restart-redis",
            Self::DiskFull => "disk-full",
        }
    }

    /// What it needs.
    pub(crate) fn need(self) -> Need {
        match self {
            Self::IsolateWorker
            | Self::IsolateLeader
            | Self::MuteWorker
            | Self::CutLeaderFromZooKeeper
            | Self::CutCanal => Need::Network,
            Self::DiskFull => Need::Mount,
            Self::RestartRedis => Need::Redis,
            _ => Need::Nothing,
        }
    }

    /// How long it lasts, in milliseconds; of a kill, until the process is started again. A
    /// worker's lease is 2 s and half a second of margin, the session at ZooKeeper 4 s.
    fn milliseconds(self) -> RangeInclusive<u64> {
        match self {
            Self::KillWorker | Self::KillTwoWorkers | Self::KillLeader | Self::KillStandby => {
                0..=3_000
            }
            Self::PauseWorker | Self::PauseLeader => 300..=1_500,
            Self::StopWorker | Self::StopStandby => 3_000..=9_000,
            Self::StopLeader | Self::IsolateLeader | Self::CutLeaderFromZooKeeper => 5_000..=10_000,
            Self::IsolateWorker | Self::MuteWorker | Self::CutCanal => 3_000..=9_000,
            // as long as the server takes
            Self::RestartCanal | Self::RestartZooKeeper | Self::RestartRedis => 0..=0,
            Self::DiskFull => 2_000..=8_000,
        }
    }
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// When it begins, from the begin of the load.
    pub(crate) at: Duration,
    /// What it is.
    pub(crate) kind: Kind,
    /// How long it lasts.
    pub(crate) lasts: Duration,
    /// Decides between targets, and between SIGTERM and SIGKILL.
    pub(crate) pick: u64,
}

/// Before the first fault.
const QUIET_AT_FIRST: Duration = Duration::from_secs(10);
/// Behind the begin of the last fault, within the load: all of it happens under load.
const QUIET_AT_LAST: Duration = Duration::from_secs(20);
/// Between the begins of two faults, in milliseconds: less than some faults last, so that they
/// meet.
const GAP: RangeInclusive<u64> = 3_000..=18_000;

/// The faults of a run whose load takes so long. Kinds come in rounds, each once a round and in a
/// new order.
pub(crate) fn schedule(seed: u64, load: Duration) -> Vec<Fault> {
    let mut random = Rng::with_seed(seed ^ 0x0063_6861_6f73);
    let mut round: Vec<Kind> = Vec::new();
    let mut faults = Vec::new();
    let mut at = QUIET_AT_FIRST;
    loop {
        at += Duration::from_millis(random.u64(GAP));
        if at + QUIET_AT_LAST > load {
            return faults;
        }
        if round.is_empty() {
            round = Kind::ALL.to_vec();
            random.shuffle(&mut round);
        }
        let Some(kind) = round.pop() else {
            return faults;
        };
        faults.push(Fault {
            at,
            kind,
            lasts: Duration::from_millis(random.u64(kind.milliseconds())),
            pick: random.u64(..),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
        assert_eq!(schedule(7, 20 * MINUTE), schedule(7, 20 * MINUTE));
        assert_ne!(schedule(7, 20 * MINUTE), schedule(8, 20 * MINUTE));
    }

    #[test]
    fn a_longer_run_begins_like_a_shorter_one() {
        let short = schedule(3, 5 * MINUTE);
        assert_eq!(short, schedule(3, 20 * MINUTE)[..short.len()]);
    }

    #[test]
    fn every_fault_begins_in_order_and_ends_under_load() {
        for seed in 0..200 {
            let load = 5 * MINUTE;
            let faults = schedule(seed, load);
            assert!(faults.is_sorted_by_key(|fault| fault.at), "seed {seed}");
            for fault in faults {
                assert!(fault.at >= QUIET_AT_FIRST);
                assert!(fault.at + fault.lasts < load, "seed {seed}: {fault:?}");
            }
        }
    }

    #[test]
    fn ten_minutes_have_every_kind_and_five_most_of_them() {
        for seed in 0..200 {
            let kinds = |minutes: u32| -> BTreeSet<Kind> {
                let faults = schedule(seed, minutes * MINUTE);
                faults.iter().map(|fault| fault.kind).collect()
            };
            assert_eq!(kinds(10).len(), Kind::ALL.len(), "seed {seed}");
            assert!(kinds(5).len() >= 12, "seed {seed}");
        }
    }

    #[test]
    fn names_are_different() {
        let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
