//! Follows a region's events from before a command until its effect.

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::messages::{AdminRefused, CutTaken, RegionEnded, ResetDone};
use crate::coordinator::RegionEvent;

/// A region's events since it was made: before a command is given, so that its effect is seen.
pub(super) struct Watching(pub(super) Receiver<RegionEvent>);

impl Watching {
    /// The first cut that begins from now on, when it is complete.
    pub(super) async fn cut(mut self) -> Result<CutTaken, AdminRefused> {
        let mut begun = None;
        loop {
            match self.next().await? {
                RegionEvent::CutBegun { seq, .. } => begun = begun.or(Some(seq)),
                RegionEvent::CutCompleted(cut) if begun.is_some_and(|begun| cut.seq >= begun) => {
                    return Ok(CutTaken {
                        seq: cut.seq,
                        pause: cut.pause,
                        took: cut.took,
                        bytes: cut.bytes,
                    });
                }
                RegionEvent::CutAborted { seq, reason }
                    if begun.is_some_and(|begun| seq >= begun) =>
                {
                    return came_to_nothing(format!("cut {seq} came to nothing: {reason}"));
                }
                RegionEvent::Completed { seq } => {
                    return came_to_nothing(format!("the region has ended with cut {seq}"));
                }
                _ => {}
            }
        }
    }

    /// The first reset that begins from now on, when its operators go on.
    pub(super) async fn reset(mut self) -> Result<ResetDone, AdminRefused> {
        let mut begun = None;
        loop {
            match self.next().await? {
                RegionEvent::ResetBegun { attempt, .. } => begun = begun.or(Some(attempt)),
                RegionEvent::ResetCompleted {
                    attempt,
                    restored,
                    took,
                } if begun.is_some_and(|begun| attempt >= begun) => {
                    return Ok(ResetDone {
                        attempt,
                        restored,
                        took,
                    });
                }
                _ => {}
            }
        }
    }

    /// The cut that is kept under `name`: it was told before the command was answered.
    pub(super) async fn savepoint(&mut self, name: &str) -> Result<u64, AdminRefused> {
        loop {
            match self.next().await? {
                RegionEvent::SavepointKept { name: kept, seq } if kept == name => return Ok(seq),
                _ => {}
            }
        }
    }

    /// The region's end.
    pub(super) async fn end(mut self) -> Result<RegionEnded, AdminRefused> {
        loop {
            if let RegionEvent::Completed { seq } = self.next().await? {
                return Ok(RegionEnded { seq });
            }
        }
    }

    /// The next event; the region's failure ends every waiting.
    async fn next(&mut self) -> Result<RegionEvent, AdminRefused> {
        loop {
            match self.0.recv().await {
                Ok(RegionEvent::Failed { reason }) => {
                    return came_to_nothing(format!("the region has failed: {reason}"));
                }
                Ok(event) => return Ok(event),
                // What was missed may have been the effect: a later one, or the caller's limit,
                // ends the waiting.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(AdminRefused::LeadershipLost),
            }
        }
    }
}

fn came_to_nothing<T>(reason: String) -> Result<T, AdminRefused> {
    Err(AdminRefused::CameToNothing { reason })
}
