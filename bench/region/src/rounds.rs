//! A round with a thousand operators without state, and what they cost while nothing happens; beside Jet.

use bench_harness::Failure;
use bench_harness::report::Goal::AtMost;
use bench_harness::report::{Figure, percentile};

use crate::outcome::Outcome;
use crate::program::{Rival, Role};
use crate::settings::Settings;

const OPERATORS: u64 = 1_000;
const ROUNDS: u64 = 300;
const SECONDS: u64 = 20;

pub fn figures(_: &Settings, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let ours: Outcome = Role::Chain {
        operators: OPERATORS,
        rounds: ROUNDS,
        seconds: SECONDS,
    }
    .result()?;
    let jet = Rival::Jet.compiled();
    let jet = jet
        .map(|jet| jet.many(OPERATORS, 1_000, SECONDS))
        .transpose()?;
    let jet = jet.filter(|jet| jet.correct && jet.rounds > 0);
    let runs = ours.rounds_ms.len();
    let at = |part| percentile(&ours.rounds_ms, part);
    let mut middle = Figure::new(
        "region.round.1000.p50_ms",
        "ms",
        AtMost(10.0),
        Some(at(0.5)),
    );
    if let Some(jet) = jet {
        middle = middle.peer("jet", jet.round_p50_ms);
    }
    figures.push(middle.runs(runs));
    let slow = Figure::new(
        "region.round.1000.p99_ms",
        "ms",
        AtMost(50.0),
        Some(at(0.99)),
    );
    figures.push(slow.runs(runs).peer("max", at(1.0)));
    let percent = ours.cpu / ours.seconds * 100.0;
    let idle = Figure::new(
        "region.idle.1000.core_percent",
        "% of a core",
        AtMost(1.0),
        Some(percent),
    );
    figures.push(idle.runs(1));
    Ok(())
}
