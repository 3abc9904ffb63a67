//! How a forwarder works.

use std::time::Duration;

use crate::mq::error::MqError;
use crate::mq::form::MqForm;
use crate::mq::routing::MqRouting;

/// How an [`MqForwarder`](super::MqForwarder) works.
#[derive(Debug, Clone)]
pub struct MqForwarderSettings {
    pub(super) routing: MqRouting,
    pub(super) form: MqForm,
    pub(super) message_limit: usize,
    pub(super) first_back_off: Duration,
    pub(super) longest_back_off: Duration,
    pub(super) retry_for: Duration,
}

impl MqForwarderSettings {
    /// Flat messages to where `routing` says.
    pub fn new(routing: MqRouting) -> Self {
        Self {
            routing,
            form: MqForm::Flat,
            message_limit: 1_000_000,
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(5),
            retry_for: Duration::from_secs(60),
        }
    }

    /// The form of messages. Default flat, as Canal's own server.
    #[must_use]
    pub fn with_form(self, form: MqForm) -> Self {
        Self { form, ..self }
    }

    /// The largest message in bytes, and the most that is sent to a partition at once. Rows that
    /// do not fit into one message come in several, in order; one row above it is
    /// [`MqError::MessageTooLarge`], which holds up the destination until the limit is
    /// raised or the table left out. Default 1,000,000, which fits a Kafka broker's own default.
    #[must_use]
    pub fn with_message_limit(self, bytes: usize) -> Self {
        Self {
            message_limit: bytes,
            ..self
        }
    }

    /// Waits between attempts: from the first, doubling, to the longest, less up to half at
    /// random. Default 100 ms to 5 s.
    #[must_use]
    pub fn with_back_off(self, first: Duration, longest: Duration) -> Self {
        Self {
            first_back_off: first,
            longest_back_off: longest,
            ..self
        }
    }

    /// For how long a batch is tried before it is given back to the connector. Default 60 s. The
    /// connector keeps its connection alive meanwhile.
    #[must_use]
    pub fn with_retry_for(self, limit: Duration) -> Self {
        Self {
            retry_for: limit,
            ..self
        }
    }

    pub(super) fn check(&self) -> Result<(), MqError> {
        self.routing.check()?;
        if self.message_limit < 1024 {
            return Err(MqError::InvalidArgument(
                "message_limit must be at least 1024 bytes".to_owned(),
            ));
        }
        if self.first_back_off.is_zero() {
            return Err(MqError::InvalidArgument(
                "the first back-off must be longer than zero".to_owned(),
            ));
        }
        Ok(())
    }
}
