//! An operator panics; its region is in one process.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_rt::Arbiter;
use bench_harness::Failure;
use lockkeeper_consistent_region::prelude::*;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{LIMIT, PERIOD, next_cut, pause_before};
use crate::operators::Work;
use crate::run::{Run, Running, Until};
use crate::work::Limit;

const WANTED: &str = "as the bench wants it";

/// Makes an operator panic, and takes the time until tuples are counted again.
#[derive(Default)]
struct Fuse {
    lit: AtomicBool,
    blown: Mutex<Option<Instant>>,
}

impl Fuse {
    fn blow(&self) {
        if self.lit.load(Relaxed) && self.lit.swap(false, Relaxed) {
            *self.blown.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            panic!("{WANTED}");
        }
    }

    fn since(&self) -> Option<Duration> {
        let mut blown = self.blown.lock().unwrap_or_else(PoisonError::into_inner);
        Some(blown.take()?.elapsed())
    }
}

/// In milliseconds.
pub async fn measure(times: usize) -> Result<Vec<f64>, Failure> {
    be_quiet();
    let folder = tempfile::tempdir()?;
    let store = Arc::new(FileStore::open(folder.path())?);
    let limit = Limit::none();
    let fuse = Arc::new(Fuse::default());
    let (counted, mut counts) = mpsc::unbounded_channel();
    let mut work = Work::new(Arc::clone(&limit));
    work.before_keys = Arc::new({
        let fuse = Arc::clone(&fuse);
        move || fuse.blow()
    });
    work.first_counted = Arc::new({
        let fuse = Arc::clone(&fuse);
        move || {
            if let Some(since) = fuse.since() {
                let _ = counted.send(since);
            }
        }
    });
    let run = Run {
        until: Until::Rounds(0),
        period_ms: Some(PERIOD.as_millis() as u64),
        pad: 0,
        arbiters: 2,
    };
    let arbiters = [Arbiter::new(), Arbiter::new()];
    let mut running = Running::start(&work, &run, store, &arbiters)?;
    let mut milliseconds = Vec::new();
    for time in 0..times {
        next_cut(&running.coordinator).await?;
        tokio::time::sleep(pause_before(time)).await;
        fuse.lit.store(true, Relaxed);
        let took = timeout(LIMIT, counts.recv())
            .await?
            .ok_or("the region is gone")?;
        milliseconds.push(took.as_secs_f64() * 1e3);
    }
    limit.stop();
    running.finish().await?;
    for arbiter in arbiters {
        arbiter.stop();
    }
    match work.seen.correct(limit.numbers()) {
        true => Ok(milliseconds),
        false => Err("the counts are wrong after the panics, so their times are none".into()),
    }
}

/// Wanted panics say nothing.
fn be_quiet() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(WANTED) {
            others(panic);
        }
    }));
}
