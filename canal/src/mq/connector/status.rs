//! What a connector to a queue shows of itself.

use std::collections::BTreeMap;

use lockkeeper_core::status::{Level, Plot, StatusKind, StatusSnapshot, StatusSource, Unit};
use tokio::sync::watch;

use crate::mq::error::MqError;

/// Why a connector has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MqEnd {
    /// It was stopped, or its last address was dropped.
    Stopped,
    /// What trying again does not repair: a bad message, an offset that the queue no longer has.
    Failed(MqError),
    /// The handler's actor is gone.
    RecipientClosed,
}

/// What a connector has done since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MqConnectorStatus {
    /// The partitions that are read.
    pub partitions: BTreeMap<u32, PartitionStatus>,
    /// Batches that were handled, and their offset kept.
    pub handled_batches: u64,
    /// Batches whose handler failed; each comes again.
    pub failed_batches: u64,
    /// Messages that could not be read and were taken by their handler.
    pub bad_messages: u64,
    /// Its end, once it has ended.
    pub end: Option<MqEnd>,
}

/// One partition's progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStatus {
    /// The offset of the next message that is to be handled.
    pub next: i64,
    /// One behind the last message, when the queue was asked last.
    pub end: i64,
    /// What the queue or the store of offsets said last, while it fails.
    pub error: Option<MqError>,
}

impl PartitionStatus {
    /// How many offsets are not handled yet.
    pub fn lag(&self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.next)).unwrap_or(0)
    }
}

/// A connector's status for a console, by [`MqConnector::status_source`].
///
/// [`MqConnector::status_source`]: super::MqConnector::status_source
#[derive(Debug)]
pub(super) struct MqStatusSource {
    pub(super) topic: String,
    pub(super) status: watch::Receiver<MqConnectorStatus>,
}

impl StatusSource for MqStatusSource {
    fn name(&self) -> String {
        format!("canal from queue {}", self.topic)
    }

    fn snapshot(&self) -> StatusSnapshot {
        let status = self.status.borrow().clone();
        let failing = |partition: &PartitionStatus| partition.error.clone();
        let failing = status.partitions.values().find_map(failing);
        let state = match (&status.end, failing) {
            (Some(MqEnd::Stopped), _) => ("stopped".to_owned(), Level::Neutral),
            (Some(MqEnd::Failed(error)), _) => (format!("failed: {error}"), Level::Bad),
            (Some(MqEnd::RecipientClosed), _) => ("handler gone".to_owned(), Level::Bad),
            (None, Some(error)) => (format!("failing: {error}"), Level::Warning),
            (None, None) => ("reading".to_owned(), Level::Good),
        };
        let unready = (state.1 != Level::Good).then(|| state.0.clone());
        let lag = status.partitions.values().map(PartitionStatus::lag);
        let mut snapshot = StatusSnapshot::new(StatusKind::Canal)
            .with_state(state.0, state.1)
            .with_unready(unready)
            .with_plot("messages behind", lag.sum::<u64>(), Unit::None, Plot::Value)
            .with("handled batches", status.handled_batches)
            .with("failed batches", status.failed_batches)
            .with("bad messages", status.bad_messages);
        for (number, partition) in &status.partitions {
            let next = u64::try_from(partition.next).unwrap_or_default();
            snapshot = snapshot.with(format!("partition {number}: next offset"), next);
        }
        snapshot
    }
}
