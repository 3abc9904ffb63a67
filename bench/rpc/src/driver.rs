//! Starts the peers' processes and runs cells in interleaved rounds.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use bench_harness::Failure;
use bench_harness::cell::{Mode, Outcome};
use bench_harness::report::{Figure, Goal, median};

use crate::program::Program;

/// A peer's server; killed when this is dropped.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    pub fn start(program: &Program, peer: &str) -> Result<Self, Failure> {
        let mut child = program
            .command("server", peer)?
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

    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is measured of every peer in a cell.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub mode: Mode,
    pub bytes: usize,
    pub in_flight: usize,
}

/// The processes of the peers, started when they are first needed.
pub struct Bench {
    peers: BTreeMap<String, Option<(Program, Server)>>,
    pub rounds: usize,
    pub seconds: f64,
}

impl Bench {
    pub fn new(rounds: usize, seconds: f64) -> Self {
        Self {
            peers: BTreeMap::new(),
            rounds,
            seconds,
        }
    }

    /// Starts a peer unless it runs; `false`, and why on stderr, when it can't be had.
    fn start(&mut self, peer: &str) -> bool {
        let started = self.peers.entry(peer.to_owned()).or_insert_with(|| {
            let started = Program::of(peer).and_then(|program| {
                let server = Server::start(&program, peer)?;
                Ok((program, server))
            });
            started
                .inspect_err(|error| eprintln!("{peer}: {error}"))
                .ok()
        });
        started.is_some()
    }

    /// Runs the cell with each of these peers, one after the other, in each round. A peer that fails
    /// is told and left out.
    pub fn rounds(&mut self, peers: &[&str], work: Work) -> Rounds {
        let mut rounds = Rounds::default();
        let mut present: Vec<&str> = peers.to_vec();
        present.retain(|peer| *peer == "actix" || self.start(peer));
        for _ in 0..self.rounds {
            present.retain(|peer| match self.client(peer, work) {
                Ok(outcome) => {
                    let outcomes = rounds.0.entry((*peer).to_owned()).or_default();
                    outcomes.push(outcome);
                    true
                }
                Err(error) => {
                    eprintln!("{peer}, {work:?}: {error}");
                    rounds.0.remove(*peer);
                    false
                }
            });
        }
        rounds
    }

    fn client(&self, peer: &str, work: Work) -> Result<Outcome, Failure> {
        let (program, address, process) = match self.peers.get(peer) {
            Some(Some((program, server))) => (program, &*server.address, server.process()),
            _ => (&Program::Own, "-", 0),
        };
        let mut command = program.command("client", peer)?;
        command.args([
            address,
            &process.to_string(),
            work.mode.name(),
            &work.bytes.to_string(),
            &work.in_flight.to_string(),
            &self.seconds.to_string(),
        ]);
        let output = command.stderr(Stdio::inherit()).output()?;
        let output = String::from_utf8(output.stdout)?;
        let line = output.lines().find_map(|line| line.strip_prefix("RESULT "));
        let outcome: Outcome = serde_json::from_str(line.ok_or("the client gave no result")?)?;
        eprintln!(
            "{peer:>17} {:>7} {:>9} B x {:<5} {:>12.0}/s  p50 {:>9.1} us  p99 {:>9.1} us  cpu {:>8.2} us",
            work.mode.name(),
            work.bytes,
            work.in_flight,
            outcome.calls_per_second,
            outcome.p50_us,
            outcome.p99_us,
            outcome.cpu_us
        );
        Ok(outcome)
    }
}

/// The outcomes of a cell by peer, those of one round at the same place.
#[derive(Default)]
pub struct Rounds(BTreeMap<String, Vec<Outcome>>);

/// What is compared of two outcomes.
pub type Of = fn(&Outcome) -> f64;

pub const RATE: Of = |outcome| outcome.calls_per_second;
pub const CPU: Of = |outcome| outcome.cpu_us;
pub const P99_MS: Of = |outcome| outcome.p99_us / 1e3;
pub const P50_MS: Of = |outcome| outcome.p50_us / 1e3;

impl Rounds {
    fn median(&self, peer: &str, of: Of) -> Option<f64> {
        self.0
            .get(peer)
            .map(|outcomes| median(outcomes.iter().map(of)))
    }

    /// The median of the rounds' ratios: what was slow for one was slow for the other.
    fn ratio(&self, peer: &str, other: &str, of: Of) -> Option<f64> {
        let pairs = self.0.get(peer)?.iter().zip(self.0.get(other)?);
        Some(median(pairs.map(|(one, other)| of(one) / of(other))))
    }

    fn figure(&self, name: &str, unit: &'static str, goal: Goal, value: Option<f64>) -> Figure {
        let runs = self.0.values().map(Vec::len).min().unwrap_or(0);
        Figure::new(name, unit, goal, value).runs(runs)
    }

    /// `peer` over `other`.
    pub fn against(&self, name: &str, peer: &str, other: &str, of: Of, goal: Goal) -> Figure {
        let ratio = self.ratio(peer, other, of);
        let mut figure = self.figure(name, "ratio", goal, ratio);
        for peer in [peer, other] {
            if let Some(value) = self.median(peer, of) {
                figure = figure.peer(peer, value);
            }
        }
        figure
    }

    /// `peer` over the best of `others`; without a goal for those that were not to be had.
    pub fn against_best(&self, name: &str, peer: &str, others: &[&str], goal: Goal) -> Figure {
        let best = others
            .iter()
            .filter_map(|other| Some((*other, self.median(other, RATE)?)))
            .max_by(|one, other| one.1.total_cmp(&other.1));
        let ratio = best.and_then(|(other, _)| self.ratio(peer, other, RATE));
        let mut figure = self.figure(name, "ratio", goal, ratio);
        for peer in others.iter().chain([&peer]) {
            if let Some(value) = self.median(peer, RATE) {
                figure = figure.peer(peer, value);
            }
        }
        figure
    }

    /// `peer` by itself.
    pub fn alone(&self, name: &str, unit: &'static str, peer: &str, of: Of, goal: Goal) -> Figure {
        self.figure(name, unit, goal, self.median(peer, of))
    }
}
