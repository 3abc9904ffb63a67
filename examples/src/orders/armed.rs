//! The hook of a process that may be told to kill itself: it reads its orders on standard input.
//!
//! Several processes can be armed with the same kill; the one that first creates the kill's token
//! file dies, the others live on.

use std::fs::OpenOptions;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_consistent_region::point::{Hook, Point};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use super::report::{Report, now_ms};

/// An order: kill yourself when you reach `point` for the `times`-th time from now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Where, in kebab case.
    pub point: String,
    /// 1: the first time.
    pub times: u64,
    /// The file that must not exist yet: who creates it dies.
    pub token: PathBuf,
}

/// What the process was told last.
type Armed = Arc<Mutex<Option<(Point, u64, PathBuf)>>>;

/// Begins to read orders and gives the hook that carries them out. `extra` sees every point too.
pub fn hook(extra: impl Fn(Point) + Send + Sync + 'static) -> Hook {
    let armed = Armed::default();
    let orders = Arc::clone(&armed);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str::<Arm>(&line) {
                Ok(order) => match order.point.parse() {
                    Ok(point) => set(&orders, Some((point, order.times, order.token))),
                    Err(error) => tracing::error!(%error, "an order that can't be carried out"),
                },
                Err(error) => tracing::error!(%error, "an order that can't be read"),
            }
        }
        // whoever started this process is gone: nobody would end it
        kill_this_process();
    });
    Hook::new(move |point| {
        extra(point);
        if reached(&armed, point) {
            Report::kill(point).write();
            kill_this_process();
        }
    })
}

fn set(armed: &Armed, order: Option<(Point, u64, PathBuf)>) {
    *armed.lock().unwrap_or_else(PoisonError::into_inner) = order;
}

/// Whether it is this process's turn to die.
fn reached(armed: &Armed, point: Point) -> bool {
    let mut armed = armed.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *armed {
        Some((at, times, token)) if *at == point => {
            *times -= 1;
            if *times > 0 {
                return false;
            }
            let won = create_token(token);
            *armed = None;
            won
        }
        _ => false,
    }
}

fn create_token(token: &Path) -> bool {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(token)
        .is_ok()
}

fn kill_this_process() {
    // the signal takes effect before the call returns; nothing can be done if it does not
    let _ = kill_process(getpid(), Signal::KILL);
}

/// A watcher of points that reports when the source has subscribed and when it emits after a reset.
pub fn report_source() -> impl Fn(Point) + Send + Sync + 'static {
    let state = Mutex::new((false, true));
    move |point| {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        match point {
            Point::BetweenCheckAndGet if !state.0 => {
                state.0 = true;
                Report::Subscribed.write();
            }
            Point::DuringReset => state.1 = true,
            Point::Emitting if state.1 => {
                state.1 = false;
                Report::SourceEmits { at: now_ms() }.write();
            }
            _ => {}
        }
    }
}
