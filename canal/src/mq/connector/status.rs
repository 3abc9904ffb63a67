//! What a connector to a queue shows of itself.

use std::collections::BTreeMap;

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
