//! A consistent region on the work of one contract: numbers → a key for each → a count by key → a sink, beside the
//! same as four bare actors, on Flink's MiniCluster and on Hazelcast Jet.
//!
//! `cargo run --release -p bench-region` (in `bench/`) runs all parts and writes `bench/results/region.md` and
//! `region.json`; [`settings`] says what the environment sets, and `ONLY` names parts: see [`PARTS`]. A run whose counts
//! are wrong at its end gives no figure. The other roles of this program are its processes: [`program::Role`].

mod bare;
mod chain;
mod cost;
mod operators;
mod outcome;
mod pause;
mod pipeline;
mod program;
mod recovery;
mod rounds;
mod run;
mod settings;
mod state;
mod threads;
mod work;

use std::path::Path;

use bench_harness::Failure;
use bench_harness::report::{Figure, write, write_part};

use program::{Role, tell_result};
use settings::Settings;

/// A part: adds its figures.
type Part = fn(&Settings, &mut Vec<Figure>) -> Result<(), Failure>;

const PARTS: [(&str, Part); 6] = [
    ("pipeline", pipeline::figures),
    ("rounds", rounds::figures),
    ("pause", pause::figures),
    ("cost", cost::figures),
    ("state", state::figures),
    ("recovery", recovery::figures),
];

fn main() -> Result<(), Failure> {
    let role = std::env::args().nth(1);
    match role {
        None => all(),
        Some(role) => {
            let role = serde_json::from_str(&role)?;
            actix::System::new().block_on(play(role))
        }
    }
}

fn all() -> Result<(), Failure> {
    let settings = Settings::from_environment()?;
    let names = PARTS.map(|(name, _)| name);
    if let Some(unknown) = settings.unknown(&names) {
        return Err(format!(
            "ONLY: {unknown:?} is no part; the parts are {}",
            names.join(", ")
        )
        .into());
    }
    let mut figures = Vec::new();
    for (name, part) in PARTS {
        if settings.wants(name) {
            part(&settings, &mut figures)?;
        }
    }
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../results"));
    match settings.all() {
        true => write(figures, folder, "region"),
        false => write_part(figures, folder, "region"),
    }
}

async fn play(role: Role) -> Result<(), Failure> {
    match role {
        Role::Region(run) => tell_result(&run::run(&run).await?),
        Role::Bare { tuples, arbiters } => tell_result(&bare::run(tuples, arbiters).await?),
        Role::Chain {
            operators,
            rounds,
            seconds,
        } => tell_result(&chain::run(operators, rounds, seconds).await?),
        Role::Memory { mib } => tell_result(&state::memory(mib)?),
        Role::Worker { folder } => recovery::work(folder).await,
        Role::Coordinator { folder } => recovery::contend(folder).await,
    }
}
