//! How long nobody leads: after `kill -9` of the leader and after it leaves in peace, by lease files, ZooKeeper
//! and etcd, beside Curator's `LeaderLatch` on the same ZooKeeper; and a thousand components on one service.
//!
//! `bench-fencing` runs everything; `bench-fencing node DRIVER PLACE` is one of the processes that contend.

mod components;
mod curator;
mod failover;
mod node;
mod place;
mod server;

use std::path::Path;

use bench_harness::Failure;
use bench_harness::report::{self, Figure, Goal, median};

use failover::Contenders;
use place::{DriverName, Place};

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [part, driver, place] = arguments.as_slice()
        && part == "node"
    {
        return node::run(&Place::from_arguments(driver, place)?);
    }
    let runs = number("RUNS", 50)?;
    let server = server::ZooKeeper::start()?;
    let etcd = std::env::var("LOCKKEEPER_ETCD").ok();
    let mut figures = Vec::new();
    for driver in [DriverName::File, DriverName::ZooKeeper, DriverName::Etcd] {
        let place = match driver {
            DriverName::File => Place::in_a_folder()?,
            DriverName::ZooKeeper => Place::on(driver, &server.address),
            DriverName::Etcd => match &etcd {
                Some(address) => Place::on(driver, address),
                None => {
                    figures.extend(not_measured(driver));
                    continue;
                }
            },
        };
        let ours = |_: usize| place.contender();
        let killed = failover::measure("killed", runs, Contenders::Killed, &ours)?;
        let left = failover::measure("left", runs, Contenders::Left, &ours)?;
        figures.extend(figures_of(&place, &killed, &left));
    }
    curator::beside(&mut figures, &server, runs)?;
    figures.extend(components::measure(&server)?);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    report::write(figures, &folder, "fencing")
}

fn number(name: &str, default: usize) -> Result<usize, Failure> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{name} is {text:?}, a number is needed").into()),
        Err(_) => Ok(default),
    }
}

/// The middle of both, in milliseconds. After a kill the servers' are counted from their session.
fn figures_of(place: &Place, killed: &[f64], left: &[f64]) -> [Figure; 2] {
    let name = place.driver.as_str();
    let after_kill = match place.driver {
        DriverName::File => {
            let name = format!("fencing.failover.{name}.p50_ms");
            let value = Some(median(killed.iter().copied()));
            Figure::new(&name, "ms", Goal::AtMost(200.0), value)
        }
        _ => {
            let name = format!("fencing.failover.{name}.over_session_ms");
            let value = Some(median(killed.iter().copied()) - place.session_ms());
            Figure::new(&name, "ms", Goal::AtMost(200.0), value)
        }
    };
    let value = Some(median(left.iter().copied()));
    let graceful = format!("fencing.failover.{name}.graceful_p50_ms");
    let graceful = Figure::new(&graceful, "ms", Goal::AtMost(100.0), value);
    [with_spread(after_kill, killed), with_spread(graceful, left)]
}

/// The distribution: its least, its middle, nine of ten, and its greatest.
fn with_spread(figure: Figure, values: &[f64]) -> Figure {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: usize| sorted[(sorted.len() - 1) * part / 100];
    figure
        .runs(values.len())
        .peer("min", at(0))
        .peer("p50", at(50))
        .peer("p90", at(90))
        .peer("max", at(100))
}

fn not_measured(driver: DriverName) -> [Figure; 2] {
    let name = driver.as_str();
    [("over_session_ms", 200.0), ("graceful_p50_ms", 100.0)].map(|(part, goal)| {
        let name = format!("fencing.failover.{name}.{part}");
        Figure::new(&name, "ms", Goal::AtMost(goal), None)
    })
}
