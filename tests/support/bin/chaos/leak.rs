//! Whether something grows that must stay as it is: medians of the first and the last third. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Measure {
    /// Resident memory of a process, KiB.
    Memory,
    /// Open file handles of a process, sockets included.
    Files,
    /// Sockets of a process.
    Sockets,
    /// Threads of a process.
    Threads,
    /// Watches at ZooKeeper.
    Watches,
    /// Ephemeral nodes at ZooKeeper.
    Ephemerals,
    /// Nodes at ZooKeeper.
    Nodes,
    /// Connections at a server.
    Connections,
    /// Keys at Redis.
    Keys,
    /// Files in a folder of the job.
    Entries,
}

impl Measure {
    /// Its name in samples and figures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory_kib",
            Self::Files => "file_handles",
            Self::Sockets => "sockets",
            Self::Threads => "threads",
            Self::Watches => "watches",
            Self::Ephemerals => "ephemeral_nodes",
            Self::Nodes => "nodes",
            Self::Connections => "connections",
            Self::Keys => "keys",
            Self::Entries => "files",
        }
    }

    /// The highest median of the last third that is taken for flat. The slack is for what an
    /// allocator keeps and for what faults leave for a moment; one leak a fault is beyond it.
    fn most(self, first: u64) -> u64 {
        match self {
            Self::Memory => first + first / 2 + 16 * 1024,
            Self::Keys | Self::Entries => first + first / 2 + 64,
            _ => first + first / 4 + 8,
        }
    }
}

/// Who, and what of it.
pub(crate) type Subject = (String, Measure);

/// The medians of one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Medians {
    pub(crate) subject: Subject,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Samples that a third must have to say anything.
const FEWEST: usize = 5;

/// All samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    points: BTreeMap<Subject, Vec<(Duration, u64)>>,
}

impl Samples {
    /// A value at a time from the begin of the load.
    pub(crate) fn add(&mut self, who: &str, measure: Measure, at: Duration, value: u64) {
        let subject = (who.to_owned(), measure);
        self.points.entry(subject).or_default().push((at, value));
    }

    /// The medians of every subject over a load of that length, and what is wrong with them.
    pub(crate) fn judge(&self, load: Duration) -> (Vec<Medians>, Vec<String>) {
        let (mut medians, mut findings) = (Vec::new(), Vec::new());
        for (subject, points) in &self.points {
            let (who, measure) = (&subject.0, subject.1);
            let of = |wanted: &dyn Fn(Duration) -> bool| {
                let within = points.iter().filter(|(at, _)| wanted(*at));
                median(within.map(|(_, value)| *value).collect())
            };
            let (third, two_thirds) = (load / 3, load * 2 / 3);
            let first = of(&|at| at < third);
            let last = of(&|at| at >= two_thirds && at <= load);
            let (Some(first), Some(last)) = (first, last) else {
                findings.push(format!(
                    "{who}: too few samples of {} to tell a leak",
                    measure.name()
                ));
                continue;
            };
            if last > measure.most(first) {
                findings.push(format!(
                    "{who}: {} have grown from {first} to {last} (medians of the first and the last third)",
                    measure.name()
                ));
            }
            medians.push(Medians {
                subject: subject.clone(),
                first,
                last,
            });
        }
        (medians, findings)
    }
}

/// The one in the middle; `None` of too few.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    (values.len() >= FEWEST).then(|| values[values.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Duration = Duration::from_secs(300);

    fn judged(measure: Measure, value: impl Fn(u64) -> u64) -> Vec<String> {
        let mut samples = Samples::default();
        for second in (0..300).step_by(3) {
            samples.add(
                "worker-2",
                measure,
                Duration::from_secs(second),
                value(second),
            );
        }
        samples.judge(LOAD).1
    }

    #[test]
    fn what_goes_up_and_down_is_no_leak() {
        let waves = |second: u64| 30 + second / 3 % 7;
        assert_eq!(judged(Measure::Sockets, waves), Vec::<String>::new());
    }

    #[test]
    fn one_socket_a_fault_is_a_leak_within_five_minutes() {
        let leaks = |second: u64| 30 + second / 10;
        let found = judged(Measure::Sockets, leaks);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("worker-2: sockets"), "{found:?}");
    }

    #[test]
    fn memory_that_doubles_is_a_leak() {
        let doubles = |second: u64| 40_000 + 400 * second;
        assert_eq!(judged(Measure::Memory, doubles).len(), 1);
    }

    #[test]
    fn a_subject_without_samples_in_the_last_third_is_a_finding() {
        let mut samples = Samples::default();
        for second in 0..150 {
            samples.add("worker-2", Measure::Files, Duration::from_secs(second), 9);
        }
        let (medians, findings) = samples.judge(LOAD);
        assert!(medians.is_empty());
        assert!(findings[0].contains("too few samples"), "{findings:?}");
    }

    #[test]
    fn a_burst_does_not_move_a_median() {
        let burst = |second: u64| if second > 280 { 9_999 } else { 12 };
        assert_eq!(judged(Measure::Watches, burst), Vec::<String>::new());
    }
}
