//! How long until tuples are counted again after a failure at full speed: a panic of an operator, `kill -9` of the
//! worker's process; and until a new round is complete after `kill -9` of the coordinator's.

mod coordinator;
mod panic;
mod said;
mod worker;

pub use coordinator::contend;
pub use worker::work;

use std::time::Duration;

use bench_harness::Failure;
use bench_harness::report::Goal::AtMost;
use bench_harness::report::{Figure, percentile};
use lockkeeper_consistent_region::prelude::*;
use lockkeeper_fencing::election::ComponentId;
use tokio::time::timeout;

use crate::program::Rival;
use crate::settings::Settings;

/// Between two cuts: what is counted again lies within one, and a coordinator's new round waits for one.
const PERIOD: Duration = Duration::from_millis(200);
/// Against a hang.
const LIMIT: Duration = Duration::from_secs(60);
/// Where the rivals' map throws: checkpoints and the compiler have had their time.
const RIVAL_TUPLES: u64 = 6_000_000;
const RIVAL_FAILS_AT: u64 = 4_000_000;

fn component() -> Result<ComponentId, Failure> {
    Ok(ComponentId::new("bench")?)
}

/// So long after a completed round is killed, another place between two rounds each time.
fn pause_before(kill: usize) -> Duration {
    let part = u32::try_from(kill * 37 % 100).unwrap_or_default();
    PERIOD * part / 100
}

/// Waits for a cut that completes from now on.
async fn next_cut(coordinator: &CoordinatorHandle) -> Result<(), Failure> {
    let mut events = coordinator.events();
    let cut = async {
        while !matches!(events.recv().await?, RegionEvent::CutCompleted(_)) {}
        Ok(())
    };
    timeout(LIMIT, cut)
        .await
        .map_err(|_| format!("no cut was complete within {LIMIT:?}"))?
}

pub fn figures(settings: &Settings, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let kills = settings.kills;
    let system = actix::System::new();
    let panicked = system.block_on(panic::measure(kills))?;
    let mut after_panic = figure("region.recovery.panic.p50_ms", 100.0, &panicked);
    for rival in [Rival::Flink, Rival::Jet] {
        let Some(compiled) = rival.compiled() else {
            continue;
        };
        let run = compiled.pipeline(RIVAL_TUPLES, 1_000, Some(RIVAL_FAILS_AT))?;
        if run.correct {
            after_panic = after_panic.peer(rival.name(), run.failover_ms);
        }
    }
    figures.push(after_panic);
    let killed = system.block_on(worker::measure(kills))?;
    figures.push(figure("region.recovery.kill9.p50_ms", 1_000.0, &killed));
    let orphaned = system.block_on(coordinator::measure(kills))?;
    figures.push(figure(
        "region.recovery.coordinator.p50_ms",
        1_000.0,
        &orphaned,
    ));
    Ok(())
}

fn figure(name: &str, goal: f64, times: &[f64]) -> Figure {
    let middle = percentile(times, 0.5);
    eprintln!("{name}: {middle:.1}, at most {:.1}", percentile(times, 1.0));
    Figure::new(name, "ms", AtMost(goal), Some(middle))
        .runs(times.len())
        .peer("min", percentile(times, 0.0))
        .peer("max", percentile(times, 1.0))
}
