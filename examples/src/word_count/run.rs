//! One run, from the command line to the comparison.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_rt::Arbiter;
use anyhow::{Context as _, bail, ensure};
use lockkeeper_consistent_region::coordinator::{
    CoordinatorHandle, RegionCoordinator, RegionEvent, RegionState, Shape,
};
use lockkeeper_consistent_region::point::{Hook, Point};
use lockkeeper_consistent_region::worker::RegionWorker;
use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::broadcast::error::RecvError;

use super::graph::graph;
use super::options::Options;
use super::output::{Table, differences, plain_count, result};
use crate::say;
use crate::settings::Settings;
use crate::signals::Signals;

/// How counting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The whole file is counted.
    Counted,
    /// SIGTERM or Ctrl-C: everything up to a last cut is counted.
    Stopped,
}

/// Runs it; an error says what is not as it must be.
///
/// # Errors
/// A file or folder that can't be used, a region that fails, a kill that did not come, a count that
/// is not the plain count's.
pub async fn run(mut options: Options) -> anyhow::Result<()> {
    options.file = fs::canonicalize(&options.file)
        .with_context(|| format!("the text {}", options.file.display()))?;
    // before anything is started
    settings(&options)?;
    let data = folder(&options)?;
    options.data = Some(data.clone());
    if options.child {
        return count(&options, &data).await.map(|_| ());
    }
    let end = if options.kill_points.is_empty() {
        count(&options, &data).await?
    } else {
        count_in_children(&options).await?
    };
    // The signal may have come when everything was counted already.
    let is_rest = settings(&options)?.source.file.follow || !is_whole(&options, &data)?;
    if end == End::Stopped && is_rest {
        let data = data.display();
        say!("stopped with a last cut; with --data {data} it goes on from there");
        return Ok(());
    }
    compare(&options, &data)
}

fn folder(options: &Options) -> anyhow::Result<PathBuf> {
    let data = options.data.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("lockkeeper-word-count-{}", std::process::id()))
    });
    fs::create_dir_all(&data).with_context(|| data.display().to_string())?;
    Ok(data.canonicalize()?)
}

/// Coordinator and operators in this process, until the file is counted or a signal comes.
async fn count(options: &Options, data: &Path) -> anyhow::Result<End> {
    let mut signals = Signals::take()?;
    let (file, out) = (options.file.clone(), data.join("out"));
    let settings = settings(options)?;
    let (lines_per_cut, source) = (options.lines_per_cut, settings.source.file);
    let region = graph(file, lines_per_cut, source, options.width, &out)?;
    let store = settings.store.open(&data.join("store"))?;
    let hook = options.die_at.map(dies_at).unwrap_or_default();
    let shape = Shape::from(&region);
    let coordinator = settings.region.coordinator(region.name(), shape);
    let coordinator = RegionCoordinator::start_local(coordinator, Arc::clone(&store), hook.clone())
        .context("region")?;
    refuse_what_has_ended(&coordinator, data).await?;
    let mut config = settings.worker.config("worker");
    config.hook = hook;
    config.arbiters = (0..options.threads)
        .map(|_| Arbiter::new().handle())
        .collect();
    let (link, inbox) = coordinator.way().connect();
    let mut worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
    let end = follow(&coordinator, &mut signals).await?;
    worker.ended().await;
    Ok(end)
}

/// The flag is above the file and the environment.
fn settings(options: &Options) -> anyhow::Result<Settings> {
    // it is started by hand: a failure of the last time is looked at already
    let defaults = [("region.clear_failure", "true")];
    let follow = options.follow.then(|| "true".to_owned());
    let flags = [("source.file.follow", "--follow", follow)];
    Ok(Settings::of_program(
        &defaults,
        options.config.as_deref(),
        flags,
    )?)
}

/// A region whose start operators have ended has ended for good, and says no more.
async fn refuse_what_has_ended(coordinator: &CoordinatorHandle, data: &Path) -> anyhow::Result<()> {
    let mut status = coordinator.watch();
    let opened = status
        .wait_for(|status| status.state != RegionState::Opening)
        .await?;
    ensure!(
        opened.state != RegionState::Completed,
        "{} holds a count that is finished: give another --data",
        data.display()
    );
    Ok(())
}

/// Prints the cuts until the region has ended. A signal makes it end with a last cut.
async fn follow(coordinator: &CoordinatorHandle, signals: &mut Signals) -> anyhow::Result<End> {
    let mut events = coordinator.events();
    let mut end = End::Counted;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = signals.next(), if end == End::Counted => { end = stop(coordinator).await?; continue }
        };
        match event {
            Ok(RegionEvent::CutCompleted(cut)) => say!("cut {}", cut.seq),
            Ok(RegionEvent::Completed { .. }) => return Ok(end),
            Ok(RegionEvent::Failed { reason }) => bail!("the region has failed: {reason}"),
            Ok(event) => tracing::info!(?event, "region"),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => bail!("the coordinator has ended"),
        }
    }
}

async fn stop(coordinator: &CoordinatorHandle) -> anyhow::Result<End> {
    coordinator.stop().await?;
    Ok(End::Stopped)
}

/// Kills this process when it comes to `point`.
fn dies_at(point: Point) -> Hook {
    Hook::new(move |at| {
        if at == point {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    })
}

/// One process for each kill, and one that counts the rest.
async fn count_in_children(options: &Options) -> anyhow::Result<End> {
    let mut signals = Signals::take()?;
    for point in &options.kill_points {
        let Some(status) = wait(child(options, Some(*point))?, &mut signals).await? else {
            return Ok(End::Stopped);
        };
        if status.signal() == Some(Signal::KILL.as_raw()) {
            say!("killed at {point}");
        } else {
            ensure!(
                status.success(),
                "the process that counts has ended with {status}"
            );
            say!("it did not come to {point}");
            return Ok(End::Counted);
        }
    }
    match wait(child(options, None)?, &mut signals).await? {
        Some(status) if status.success() => Ok(End::Counted),
        Some(status) => bail!("the process that counts has ended with {status}"),
        None => Ok(End::Stopped),
    }
}

fn child(options: &Options, die_at: Option<Point>) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--child").arg(&options.file);
    command.arg("--data").args(&options.data);
    command
        .arg("--lines-per-cut")
        .arg(options.lines_per_cut.to_string());
    command.arg("--width").arg(options.width.to_string());
    command.arg("--threads").arg(options.threads.to_string());
    if options.follow {
        command.arg("--follow");
    }
    if let Some(config) = &options.config {
        command.arg("--config").arg(config);
    }
    if let Some(point) = die_at {
        command.arg("--die-at").arg(point.name());
    }
    Ok(command.kill_on_drop(true).spawn()?)
}

/// How the child ended; `None` when it was told to stop because this process was.
async fn wait(
    mut child: Child,
    signals: &mut Signals,
) -> anyhow::Result<Option<std::process::ExitStatus>> {
    tokio::select! {
        status = child.wait() => return Ok(Some(status?)),
        () = signals.next() => {}
    }
    if let Some(pid) = child
        .id()
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
    {
        // It may have ended just now.
        let _ = kill_process(pid, Signal::TERM);
    }
    let status = child.wait().await?;
    ensure!(
        status.success(),
        "the process that counts has ended with {status}"
    );
    Ok(None)
}

/// What the region has counted, and in how many files it stands; a text without words has none.
fn counted(data: &Path) -> anyhow::Result<(Table, usize)> {
    let out = data.join("out");
    if out.exists() {
        result(&out)
    } else {
        Ok(<_>::default())
    }
}

fn is_whole(options: &Options, data: &Path) -> anyhow::Result<bool> {
    Ok(counted(data)?.0 == plain_count(&options.file)?.0)
}

/// Prints the result, and whether it is right.
fn compare(options: &Options, data: &Path) -> anyhow::Result<()> {
    let (plain, lines) = plain_count(&options.file)?;
    let (counted, files) = counted(data)?;
    let words: u64 = counted.values().sum();
    say!(
        "{lines} lines, {words} words, {} different, in {files} files",
        counted.len(),
    );
    let mut most: Vec<_> = counted.iter().collect();
    most.sort_by(|(word, count), (other, of_other)| of_other.cmp(count).then(word.cmp(other)));
    for (word, count) in most.into_iter().take(options.top) {
        say!("{count:>8} {word}");
    }
    let wrong = differences(&counted, &plain);
    if let Some((word, region, plain)) = wrong.first() {
        bail!(
            "{} counts are wrong, the first: {word} is {region} in the region and {plain} in the file",
            wrong.len()
        );
    }
    say!("every count equals a plain count of the file");
    say!("output in {}", data.join("out").display());
    Ok(())
}
