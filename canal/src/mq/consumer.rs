//! The seam to a queue that is read from.

use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::error::MqError;

/// A queue that is read from, by offsets that the reader keeps. Kafka's is
/// `KafkaConsumer`; an implementation for another queue has to pass the
/// tests in `testing::contract`.
pub trait MqConsumer: Send + Sync + 'static {
    /// How many partitions a topic has, numbered from 0.
    ///
    /// # Errors
    /// [`MqError::UnknownTopic`], [`MqError::Unavailable`], [`MqError::Refused`].
    fn partitions(&self, topic: &str) -> impl Future<Output = Result<u32, MqError>> + Send;

    /// The offset of the first message that a partition still has, and one behind its last.
    ///
    /// # Errors
    /// As [`partitions`](Self::partitions), and [`MqError::UnknownPartition`].
    fn range(
        &self,
        topic: &str,
        partition: u32,
    ) -> impl Future<Output = Result<Range<i64>, MqError>> + Send;

    /// Messages of a partition from an offset on, in order: at least one if there is one, however
    /// large, and no more than fit into `limits`. Waits for one as long as `limits` say, and gives
    /// none then.
    ///
    /// # Errors
    /// As [`range`](Self::range), and [`MqError::OffsetOutOfRange`] for an offset that is neither
    /// of a message that is there nor the end.
    fn fetch(
        &self,
        topic: &str,
        partition: u32,
        from: i64,
        limits: FetchLimits,
    ) -> impl Future<Output = Result<Fetched, MqError>> + Send;
}

/// How much one fetch may bring, and how long it may wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchLimits {
    /// Bytes of all messages together; one message may be larger.
    pub bytes: usize,
    /// How long to wait for the first message.
    pub wait: Duration,
}

impl FetchLimits {
    /// These limits.
    pub fn new(bytes: usize, wait: Duration) -> Self {
        Self { bytes, wait }
    }
}

/// What a fetch has brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Fetched {
    /// The messages, by growing offsets. There may be holes: compaction, markers of transactions.
    pub messages: Vec<ReceivedMessage>,
    /// One behind the partition's last message.
    pub end: i64,
}

impl Fetched {
    /// These messages of a partition that ends at `end`.
    pub fn new(messages: Vec<ReceivedMessage>, end: i64) -> Self {
        Self { messages, end }
    }
}

/// One message of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// Its offset.
    pub offset: i64,
    /// Its content; `None` for a message that has none, as a compacted topic's deletions.
    pub payload: Option<Bytes>,
}

impl ReceivedMessage {
    /// A message.
    pub fn new(offset: i64, payload: Option<Bytes>) -> Self {
        Self { offset, payload }
    }
}
