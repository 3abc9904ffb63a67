//! The seam to a queue that is written to.

use std::future::Future;

use bytes::Bytes;

use super::error::MqError;

/// A queue that batches are written to. Kafka's is `KafkaProducer`; an
/// implementation for another queue has to pass the tests in
/// `testing::contract`.
pub trait MqProducer: Send + Sync + 'static {
    /// How many partitions a topic has, numbered from 0. A queue that makes topics by itself makes
    /// it here.
    ///
    /// # Errors
    /// [`MqError::UnknownTopic`], [`MqError::Unavailable`], [`MqError::Refused`].
    fn partitions(&self, topic: &str) -> impl Future<Output = Result<u32, MqError>> + Send;

    /// Writes messages to a partition, in order, and resolves when the queue answers for each of
    /// them: none is lost if it crashes then. After an error, or when the future is dropped, any
    /// number of them may have been written.
    ///
    /// Calls for one partition follow each other: the next begins when this one has resolved.
    ///
    /// # Errors
    /// [`MqError::Unavailable`] when it is to be tried again, as after any time-out;
    /// [`MqError::MessageTooLarge`] and [`MqError::Refused`] when it would fail again.
    fn produce(
        &self,
        topic: &str,
        partition: u32,
        messages: Vec<Bytes>,
    ) -> impl Future<Output = Result<(), MqError>> + Send;
}
