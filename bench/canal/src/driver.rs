//! Records, plays, compares.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bench_harness::report::{Figure, Goal, median, write};

use crate::client::{Drain, Mode};
use crate::frames::Batch;
use crate::java::Java;
use crate::real::Real;
use crate::{COLUMNS, Failure, frames, memory, replay};

fn variable(name: &str, otherwise: u64) -> Result<u64, Failure> {
    match std::env::var(name) {
        Ok(text) => Ok(text
            .parse()
            .map_err(|_| format!("{name} is no number: {text}"))?),
        Err(_) => Ok(otherwise),
    }
}

/// Batches with so many rows, and how many entries they have.
fn record(rows: u64) -> Result<(Arc<Vec<Batch>>, u64), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    eprintln!("recording {rows} rows");
    let batches = runtime.block_on(frames::record(rows))?;
    let entries: u64 = batches.iter().map(|batch| batch.entries.len() as u64).sum();
    let bytes: usize = batches.iter().map(|batch| batch.frame.len()).sum();
    eprintln!(
        "{} batches, {entries} entries, {} MB",
        batches.len(),
        bytes / 1_000_000
    );
    Ok((Arc::new(batches), entries))
}

/// Plays to whatever client is started by hand, for a profile of it, until it is ended.
pub fn serve() -> Result<(), Failure> {
    let (batches, entries) = record(variable("ROWS", 1_000_000)?)?;
    println!("{} {entries}", replay::start(batches)?);
    loop {
        std::thread::park();
    }
}

pub fn run() -> Result<(), Failure> {
    let (pairs, rows) = (variable("PAIRS", 5)?, variable("ROWS", 1_000_000)?);
    let (batches, entries) = record(rows)?;
    let address = replay::start(Arc::clone(&batches))?;
    let target = std::env::current_exe()?;
    let target = target.parent().unwrap_or(Path::new(".")).to_owned();
    let java = Java::compile(&target)
        .inspect_err(|error| eprintln!("without the Java client: {error}"))
        .ok();
    let ours = |mode: Mode| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["client", mode.name(), &address, &entries.to_string()]);
        result(command)
    };
    let mut figures = Vec::new();
    let (mut resident, mut raw_allocations) = (Vec::new(), Vec::new());
    for (mode, goal) in [(Mode::Typed, 1.0 / 6.0), (Mode::Raw, 0.1)] {
        let (mut mine, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 1..=pairs {
            let our = ours(mode)?;
            check(mode, &our, entries, rows)?;
            let their = java
                .as_ref()
                .map(|java| java.drain(mode, &address, entries));
            let their = their.transpose()?;
            eprintln!("{} {pair}: ours {our:?}, Java's {their:?}", mode.name());
            if let Some(their) = their {
                check(mode, &their, entries, rows)?;
                ratios.push(our.cpu / their.cpu);
                theirs.push(their.cpu);
            }
            resident.push(our.rss_mb);
            if mode == Mode::Raw {
                raw_allocations.push(our.allocations as f64 / (rows * COLUMNS) as f64);
            }
            mine.push(our.cpu);
        }
        let value = (!ratios.is_empty()).then(|| median(ratios));
        let name = format!("canal.decode.{}.cpu_ratio_java", mode.name());
        let figure = Figure::new(&name, "of Java's CPU time", Goal::AtMost(goal), value);
        let figure = figure
            .runs(theirs.len())
            .peer("lockkeeper_cpu_s", median(mine));
        figures.push(match theirs.is_empty() {
            true => figure,
            false => figure.peer("java_cpu_s", median(theirs)),
        });
    }
    let (mut speeds, mut allocations) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        let decoding = memory::decode(&batches)?;
        speeds.push(decoding.rows as f64 / decoding.cpu);
        allocations.push(decoding.allocations as f64 / (decoding.rows * COLUMNS) as f64);
    }
    let runs = speeds.len();
    let figure = |name, unit, goal, values: Vec<f64>| {
        Figure::new(name, unit, goal, Some(median(values))).runs(runs)
    };
    figures.push(figure(
        "canal.decode.typed.rows_per_s",
        "rows per second of one core",
        Goal::AtLeast(1_500_000.0),
        speeds,
    ));
    figures.push(figure(
        "canal.decode.typed.allocations_per_column",
        "allocations",
        Goal::AtMost(1.0),
        allocations,
    ));
    figures.push(figure(
        "canal.decode.raw.allocations_per_column",
        "allocations",
        Goal::AtMost(0.01),
        raw_allocations,
    ));
    figures.push(figure("canal.rss_mb", "MiB", Goal::AtMost(64.0), resident));
    figures.push(beside_the_real_server(
        pairs,
        variable("REAL_ROWS", 300_000)?,
    )?);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../results");
    write(figures, &folder, "canal")
}

fn check(mode: Mode, drain: &Drain, entries: u64, rows: u64) -> Result<(), Failure> {
    let decoded = if mode == Mode::Typed { rows } else { 0 };
    if (drain.entries, drain.rows) == (entries, decoded) {
        return Ok(());
    }
    Err(format!("{entries} entries with {decoded} rows were to come: {drain:?}").into())
}

/// What decoding adds to the wall clock where the server is the bottleneck.
fn beside_the_real_server(pairs: u64, rows: u64) -> Result<Figure, Failure> {
    let figure = |value| {
        let name = "canal.decode.typed.wall_ratio_raw";
        Figure::new(name, "of the raw drain", Goal::AtMost(1.03), value)
    };
    let Some(real) = Real::from_environment()? else {
        eprintln!("without a real server: LOCKKEEPER_CANAL and LOCKKEEPER_MYSQL are not set");
        return Ok(figure(None));
    };
    let (mut raws, mut typeds, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The server's first drains take twice as long: it compiles itself.
    for mode in [Mode::Raw, Mode::Typed] {
        eprintln!(
            "real, not counted: {} {:.3} s",
            mode.name(),
            real.drain(mode, rows)?
        );
    }
    for pair in 1..=pairs {
        // Either comes first as often as the other.
        let (raw, typed) = if pair % 2 == 0 {
            let raw = real.drain(Mode::Raw, rows)?;
            (raw, real.drain(Mode::Typed, rows)?)
        } else {
            let typed = real.drain(Mode::Typed, rows)?;
            (real.drain(Mode::Raw, rows)?, typed)
        };
        eprintln!("real {pair}: raw {raw:.3} s, typed {typed:.3} s");
        ratios.push(typed / raw);
        raws.push(raw);
        typeds.push(typed);
    }
    let runs = ratios.len();
    Ok(figure(Some(median(ratios)))
        .runs(runs)
        .peer("raw_s", median(raws))
        .peer("typed_s", median(typeds)))
}

/// Runs a client and reads what it says at its end.
pub fn result(mut command: Command) -> Result<Drain, Failure> {
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    match drained(&text) {
        Some(drain) if output.status.success() => drain,
        _ => Err(format!("{command:?} failed: {text}").into()),
    }
}

/// A client's result among what it says.
pub fn drained(text: &str) -> Option<Result<Drain, Failure>> {
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "))?;
    Some(serde_json::from_str(line).map_err(Into::into))
}
