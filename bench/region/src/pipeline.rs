//! The work at full speed with a cut each second: tuples a second beside bare actors, processor time of a tuple beside
//! Flink's and Jet's. A run without tuples is subtracted from each.

use bench_harness::Failure;
use bench_harness::report::Goal::{AtLeast, AtMost};
use bench_harness::report::{Figure, median};

use crate::outcome::Outcome;
use crate::program::{Rival, Role};
use crate::run::{Run, Until};
use crate::settings::Settings;

const PERIOD_MS: u64 = 1_000;

/// What a tuple takes, without what the start and the end of a process do.
#[derive(Clone, Copy, Debug)]
struct Cost {
    tuples_per_second: f64,
    cpu_ns: f64,
}

/// Runs it with all tuples and with none.
fn cost(
    name: &str,
    tuples: u64,
    run: impl Fn(u64) -> Result<Outcome, Failure>,
) -> Result<Cost, Failure> {
    let none = run(0)?;
    let all = run(tuples)?;
    if !all.correct {
        return Err(format!("{name}: the counts are wrong, so its figures are none").into());
    }
    let cost = Cost {
        tuples_per_second: tuples as f64 / (all.seconds - none.seconds),
        cpu_ns: (all.cpu - none.cpu) / tuples as f64 * 1e9,
    };
    eprintln!(
        "{name:>8} {tuples} tuples: {:>11.0}/s, {:>7.1} ns of CPU each; {:.2} s and {:.2} s of CPU, without tuples {:.2} s and {:.2} s",
        cost.tuples_per_second, cost.cpu_ns, all.seconds, all.cpu, none.seconds, none.cpu,
    );
    Ok(cost)
}

fn ours(tuples: u64, arbiters: usize) -> Result<Cost, Failure> {
    cost(&format!("region/{arbiters}"), tuples, |tuples| {
        let run = Run {
            until: Until::Tuples(tuples),
            period_ms: Some(PERIOD_MS),
            pad: 0,
            arbiters,
        };
        Role::Region(run).result()
    })
}

fn bare(tuples: u64, arbiters: usize) -> Result<Cost, Failure> {
    cost(&format!("bare/{arbiters}"), tuples, |tuples| {
        Role::Bare { tuples, arbiters }.result()
    })
}

pub fn figures(settings: &Settings, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let rivals = [Rival::Flink, Rival::Jet].map(|rival| (rival, rival.compiled()));
    let (mut one, mut two, mut bare_one, mut bare_two) = (vec![], vec![], vec![], vec![]);
    let mut rival_costs = [vec![], vec![]];
    for round in 0..settings.rounds {
        two.push(ours(settings.tuples, 2)?);
        bare_two.push(bare(settings.tuples, 2)?);
        one.push(ours(settings.tuples, 1)?);
        bare_one.push(bare(settings.tuples, 1)?);
        if round >= settings.jvm_rounds {
            continue;
        }
        for ((rival, compiled), costs) in rivals.iter().zip(&mut rival_costs) {
            let Some(compiled) = compiled else { continue };
            costs.push(cost(rival.name(), settings.jvm_tuples, |tuples| {
                compiled.pipeline(tuples, PERIOD_MS, None)
            })?);
        }
    }
    let rate = |costs: &[Cost]| median(costs.iter().map(|cost| cost.tuples_per_second));
    let cpu = |costs: &[Cost]| median(costs.iter().map(|cost| cost.cpu_ns));
    let ratio = |ours: &[Cost], others: &[Cost], of: fn(&Cost) -> f64| {
        median(
            ours.iter()
                .zip(others)
                .map(|(ours, other)| of(ours) / of(other)),
        )
    };
    let runs = two.len();
    let mut speed = Figure::new(
        "region.pipeline.tuples_per_s",
        "tuples/s",
        AtLeast(30_000_000.0),
        Some(rate(&two)),
    )
    .runs(runs)
    .peer("one_arbiter", rate(&one))
    .peer("bare", rate(&bare_two))
    .peer("bare_one_arbiter", rate(&bare_one));
    for ((rival, _), costs) in rivals.iter().zip(&rival_costs) {
        if !costs.is_empty() {
            speed = speed.peer(rival.name(), rate(costs));
        }
    }
    figures.push(speed);
    let of_bare = ratio(&two, &bare_two, |cost| cost.tuples_per_second);
    figures.push(
        Figure::new(
            "region.pipeline.ratio_bare",
            "ratio",
            AtLeast(0.5),
            Some(of_bare),
        )
        .runs(runs)
        .peer(
            "one_arbiter",
            ratio(&one, &bare_one, |cost| cost.tuples_per_second),
        )
        .peer("cpu_ns", cpu(&two))
        .peer("bare_cpu_ns", cpu(&bare_two)),
    );
    for (((rival, _), costs), goal) in rivals.iter().zip(&rival_costs).zip([30.0, 12.0]) {
        let value = (!costs.is_empty()).then(|| ratio(&two, costs, |cost| cost.cpu_ns));
        let name = format!("region.pipeline.cpu_ratio_{}", rival.name());
        let mut figure = Figure::new(&name, "ratio", AtMost(1.0 / goal), value).runs(costs.len());
        if !costs.is_empty() {
            figure = figure
                .peer(&format!("{}_cpu_ns", rival.name()), cpu(costs))
                .peer("cpu_ns", cpu(&two))
                .peer("one_arbiter", ratio(&one, costs, |cost| cost.cpu_ns));
        }
        figures.push(figure);
    }
    Ok(())
}
