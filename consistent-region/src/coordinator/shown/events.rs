//! A region's events in words.

use lockkeeper_core::status::{Level, StatusEvent};

use crate::coordinator::status::{RegionEvent, RegionState};

/// The event in one line; `None` for what every round says.
pub(super) fn told(event: &RegionEvent) -> Option<StatusEvent> {
    let (text, level) = match event {
        RegionEvent::State { from, to, reason } => {
            if is_routine(*from) && is_routine(*to) {
                return None;
            }
            let text = match reason {
                Some(reason) => format!("{from:?} → {to:?}: {reason}"),
                None => format!("{from:?} → {to:?}"),
            };
            (text, super::judged(*to).0)
        }
        RegionEvent::CutBegun { .. } | RegionEvent::CutCommitted { .. } => return None,
        RegionEvent::WorkerJoined { worker, .. } => (format!("{worker} has joined"), Level::Good),
        RegionEvent::WorkerLost { worker, reason } => {
            (format!("{worker} is lost: {reason}"), Level::Bad)
        }
        RegionEvent::CutCompleted(cut) => (
            format!("cut {} is complete after {:.0?}", cut.seq, cut.took),
            Level::Neutral,
        ),
        RegionEvent::CutAborted { seq, reason } => (
            format!("cut {seq} came to nothing: {reason}"),
            Level::Warning,
        ),
        RegionEvent::ResetBegun { attempt, reason } => {
            (format!("reset {attempt}: {reason}"), Level::Warning)
        }
        RegionEvent::ResetCompleted {
            attempt,
            restored,
            took,
        } => (
            format!("reset {attempt} is done after {took:.0?}: back at cut {restored}"),
            Level::Good,
        ),
        RegionEvent::WentOnWithoutReset { seq } => (
            format!("a new coordinator goes on with cut {seq}, without a reset"),
            Level::Good,
        ),
        RegionEvent::SourcesPaused => ("the sources are paused".to_owned(), Level::Warning),
        RegionEvent::SourcesResumed => ("the sources go on".to_owned(), Level::Good),
        RegionEvent::SavepointKept { name, seq } => {
            (format!("savepoint {name} holds cut {seq}"), Level::Good)
        }
        RegionEvent::SavepointRestored { seq } => (
            format!("back to the savepoint of cut {seq}"),
            Level::Warning,
        ),
        RegionEvent::FellBack { from, reason } => (
            format!("cut {from} can't be read, an older one is used: {reason}"),
            Level::Warning,
        ),
        RegionEvent::StoreFailed { reason } => (format!("the store failed: {reason}"), Level::Bad),
        RegionEvent::NoCut { since, state } => (
            format!("no cut has completed for {since:.0?}, in {state:?}"),
            Level::Warning,
        ),
        RegionEvent::Failed { reason } => (format!("failed: {reason}"), Level::Bad),
        RegionEvent::Completed { seq } => (format!("completed with cut {seq}"), Level::Good),
    };
    Some(StatusEvent::now(text).with_level(level))
}

/// The states of a region that takes one cut after another.
fn is_routine(state: RegionState) -> bool {
    matches!(
        state,
        RegionState::Processing | RegionState::Draining | RegionState::CheckpointPending
    )
}
