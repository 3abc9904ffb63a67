//! The hook of a process that may be told to kill or stop itself: it reads its orders on standard
//! input.
//!
//! Several processes can be armed with the same order; the one that first creates the order's token
//! file carries it out, the others go on.

use std::fs::OpenOptions;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_consistent_region::point::{Hook, Point};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use super::report::{Report, now_ms};

/// An order: kill or stop yourself when you reach `point` for the `times`-th time from now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Where, in kebab case.
    pub point: String,
    /// 1: the first time.
    pub times: u64,
    /// The file that must not exist yet: it is for who creates it.
    pub token: PathBuf,
    /// Stop (SIGSTOP) instead of dying (SIGKILL).
    pub stop: bool,
}

/// What the process was told last.
type Armed = Arc<Mutex<Option<(Point, Arm)>>>;

/// Begins to read orders and gives the hook that carries them out. `extra` sees every point too.
pub fn hook(extra: impl Fn(Point) + Send + Sync + 'static) -> Hook {
    let armed = Armed::default();
    let orders = Arc::clone(&armed);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str::<Arm>(&line) {
                Ok(order) => match order.point.parse() {
                    Ok(point) => *lock(&orders) = Some((point, order)),
                    Err(error) => tracing::error!(%error, "an order that can't be carried out"),
                },
                Err(error) => tracing::error!(%error, "an order that can't be read"),
            }
        }
        // whoever started this process is gone: nobody would end it
        signal_this_process(Signal::KILL);
    });
    Hook::new(move |point| {
        extra(point);
        match reached(&armed, point) {
            Some(Arm { stop: false, .. }) => {
                Report::kill(point).write();
                signal_this_process(Signal::KILL);
            }
            Some(Arm { stop: true, .. }) => {
                Report::stop(point).write();
                signal_this_process(Signal::STOP);
            }
            None => {}
        }
    })
}

fn lock(armed: &Armed) -> std::sync::MutexGuard<'_, Option<(Point, Arm)>> {
    armed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The order, if it is this process's turn.
fn reached(armed: &Armed, point: Point) -> Option<Arm> {
    let mut armed = lock(armed);
    let (_, order) = armed.as_mut().filter(|(at, _)| *at == point)?;
    order.times -= 1;
    if order.times > 0 {
        return None;
    }
    let (_, order) = armed.take()?;
    create_token(&order.token).then_some(order)
}

fn create_token(token: &Path) -> bool {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(token)
        .is_ok()
}

fn signal_this_process(signal: Signal) {
    // the signal takes effect before the call returns; nothing can be done if it does not
    let _ = kill_process(getpid(), signal);
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
