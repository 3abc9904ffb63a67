//! A start operator that reads a message queue by offsets, such as Kafka.
//!
//! A cut holds the offset of the next message of each partition, and a reset seeks there. Nothing is kept
//! at the broker: there is no consumer group, and no other reader is disturbed. What the broker has
//! removed before it was read is noticed, and never skipped in silence.
//!
//! The partitions of a topic are divided among the instances: of `n`, instance `i` reads the partitions
//! `i`, `i + n`, and so on. Order is kept within a partition.

mod operator;
mod reading;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::bad_row::OnBadRow;
use super::canal::Mapped;
use super::change::OnSourceChange;

pub use operator::QueueSource;
pub(crate) use operator::describe;

/// Names the format of the state.
pub(crate) const STATE_TYPE: &str = "lockkeeper.queue-source";

/// A [`QueueSource`] on Kafka (feature `kafka`).
#[cfg(feature = "kafka")]
pub type KafkaSource<T> = QueueSource<T, lockkeeper_canal::mq::KafkaConsumer>;

/// What a [`QueueSource`] reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSourceConfig {
    /// The topic. Its partitions are counted at each reset: one that is added is read from then on.
    pub topic: String,
    /// Bytes that one fetch of a partition may bring. 1 MiB.
    pub fetch_bytes: usize,
    /// How long a fetch waits for a first message. 500 ms.
    pub wait: Duration,
    /// Longest pause between two attempts to reach the queue. 5 s.
    pub longest_back_off: Duration,
    /// What happens to a message that the map refuses. Positions are `PARTITION:OFFSET`.
    pub on_bad_row: OnBadRow,
    /// What happens when messages were removed before they were read, or the topic was made anew. With
    /// [`AtLeastOnce`](OnSourceChange::AtLeastOnce) reading goes on with the first message there is.
    pub on_source_change: OnSourceChange,
}

impl QueueSourceConfig {
    /// Defaults for everything but the topic.
    #[must_use]
    pub fn new(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            fetch_bytes: 1 << 20,
            wait: Duration::from_millis(500),
            longest_back_off: Duration::from_secs(5),
            on_bad_row: OnBadRow::default(),
            on_source_change: OnSourceChange::default(),
        }
    }
}

/// A message, as the map gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueMessage {
    /// The partition.
    pub partition: u32,
    /// The message's offset in it.
    pub offset: i64,
    /// Its content; `None` for a message that has none, as a compacted topic's deletions.
    pub payload: Option<Bytes>,
}

/// Makes tuples of a message; see [`QueueSource::new`].
pub type MapMessage<T> =
    Box<dyn FnMut(&QueueMessage) -> Result<Mapped<T>, Box<dyn Error + Send + Sync>> + Send>;

/// Where a message lies. Only places of one partition compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueuePlace {
    partition: u32,
    offset: i64,
}

impl QueuePlace {
    fn read(text: &str) -> Option<Self> {
        let (partition, offset) = text.split_once(':')?;
        Some(Self {
            partition: partition.parse().ok()?,
            offset: offset.parse().ok()?,
        })
    }
}

impl fmt::Display for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.offset)
    }
}

impl PartialOrd for QueuePlace {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (self.partition == other.partition).then(|| self.offset.cmp(&other.offset))
    }
}

#[cfg(test)]
mod tests;
