//! Large state by itself: how fast 100 MB of it are written, beside `dd` on the same disk, and how much memory a
//! gibibyte needs while it is written and changes.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bench_harness::Failure;
use bench_harness::report::Goal::{AtLeast, AtMost};
use bench_harness::report::{Figure, median};
use lockkeeper_consistent_region::operator::{Cut, WriteState};
use lockkeeper_consistent_region::state::KeyedState;
use lockkeeper_consistent_region::store::{CheckpointStore, Compression, FileStore, write_state};
use serde::{Deserialize, Serialize};

use crate::operators::{Counted, Padded};
use crate::program::Role;
use crate::settings::Settings;
use crate::work::KEYS;

const MIB: u64 = 1 << 20;
const PAD: usize = 1_000;

fn cut(seq: u64) -> Cut {
    Cut {
        seq,
        term: 1,
        attempt: 1,
        completed: 0,
        last: false,
    }
}

fn filled(keys: u64) -> KeyedState<u64, Padded> {
    let mut state = KeyedState::new();
    for key in 0..keys {
        state.insert(key, Padded::new(key, PAD));
    }
    state
}

fn prepared(state: &mut KeyedState<u64, Padded>, seq: u64) -> Result<WriteState, Failure> {
    state.prepare(cut(seq)).state.ok_or("no state".into())
}

pub fn figures(settings: &Settings, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    figures.push(beside_dd(settings.rounds)?);
    let memory: Memory = Role::Memory { mib: 1_024 }.result()?;
    let above = (memory.peak - memory.before) as f64 / memory.before as f64 * 100.0;
    let mib = |bytes: u64| bytes as f64 / MIB as f64;
    figures.push(
        // A tenth of the entries changes meanwhile, and is there twice; the allocator adds to that.
        Figure::new(
            "region.state.1gib.memory_percent",
            "% above the state",
            AtMost(25.0),
            Some(above),
        )
        .runs(1)
        .peer("before_mib", mib(memory.before))
        .peer("peak_mib", mib(memory.peak))
        .peer("prepare_ms", memory.prepare_ms),
    );
    Ok(())
}

/// The same number of bytes into the same folder, flushed by both, in turn.
fn beside_dd(rounds: usize) -> Result<Figure, Failure> {
    let folder = tempfile::tempdir()?;
    let store = FileStore::open(folder.path())?.with_compression(Compression::Off);
    let mut state = filled(KEYS);
    let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
    for round in 1..=rounds as u64 {
        let write = prepared(&mut state, round)?;
        let name = format!("{round}.1.1.state.0");
        let began = Instant::now();
        let (written, _) = write_state(&store, &name, write)?;
        let our = written.length as f64 / began.elapsed().as_secs_f64() / 1e6;
        let their = dd(&folder.path().join("dd"), written.length)?;
        store.remove_object(&name)?;
        eprintln!(
            "write {} bytes: {our:.0} MB/s, dd {their:.0} MB/s",
            written.length
        );
        ratios.push(our / their);
        ours.push(our);
        theirs.push(their);
    }
    let figure = Figure::new(
        "region.write.ratio_dd",
        "ratio",
        AtLeast(0.9),
        Some(median(ratios)),
    );
    Ok(figure
        .runs(rounds)
        .peer("mb_per_s", median(ours))
        .peer("dd_mb_per_s", median(theirs)))
}

/// MB a second.
fn dd(file: &Path, bytes: u64) -> Result<f64, Failure> {
    let began = Instant::now();
    let status = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "iflag=count_bytes", "conv=fsync"])
        .arg(format!("of={}", file.display()))
        .arg(format!("count={bytes}"))
        .stderr(Stdio::null())
        .status()?;
    let seconds = began.elapsed().as_secs_f64();
    std::fs::remove_file(file)?;
    match status.success() {
        true => Ok(bytes as f64 / seconds / 1e6),
        false => Err(format!("dd failed: {status}").into()),
    }
}

/// Resident memory in bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Memory {
    before: u64,
    peak: u64,
    prepare_ms: f64,
}

/// Writes state of so many MiB while every tenth key changes.
pub fn memory(mib: u64) -> Result<Memory, Failure> {
    let folder = tempfile::tempdir()?;
    let store = FileStore::open(folder.path())?.with_compression(Compression::Off);
    let keys = mib * MIB / PAD as u64;
    let mut state = filled(keys);
    let before = resident()?;
    let began = Instant::now();
    let write = prepared(&mut state, 1)?;
    let prepare_ms = began.elapsed().as_secs_f64() * 1e3;
    let written = Arc::new(AtomicBool::new(false));
    let peak = Arc::new(AtomicU64::new(before));
    let watcher = std::thread::spawn({
        let (written, peak) = (Arc::clone(&written), Arc::clone(&peak));
        move || -> io::Result<()> {
            while !written.load(SeqCst) {
                peak.fetch_max(resident()?, SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        }
    });
    let writer = std::thread::spawn(move || {
        let result = write_state(&store, "1.1.1.state.0", write);
        written.store(true, SeqCst);
        result
    });
    for key in (0..keys).step_by(10) {
        state.entry_with(key, || Padded::new(key, PAD)).count();
    }
    writer.join().map_err(|_| "the writer panicked")??;
    watcher.join().map_err(|_| "the watcher panicked")??;
    Ok(Memory {
        before,
        peak: peak.load(SeqCst),
        prepare_ms,
    })
}

fn resident() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1_024)
        .ok_or_else(|| io::Error::other("no VmRSS in /proc/self/status"))
}
