//! Measures what no test should judge: memory while a large state is written, and what an idle
//! region costs.
//!
//! ```text
//! cargo run --release --example region_measure -- state 1024   # MiB of keyed state
//! cargo run --release --example region_measure -- idle 1000    # operators, one cut a second
//! ```
//!
//! `state` prints the process's memory before, at the peak while the cut was written and a tenth of
//! all keys changed meanwhile, and how long tuples had to wait (prepare). `idle` prints the share of
//! one core over 20 s.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for people"
)]

use std::fs;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{self, Poll};
use std::thread;
use std::time::{Duration, Instant};

use actix::{Actor, Context};
use lockkeeper_consistent_region::coordinator::{
    CoordinatorSettings, RegionCoordinator, RegionEvent,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::operator::{
    Cut, Operator, OperatorError, Output, Produced, RegionHandle, StartOperator,
};
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::state::KeyedState;
use lockkeeper_consistent_region::store::{FileStore, MemoryStore, write_state};
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerConfig};

const MIB: u64 = 1 << 20;
/// Bytes of a value.
const VALUE: usize = 1_000;
const IDLE_SECONDS: u64 = 20;

#[actix::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = arguments.get(1).and_then(|text| text.parse::<u64>().ok());
    match (arguments.first().map(String::as_str), number) {
        (Some("state"), mib) => state(mib.unwrap_or(1_024)),
        (Some("idle"), operators) => idle(operators.unwrap_or(1_000)).await,
        _ => println!("usage: region_measure state [MiB] | idle [operators]"),
    }
}

/// Resident memory of the process in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

fn state(mib: u64) {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    let keys = mib * MIB / VALUE as u64;
    let mut state = KeyedState::<u64, Vec<u8>>::new();
    let began = Instant::now();
    for key in 0..keys {
        state.insert(key, vec![key.to_le_bytes()[0]; VALUE]);
    }
    let before = resident();
    println!(
        "{keys} keys of {VALUE} bytes in {:?}: {} MiB",
        began.elapsed(),
        before / MIB
    );

    let cut = Cut {
        seq: 1,
        term: 1,
        attempt: 1,
        completed: 0,
        last: false,
    };
    let began = Instant::now();
    let prepared = state.prepare(cut);
    println!("prepare: {:?}", began.elapsed());
    let write = prepared.state.unwrap();
    let written = Arc::new(AtomicBool::new(false));
    let peak = Arc::new(AtomicU64::new(0));
    let watcher = thread::spawn({
        let (written, peak) = (Arc::clone(&written), Arc::clone(&peak));
        move || {
            while !written.load(Ordering::SeqCst) {
                peak.fetch_max(resident(), Ordering::SeqCst);
                thread::park_timeout(Duration::from_millis(5));
            }
        }
    });
    let began = Instant::now();
    let writer = thread::spawn({
        let written = Arc::clone(&written);
        move || {
            let result = write_state(
                &store,
                "1.1.1.state.0",
                |to: &mut dyn Write| -> io::Result<()> { write(to) },
            );
            written.store(true, Ordering::SeqCst);
            result
        }
    });
    // Tuples go on: every tenth key changes while the cut is written.
    let mut copied = 0;
    for key in (0..keys).step_by(10) {
        state.entry(key)[0] ^= 1;
        if key % 1_000 == 0 {
            copied = copied.max(state.copied());
        }
    }
    let (object, encoding) = writer.join().unwrap().unwrap();
    watcher.join().unwrap();
    let (took, peak) = (began.elapsed(), peak.load(Ordering::SeqCst));
    println!(
        "written: {} MiB as {encoding:?} in {took:?}",
        object.length / MIB
    );
    println!(
        "peak: {} MiB, {} % above; at most {copied} of {keys} entries were there twice",
        peak / MIB,
        peak.saturating_sub(before) * 100 / before.max(1)
    );
}

struct Nothing;

impl Actor for Nothing {
    type Context = Context<Self>;
}

impl Operator for Nothing {
    type Input = ();
    type Output = ();

    fn process(&mut self, _: Vec<()>, _: &mut Output<()>) -> Result<(), OperatorError> {
        Ok(())
    }
}

impl StartOperator for Nothing {
    fn poll_produce(
        &mut self,
        _: &mut task::Context<'_>,
        _: &mut Output<()>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        Poll::Pending
    }
}

/// User and system time of the process.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut ticks = fields
        .split_whitespace()
        .skip(11)
        .map(|text| text.parse::<u64>().unwrap_or(0));
    let total = ticks.next().unwrap_or(0) + ticks.next().unwrap_or(0);
    Duration::from_millis(total * 10)
}

async fn idle(operators: u64) {
    let mut graph = Region::builder("idle");
    let source = graph.start("source", |_| Nothing);
    let mut stream = source;
    for index in 1..operators {
        stream = graph.operator(format!("inner-{index}"), stream, 1, |_| Nothing);
    }
    let region = graph.build().unwrap();
    let store = Arc::new(MemoryStore::new());
    let settings = CoordinatorSettings {
        period: Some(Duration::from_secs(1)),
        ..CoordinatorSettings::for_region(&region)
    };
    let coordinator =
        RegionCoordinator::start_local(settings, Arc::clone(&store) as _, Hook::default()).unwrap();
    let (link, inbox) = coordinator.way().connect();
    let config = WorkerConfig {
        slots: u16::MAX,
        ..WorkerConfig::new("worker")
    };
    let mut events = coordinator.events();
    let _worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
    let (mut cuts, mut began, mut before) = (0, Instant::now(), cpu_time());
    let mut took = Vec::new();
    while cuts <= IDLE_SECONDS {
        if let Ok(RegionEvent::CutCompleted(cut)) = events.recv().await {
            if cuts == 0 {
                (began, before) = (Instant::now(), cpu_time());
            } else {
                took.push(cut.took);
            }
            cuts += 1;
        }
    }
    let (wall, cpu) = (began.elapsed(), cpu_time().saturating_sub(before));
    took.sort_unstable();
    println!(
        "{operators} operators, {} cuts in {wall:?}: {cpu:?} of CPU time, {:.2} % of a core; a round \
         took {:?} (median), {:?} (longest)",
        took.len(),
        cpu.as_secs_f64() * 100.0 / wall.as_secs_f64(),
        took[took.len() / 2],
        took[took.len() - 1]
    );
}
