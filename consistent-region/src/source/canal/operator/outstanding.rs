//! What waits to be acknowledged: when a cut is asked for because of it, and what goes when.

use std::time::{Duration, Instant};

use lockkeeper_canal::{BatchId, Message};

use super::super::fetch::{Fetching, Order};
use super::super::shown::Taken;
use super::CanalSource;
use crate::operator::{RegionHandle, Tuple};

/// A cut is asked for when the server's buffer is filled this far with what is unacknowledged.
const BUFFER_SHARE_PERCENT: u64 = 40;
/// A wish for a cut is repeated after this time if no cut has come: its message may be lost.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A batch that waits to be acknowledged.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) batch: BatchId,
    entries: u64,
    bytes: u64,
    since: Instant,
}

impl From<&Message> for Outstanding {
    fn from(message: &Message) -> Self {
        Self {
            batch: message.id(),
            entries: message.len() as u64,
            bytes: message.bytes() as u64,
            since: Instant::now(),
        }
    }
}

impl<T: Tuple> CanalSource<T> {
    /// Asks for a cut when the server's buffer fills up.
    pub(super) fn watch_buffer(&mut self, region: &RegionHandle) {
        let bytes: u64 = self.outstanding.iter().map(|batch| batch.bytes).sum();
        let entries: u64 = self.outstanding.iter().map(|batch| batch.entries).sum();
        let share = |full: u64| full.saturating_mul(BUFFER_SHARE_PERCENT) / 100;
        if entries >= share(self.config.server_buffer_entries)
            || bytes >= share(self.config.server_buffer_bytes)
        {
            self.want_cut(region);
        }
    }

    pub(super) fn want_cut(&mut self, region: &RegionHandle) {
        if self
            .asked_for_cut
            .is_some_and(|asked| asked.elapsed() < ASK_AGAIN)
        {
            return;
        }
        self.asked_for_cut = Some(Instant::now());
        region.want_cut();
    }

    /// What the last cut covers, but no batch that goes on behind the region's end.
    pub(super) fn last_batch(&self, seq: u64) -> Option<BatchId> {
        if self.spooling.is_some() {
            // They are acknowledged when they are spooled.
            return None;
        }
        let batch = self.intake.acknowledgeable(seq)?;
        if self.cut_short != Some(batch) {
            return Some(batch);
        }
        let batches = self.outstanding.iter().map(|outstanding| outstanding.batch);
        batches.filter(|before| *before < batch).max()
    }

    /// Forgets what the server has confirmed.
    pub(super) fn take_note(&mut self) {
        let Some(batch) = self.fetching.as_mut().and_then(Fetching::newly_confirmed) else {
            return;
        };
        self.intake.acknowledged(&batch, self.oldest_retained);
        self.outstanding
            .retain(|outstanding| outstanding.batch > batch);
        self.show();
    }

    pub(super) fn acknowledge(&mut self) {
        if self.spooling.is_some() {
            let needed_from = self.intake.history().end_of_cut(self.oldest_retained);
            if let (Some(index), Some(fetching)) = (needed_from, &self.fetching) {
                // a task that has ended has said why
                let _ = fetching.orders.send(Order::Forget(index));
            }
            return;
        }
        if let (Some(batch), Some(fetching)) = (
            self.intake.acknowledgeable(self.oldest_retained),
            &self.fetching,
        ) {
            fetching.acknowledge(batch);
        }
    }

    /// Shows how far it is.
    pub(super) fn show(&self) {
        let taken = Taken {
            position: self.position.clone(),
            changes: self.intake.history().end(),
            outstanding_batches: self.outstanding.len(),
            oldest_since: self.outstanding.first().map(|batch| batch.since),
            replaying: self.intake.is_replaying(),
            source_changes: self.changes,
        };
        self.shown.takes(taken, self.ended);
    }
}
