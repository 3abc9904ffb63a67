//! What a process of the cluster is told on its standard input: to kill or stop itself at a named
//! point, to end the region with a final cut, or to end itself.
//!
//! Several processes can be armed with the same order; the one that first creates the order's token
//! file carries it out, the others go on.

use std::fs::OpenOptions;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_consistent_region::point::{Hook, Point};
use nix::sys::signal::raise;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use super::report::{Report, now_ms};

/// A line on a process's standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Kill or stop yourself.
    Arm(Arm),
    /// Take a final cut and end the region; it can be started again from there.
    Finish,
    /// Close your endpoints and end: the region has ended.
    End,
    /// Do something with a part of the process, and tell what came of it.
    Act(Act),
}

/// Something that is done with a part of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The answer has it too.
    pub number: u64,
    /// The part's name.
    pub source: String,
    /// The action's name.
    pub action: String,
}

/// Kill or stop yourself when you reach `point` for the `times`-th time from now.
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

/// The orders of this process, carried out or to be carried out.
#[derive(Debug)]
pub struct Orders {
    /// Kills and stops the process where it was told to.
    pub hook: Hook,
    /// Becomes true when the region is to end.
    pub finish: watch::Receiver<bool>,
    /// What is to be done with parts of the process.
    pub acts: mpsc::UnboundedReceiver<Act>,
    /// Becomes true when the process is to end.
    pub end: watch::Receiver<bool>,
}

/// Begins to read orders. `extra` sees every point that the hook sees.
pub fn read_orders(extra: impl Fn(Point) + Send + Sync + 'static) -> Orders {
    let armed = Armed::default();
    let orders = Arc::clone(&armed);
    let (finish_sender, finish) = watch::channel(false);
    let (act_sender, acts) = mpsc::unbounded_channel();
    let (end_sender, end) = watch::channel(false);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            match serde_json::from_str(&line) {
                Ok(Order::Finish) => {
                    finish_sender.send_replace(true);
                }
                Ok(Order::Act(act)) => {
                    // A process that tells nothing does nothing.
                    let _ = act_sender.send(act);
                }
                Ok(Order::End) => {
                    end_sender.send_replace(true);
                }
                Ok(Order::Arm(order)) => match order.point.parse() {
                    Ok(point) => *lock(&orders) = Some((point, order)),
                    Err(error) => tracing::error!(%error, "an order that can't be carried out"),
                },
                Err(error) => tracing::error!(%error, "an order that can't be read"),
            }
        }
        // whoever started this process is gone: nobody would end it
        kill_this_process();
    });
    let hook = Hook::new(move |point| {
        extra(point);
        match reached(&armed, point) {
            Some(Arm { stop: false, .. }) => {
                Report::kill(point).write();
                kill_this_process();
            }
            Some(Arm { stop: true, .. }) => {
                Report::stop(point).write();
                stop_this_thread_and_process();
            }
            None => {}
        }
    });
    Orders {
        hook,
        finish,
        acts,
        end,
    }
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

fn kill_this_process() {
    // takes effect on every thread before the call returns; nothing can be done if it does not
    let _ = kill_process(getpid(), Signal::KILL);
}

/// The calling thread goes no step further: a stop of the process might be taken by another thread,
/// and this one would go on for a moment.
fn stop_this_thread_and_process() {
    let _ = raise(nix::sys::signal::Signal::SIGSTOP);
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
