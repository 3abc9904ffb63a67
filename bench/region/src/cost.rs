//! What being consistent costs: the pauses of tuples and the processor time of rounds, as a share of the run; beside
//! it what is left of the speed of a run whose only cut is its last.
//!
//! The time of rounds is that of the threads which no operator runs on. What an operator does more while its state is
//! being written, a copy of each entry that it touches, is in its own thread's time: the difference of the speeds has it.

use bench_harness::Failure;
use bench_harness::report::Goal::AtMost;
use bench_harness::report::{Figure, median};

use crate::outcome::Outcome;
use crate::program::Role;
use crate::run::{Run, Until};
use crate::settings::Settings;

/// Each is several periods long.
const OFF: f64 = 8.0;
const PERIODS: [(&str, u64, f64, f64); 2] = [
    ("region.cost.8s.percent", 8_000, 26.0, 1.0),
    ("region.cost.1s.percent", 1_000, 10.5, 3.0),
];
/// These runs are long.
const MOST_ROUNDS: usize = 3;

pub fn figures(settings: &Settings, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let rounds = settings.rounds.min(MOST_ROUNDS);
    let mut costs = PERIODS.map(|_| (vec![], vec![], vec![]));
    for _ in 0..rounds {
        let autonomous = measure(None, OFF)?;
        for ((_, period, seconds, _), (shares, walls, cpus)) in PERIODS.iter().zip(&mut costs) {
            let run = measure(Some(*period), *seconds)?;
            let pauses: f64 = run.pauses_ms.iter().sum::<f64>() / 1e3;
            shares.push((pauses + run.rounds_cpu) / run.seconds * 100.0);
            let speed = |of: &Outcome| of.tuples as f64 / of.seconds;
            walls.push((1.0 - speed(&run) / speed(&autonomous)) * 100.0);
            let each = |of: &Outcome| of.cpu / of.tuples as f64;
            cpus.push((each(&run) / each(&autonomous) - 1.0) * 100.0);
        }
    }
    for ((name, _, _, goal), (shares, walls, cpus)) in PERIODS.into_iter().zip(costs) {
        let figure = Figure::new(name, "%", AtMost(goal), Some(median(shares)));
        figures.push(
            figure
                .runs(rounds)
                .peer("wall_percent", median(walls))
                .peer("cpu_percent", median(cpus)),
        );
    }
    Ok(())
}

fn measure(period_ms: Option<u64>, seconds: f64) -> Result<Outcome, Failure> {
    let run = Run {
        until: Until::Seconds(seconds),
        period_ms,
        pad: 0,
        arbiters: 2,
    };
    let outcome: Outcome = Role::Region(run).result()?;
    eprintln!(
        "cost, period {period_ms:?} ms: {:.0} tuples/s, {} rounds, {:.1} ms of pauses, {:.0} ms of CPU in rounds",
        outcome.tuples as f64 / outcome.seconds,
        outcome.rounds,
        outcome.pauses_ms.iter().sum::<f64>(),
        outcome.rounds_cpu * 1e3
    );
    match outcome.correct {
        true => Ok(outcome),
        false => Err("the counts are wrong, so the cost is none".into()),
    }
}
