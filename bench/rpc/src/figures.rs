//! The figures with their goals: which cells are run, and what is made of them.
//!
//! Parts, for `ONLY=NAME,…`: `asks`, `tells`, `connection`, `local`, `fenced`, `memory`, `flow`, `flink`.

use std::path::Path;
use std::str::FromStr;

use bench_harness::Failure;
use bench_harness::cell::Mode;
use bench_harness::report::Figure;
use bench_harness::report::Goal::{AtLeast, AtMost};
use bench_harness::report::{write, write_part};

use crate::driver::{Bench, CPU, P50_MS, P99_MS, RATE, Work};
use crate::{flow, idle, instructions, local, wire};

const OURS: &str = "lockkeeper";
/// With the sockets on the arbiter of the caller and of the endpoint.
const SHARED: &str = "lockkeeper-shared";
const RUST_PEERS: [&str; 4] = ["tarpc", "tonic", "ractor", "kameo"];
/// kameo's connection breaks under a thousand calls at once.
const RUST_PEERS_OF_1024: [&str; 3] = ["tarpc", "tonic", "ractor"];

fn set<T: FromStr>(name: &str, default: T) -> T {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A part: adds its figures.
type Part = fn(&mut Bench, &mut Vec<Figure>) -> Result<(), Failure>;

const PARTS: [(&str, Part); 8] = [
    ("asks", asks),
    ("tells", tells),
    ("connection", connection),
    ("local", |_, figures| {
        figures.extend(local::figures()?);
        Ok(())
    }),
    ("fenced", |_, figures| {
        figures.extend(wire::figures()?);
        figures.push(instructions::figure());
        Ok(())
    }),
    ("memory", |_, figures| {
        figures.extend(idle::figures()?);
        Ok(())
    }),
    ("flow", |_, figures| {
        figures.extend(flow::figures()?);
        Ok(())
    }),
    ("flink", flink),
];

pub fn run() -> Result<(), Failure> {
    let only: String = set("ONLY", String::new());
    let wanted = |part: &str| only.is_empty() || only.split(',').any(|name| name == part);
    let mut bench = Bench::new(set("ROUNDS", 5), set("SECONDS", 1.0));
    let mut figures = Vec::new();
    for (name, part) in PARTS {
        if wanted(name) {
            part(&mut bench, &mut figures)?;
        }
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../results");
    if only.is_empty() {
        write(figures, Path::new(folder), "rpc")
    } else {
        write_part(figures, Path::new(folder), "rpc")
    }
}

fn ask(bytes: usize, in_flight: usize) -> Work {
    Work {
        mode: Mode::Ask,
        bytes,
        in_flight,
    }
}

fn asks(bench: &mut Bench, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let with = |others: &[&'static str]| [&["raw", OURS, SHARED][..], others].concat();
    let rounds = bench.rounds(&with(&RUST_PEERS), ask(16, 1));
    figures.extend([
        rounds.against(
            "rpc.ask.16B.1.colocated.ratio_raw",
            SHARED,
            "raw",
            RATE,
            AtLeast(0.85),
        ),
        rounds.against("rpc.ask.16B.1.ratio_raw", OURS, "raw", RATE, AtLeast(0.60)),
        rounds.against_best(
            "rpc.ask.16B.1.ratio_best_peer",
            OURS,
            &RUST_PEERS,
            AtLeast(1.0),
        ),
    ]);
    let rounds = bench.rounds(&with(&RUST_PEERS), ask(16, 64));
    figures.extend([
        rounds.against(
            "rpc.ask.16B.64.ratio_raw",
            SHARED,
            "raw",
            RATE,
            AtLeast(0.60),
        ),
        rounds.against(
            "rpc.ask.16B.64.own.ratio_raw",
            OURS,
            "raw",
            RATE,
            AtLeast(0.45),
        ),
        rounds.against(
            "rpc.ask.16B.64.cpu_ratio_raw",
            SHARED,
            "raw",
            CPU,
            AtMost(1.8),
        ),
        rounds.against(
            "rpc.ask.16B.64.own.cpu_ratio_raw",
            OURS,
            "raw",
            CPU,
            AtMost(1.8),
        ),
        rounds.against_best(
            "rpc.ask.16B.64.ratio_best_peer",
            OURS,
            &RUST_PEERS,
            AtLeast(1.0),
        ),
    ]);
    let rounds = bench.rounds(&with(&RUST_PEERS_OF_1024), ask(16, 1024));
    figures.extend([
        rounds.against(
            "rpc.ask.16B.1024.ratio_raw",
            SHARED,
            "raw",
            RATE,
            AtLeast(0.60),
        ),
        rounds.against(
            "rpc.ask.16B.1024.own.ratio_raw",
            OURS,
            "raw",
            RATE,
            AtLeast(0.45),
        ),
        rounds.against_best(
            "rpc.ask.16B.1024.ratio_best_peer",
            OURS,
            &RUST_PEERS_OF_1024,
            AtLeast(1.0),
        ),
    ]);
    let rounds = bench.rounds(&with(&RUST_PEERS), ask(64 << 10, 64));
    figures.extend([
        rounds.against(
            "rpc.ask.64KiB.64.ratio_raw",
            OURS,
            "raw",
            RATE,
            AtLeast(0.9),
        ),
        rounds.against_best(
            "rpc.ask.64KiB.64.ratio_best_peer",
            OURS,
            &RUST_PEERS,
            AtLeast(1.0),
        ),
    ]);
    let rounds = bench.rounds(&with(&RUST_PEERS), ask(1 << 20, 1));
    let all = [&RUST_PEERS[..], &["raw"]].concat();
    figures.push(rounds.against_best("rpc.ask.1MiB.1.ratio_best", OURS, &all, AtLeast(0.9)));
    Ok(())
}

fn tells(bench: &mut Bench, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let work = Work {
        mode: Mode::Tell,
        bytes: 16,
        in_flight: 1,
    };
    let rounds = bench.rounds(&["actix", OURS, "ractor"], work);
    figures.extend([
        rounds.against(
            "rpc.tell.16B.ratio_actix_mailbox",
            OURS,
            "actix",
            RATE,
            AtLeast(0.7),
        ),
        rounds.against(
            "rpc.tell.16B.ratio_ractor",
            OURS,
            "ractor",
            RATE,
            AtLeast(10.0),
        ),
    ]);
    Ok(())
}

fn connection(bench: &mut Bench, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let beside = Work {
        mode: Mode::Beside,
        bytes: 63 << 20,
        in_flight: 1,
    };
    let rounds = bench.rounds(&[OURS], beside);
    figures.push(rounds.alone(
        "rpc.ask.16B.beside_63MiB.p99_ms",
        "ms",
        OURS,
        P99_MS,
        AtMost(5.0),
    ));
    let connect = Work {
        mode: Mode::Connect,
        bytes: 0,
        in_flight: 1,
    };
    let rounds = bench.rounds(&[OURS], connect);
    figures.push(rounds.alone("rpc.connect.p50_ms", "ms", OURS, P50_MS, AtMost(0.3)));
    Ok(())
}

/// Flink's compiler needs a long time to warm up: fewer rounds.
fn flink(bench: &mut Bench, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let rounds = std::mem::replace(&mut bench.rounds, set("FLINK_ROUNDS", 5));
    for (in_flight, name, cpu) in [
        (
            1,
            "rpc.ask.16B.1.ratio_flink",
            "rpc.ask.16B.1.cpu_ratio_flink",
        ),
        (
            64,
            "rpc.ask.16B.64.ratio_flink",
            "rpc.ask.16B.64.cpu_ratio_flink",
        ),
        (
            1024,
            "rpc.ask.16B.1024.ratio_flink",
            "rpc.ask.16B.1024.cpu_ratio_flink",
        ),
    ] {
        let outcomes = bench.rounds(&["flink", OURS], ask(16, in_flight));
        figures.push(outcomes.against(name, OURS, "flink", RATE, AtLeast(15.0)));
        figures.push(outcomes.against(cpu, OURS, "flink", CPU, AtMost(1.0 / 15.0)));
    }
    bench.rounds = rounds;
    Ok(())
}
