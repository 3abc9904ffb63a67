//! Starts the processes, runs the cells in interleaved pairs, and makes figures of them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Failure;
use crate::cell::{Mode, Outcome};
use crate::report::{Figure, Goal, median, write};

/// A peer's server; killed when this is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(peer: &str) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["server", peer])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let mut lines = BufReader::new(output).lines();
        let address = loop {
            let line = lines.next().ok_or("the server ended")??;
            if let Some(address) = line.strip_prefix("READY ") {
                break address.to_owned();
            }
        };
        Ok(Self { child, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Bench {
    raw: Server,
    ours: Server,
    pairs: usize,
    seconds: f64,
}

/// The outcomes of both sides of a cell.
struct Pairs {
    ours: Vec<Outcome>,
    other: Vec<Outcome>,
}

impl Pairs {
    fn median(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
        median(outcomes.iter().map(of))
    }

    /// The median of the pairs' ratios: what was slow for one was slow for the other.
    fn ratio(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        median(
            self.ours
                .iter()
                .zip(&self.other)
                .map(|(ours, other)| of(ours) / of(other)),
        )
    }

    fn figure(&self, name: &str, other: &str, goal: Goal) -> Figure {
        let rate = |it: &Outcome| it.calls_per_second;
        Figure::new(name, "of calls/s", goal, Some(self.ratio(rate)))
            .runs(self.ours.len())
            .peer("lockkeeper", Self::median(&self.ours, rate))
            .peer(other, Self::median(&self.other, rate))
    }
}

impl Bench {
    fn client(
        &self,
        peer: &str,
        mode: Mode,
        bytes: usize,
        in_flight: usize,
    ) -> Result<Outcome, Failure> {
        let (address, pid) = match peer {
            "raw" => (&*self.raw.address, self.raw.child.id()),
            "lockkeeper" => (&*self.ours.address, self.ours.child.id()),
            _ => ("-", 0),
        };
        let output = Command::new(std::env::current_exe()?)
            .args(["client", peer, address])
            .args([
                pid.to_string(),
                mode.name().to_owned(),
                bytes.to_string(),
                in_flight.to_string(),
            ])
            .arg(self.seconds.to_string())
            .stderr(Stdio::inherit())
            .output()?;
        let output = String::from_utf8(output.stdout)?;
        let line = output.lines().find_map(|line| line.strip_prefix("RESULT "));
        let outcome: Outcome = serde_json::from_str(line.ok_or("the client gave no result")?)?;
        eprintln!(
            "{peer:>10} {:>7} {bytes:>9} B x {in_flight:<5} {:>12.0}/s  p50 {:>9.1} us  p99 {:>9.1} us  cpu {:>7.2} us",
            mode.name(),
            outcome.calls_per_second,
            outcome.p50_us,
            outcome.p99_us,
            outcome.cpu_us
        );
        Ok(outcome)
    }

    fn pairs(
        &self,
        other: &str,
        mode: Mode,
        bytes: usize,
        in_flight: usize,
    ) -> Result<Pairs, Failure> {
        let mut pairs = Pairs {
            ours: Vec::new(),
            other: Vec::new(),
        };
        for _ in 0..self.pairs {
            pairs
                .other
                .push(self.client(other, mode, bytes, in_flight)?);
            pairs
                .ours
                .push(self.client("lockkeeper", mode, bytes, in_flight)?);
        }
        Ok(pairs)
    }
}

fn set<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

pub fn run() -> Result<(), Failure> {
    let bench = Bench {
        raw: Server::start("raw")?,
        ours: Server::start("lockkeeper")?,
        pairs: set("PAIRS", 5),
        seconds: set("SECONDS", 1.0),
    };
    use Goal::{AtLeast, AtMost};
    let mut figures = Vec::new();
    // A service has its I/O thread for itself: sharing one with its endpoints is not built.
    for (name, goal) in [
        ("rpc.ask.16B.1.colocated.ratio_raw", 0.85),
        ("rpc.ask.16B.64.ratio_raw", 0.60),
        ("rpc.ask.16B.1024.ratio_raw", 0.60),
    ] {
        figures.push(Figure::new(name, "of calls/s", AtLeast(goal), None));
    }
    for (in_flight, name, goal) in [
        (1, "rpc.ask.16B.1.ratio_raw", 0.60),
        (64, "rpc.ask.16B.64.own.ratio_raw", 0.45),
        (1024, "rpc.ask.16B.1024.own.ratio_raw", 0.45),
    ] {
        let pairs = bench.pairs("raw", Mode::Ask, 16, in_flight)?;
        figures.push(pairs.figure(name, "raw", AtLeast(goal)));
        if in_flight == 64 {
            let cpu = |it: &Outcome| it.cpu_us;
            let figure = Figure::new(
                "rpc.ask.16B.64.cpu_ratio_raw",
                "of cpu/call",
                AtMost(1.8),
                Some(pairs.ratio(cpu)),
            );
            figures.push(
                figure
                    .runs(bench.pairs)
                    .peer("lockkeeper", Pairs::median(&pairs.ours, cpu))
                    .peer("raw", Pairs::median(&pairs.other, cpu)),
            );
        }
    }
    let pairs = bench.pairs("actix", Mode::Tell, 16, 1)?;
    figures.push(pairs.figure("rpc.tell.16B.ratio_actix_mailbox", "actix", AtLeast(0.7)));
    let pairs = bench.pairs("raw", Mode::Ask, 64 << 10, 64)?;
    figures.push(pairs.figure("rpc.ask.64KiB.64.ratio_raw", "raw", AtLeast(0.9)));
    // The other peers are still to come: raw is the best that there is.
    let pairs = bench.pairs("raw", Mode::Ask, 1 << 20, 1)?;
    figures.push(pairs.figure("rpc.ask.1MiB.1.ratio_best", "raw", AtLeast(0.9)));
    let mut lonely = |name, mode, bytes, goal, of: fn(&Outcome) -> f64| -> Result<(), Failure> {
        let outcomes: Result<Vec<_>, _> = (0..bench.pairs)
            .map(|_| bench.client("lockkeeper", mode, bytes, 1))
            .collect();
        let value = Pairs::median(&outcomes?, of);
        figures.push(Figure::new(name, "ms", AtMost(goal), Some(value)).runs(bench.pairs));
        Ok(())
    };
    lonely(
        "rpc.ask.16B.beside_63MiB.p99_ms",
        Mode::Beside,
        63 << 20,
        5.0,
        |it| it.p99_us / 1e3,
    )?;
    lonely("rpc.connect.p50_ms", Mode::Connect, 0, 0.3, |it| {
        it.p50_us / 1e3
    })?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../results");
    write(&figures, Path::new(folder), "rpc")
}
