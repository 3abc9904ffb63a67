//! How long tuples stand still in a round, and how long the round takes, with 100,000 keys at full speed and a folder
//! as the store: small state, and 1,000 bytes more for each key.

use bench_harness::Failure;
use bench_harness::report::Goal::AtMost;
use bench_harness::report::{Figure, percentile};

use crate::outcome::Outcome;
use crate::program::Role;
use crate::run::{Run, Until};
use crate::settings::Settings;

/// Rounds with small state, and with 100 MB, of which each takes as long as the disk does.
const SMALL: u64 = 200;
const LARGE: u64 = 100;
const PAD: usize = 1_000;

pub fn figures(_: &Settings, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let small = rounds(0, SMALL)?;
    let large = rounds(PAD, LARGE)?;
    for (name, run) in [
        ("region.pause.100k_keys.p99_ms", &small),
        ("region.pause.100k_keys.pad_1000.p99_ms", &large),
    ] {
        let at = |part| percentile(&run.pauses_ms, part);
        let pause = Figure::new(name, "ms", AtMost(10.0), Some(at(0.99)));
        figures.push(
            pause
                .runs(run.pauses_ms.len())
                .peer("p50", at(0.5))
                .peer("max", at(1.0)),
        );
    }
    let at = |part| percentile(&small.rounds_ms, part);
    let round = Figure::new(
        "region.round.100k_keys.p50_ms",
        "ms",
        AtMost(50.0),
        Some(at(0.5)),
    );
    figures.push(
        round
            .runs(small.rounds_ms.len())
            .peer("p99", at(0.99))
            .peer("pad_1000", percentile(&large.rounds_ms, 0.5)),
    );
    Ok(())
}

fn rounds(pad: usize, rounds: u64) -> Result<Outcome, Failure> {
    let run = Run {
        until: Until::Rounds(rounds),
        period_ms: None,
        pad,
        arbiters: 2,
    };
    let outcome: Outcome = Role::Region(run).result()?;
    eprintln!(
        "pause, pad {pad}: {} rounds, p50 {:.2} ms of pause, {:.1} ms a round, {:.1} MB each",
        outcome.rounds,
        percentile(&outcome.pauses_ms, 0.5),
        percentile(&outcome.rounds_ms, 0.5),
        outcome.bytes as f64 / outcome.rounds as f64 / 1e6
    );
    match outcome.correct {
        true => Ok(outcome),
        false => Err("the counts are wrong, so the pauses are none".into()),
    }
}
