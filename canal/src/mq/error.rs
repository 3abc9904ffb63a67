//! What can go wrong between a batch and a message queue.

use crate::error::CanalError;

/// An error of the queue's side, by what the caller can do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MqError {
    /// The queue does not answer, or has no leader for the partition now. Whether what was sent has
    /// arrived is unknown: it is sent again.
    #[error("the message queue does not answer: {0}")]
    Unavailable(String),
    /// The topic is not there, and the queue does not make it by itself. Create it.
    #[error("the message queue has no topic `{0}`: create it, or let the broker create topics")]
    UnknownTopic(String),
    /// The routing names a partition that the topic does not have.
    #[error("topic `{topic}` has {partitions} partitions: there is no partition {partition}")]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The partition that was asked for.
        partition: u32,
        /// How many the topic has.
        partitions: u32,
    },
    /// One row alone is above the limit of a message; nothing of its batch that comes after it was
    /// sent. Raise the limit here and at the broker, or leave the table out of the filter.
    #[error(
        "a message for topic `{topic}` of {what} needs {bytes} bytes, above the limit of {limit}; \
         raise `message_limit` and the broker's limit, or leave the table out"
    )]
    MessageTooLarge {
        /// The topic.
        topic: String,
        /// The table and the place in the binlog.
        what: String,
        /// Bytes of the smallest message that holds the row.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The queue no longer has, or not yet, the place to read from: its retention has removed
    /// messages that were not read, or the topic was made anew. Nothing is skipped: set the offset
    /// in the store by hand, knowing what is missing.
    #[error(
        "topic `{topic}` partition {partition} has messages {earliest} to {end}, not {offset}: \
         messages were removed before they were read, or the topic was made anew"
    )]
    OffsetOutOfRange {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// Where reading was to go on.
        offset: i64,
        /// The first message there is.
        earliest: i64,
        /// One behind the last.
        end: i64,
    },
    /// A message that is neither of Canal's forms, or above the limit.
    #[error("message {offset} of topic `{topic}` partition {partition} cannot be read: {reason}")]
    BadMessage {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u32,
        /// The message's offset.
        offset: i64,
        /// What is wrong with it.
        reason: String,
    },
    /// An entry of a batch cannot be turned into a message.
    #[error("an entry cannot be forwarded: {0}")]
    BadEntry(String),
    /// An earlier batch of the same epoch was not forwarded: this one would overtake it. It comes
    /// again, behind the other.
    #[error("batch {batch} would overtake one that was not forwarded: both come again")]
    Overtaking {
        /// The batch that was refused.
        batch: crate::BatchId,
    },
    /// The store of offsets failed.
    #[error("the store of offsets: {0}")]
    Offsets(String),
    /// The queue refused, and will refuse again: rights, a wrong setting.
    #[error("the message queue refused: {0}")]
    Refused(String),
    /// A setting that cannot work, with what to do.
    #[error("{0}")]
    InvalidArgument(String),
    /// The actor has stopped.
    #[error("the actor has stopped")]
    Stopped,
}

impl MqError {
    /// Whether trying again, now or a little later, can help without anybody changing anything.
    /// A topic may still be made.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_)
                | Self::UnknownTopic(_)
                | Self::Overtaking { .. }
                | Self::Offsets(_)
        )
    }
}

impl From<CanalError> for MqError {
    fn from(error: CanalError) -> Self {
        Self::BadEntry(error.to_string())
    }
}

const _: () = {
    const fn travels<T: Send + Sync + Clone + 'static>() {}
    travels::<MqError>();
};
