//! How a connector to a queue works.

use std::time::Duration;

use actix::Recipient;

use super::BadMessage;
use crate::mq::error::MqError;

/// Where reading begins in a partition of which no offset is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum StartFrom {
    /// With the first message that the queue still has.
    #[default]
    Earliest,
    /// With what is written from now on. The offset is kept at once, so that a restart before the
    /// first message misses none.
    Latest,
}

/// How an [`MqConnector`](super::MqConnector) works.
#[derive(Debug, Clone)]
pub struct MqConnectorSettings {
    pub(super) topic: String,
    pub(super) partitions: Option<Vec<u32>>,
    pub(super) start_from: StartFrom,
    pub(super) batch_bytes: usize,
    pub(super) message_limit: usize,
    pub(super) longest_wait: Duration,
    pub(super) first_back_off: Duration,
    pub(super) longest_back_off: Duration,
    pub(super) stop_timeout: Duration,
    pub(super) bad_messages: Option<Recipient<BadMessage>>,
}

impl MqConnectorSettings {
    /// Every partition of `topic`, from the earliest message.
    pub fn new(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            partitions: None,
            start_from: StartFrom::Earliest,
            batch_bytes: 1 << 20,
            message_limit: 16 << 20,
            longest_wait: Duration::from_millis(500),
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(30),
            bad_messages: None,
        }
    }

    /// Which partitions are read; those that are added to the topic later need a restart. Default:
    /// all.
    #[must_use]
    pub fn with_partitions(self, partitions: impl IntoIterator<Item = u32>) -> Self {
        Self {
            partitions: Some(partitions.into_iter().collect()),
            ..self
        }
    }

    /// Where a partition begins of which no offset is kept. Default: the earliest message.
    #[must_use]
    pub fn with_start_from(self, start_from: StartFrom) -> Self {
        Self { start_from, ..self }
    }

    /// Bytes of messages that are fetched at once and become one batch. Default 1 MiB.
    #[must_use]
    pub fn with_batch_bytes(self, bytes: usize) -> Self {
        Self {
            batch_bytes: bytes,
            ..self
        }
    }

    /// The largest message in bytes that is read; a larger one is a [`MqError::BadMessage`]. While a
    /// message is read, some thirty times its size may be needed, if it was made to need it.
    /// Default 16 MiB.
    #[must_use]
    pub fn with_message_limit(self, bytes: usize) -> Self {
        Self {
            message_limit: bytes,
            ..self
        }
    }

    /// How long the queue may keep a question while there is nothing to answer. Default 500 ms.
    #[must_use]
    pub fn with_longest_wait(self, wait: Duration) -> Self {
        Self {
            longest_wait: wait,
            ..self
        }
    }

    /// Waits before the queue is asked again after a failure, and before a batch comes again that
    /// was not handled: from the first, doubling, to the longest, less up to half at random.
    /// Default 100 ms to 30 s.
    #[must_use]
    pub fn with_back_off(self, first: Duration, longest: Duration) -> Self {
        Self {
            first_back_off: first,
            longest_back_off: longest,
            ..self
        }
    }

    /// How long stopping waits for the handler. What it has then comes again after the next start.
    /// Default 30 s.
    #[must_use]
    pub fn with_stop_timeout(self, limit: Duration) -> Self {
        Self {
            stop_timeout: limit,
            ..self
        }
    }

    /// Who takes messages that cannot be read, such as an actor that writes them to another topic.
    /// Default: nobody, and the connector ends with the first.
    #[must_use]
    pub fn with_bad_messages(self, recipient: Recipient<BadMessage>) -> Self {
        Self {
            bad_messages: Some(recipient),
            ..self
        }
    }

    pub(super) fn check(&self) -> Result<(), MqError> {
        let wrong = if self.topic.is_empty() {
            "the topic has no name"
        } else if self.partitions.as_ref().is_some_and(Vec::is_empty) {
            "no partition is chosen"
        } else if self.batch_bytes == 0 || self.message_limit == 0 {
            "batch_bytes and message_limit must be above 0"
        } else if self.first_back_off.is_zero() || self.longest_wait.is_zero() {
            "the first back-off and longest_wait must be longer than zero"
        } else {
            return Ok(());
        };
        Err(MqError::InvalidArgument(wrong.to_owned()))
    }
}
