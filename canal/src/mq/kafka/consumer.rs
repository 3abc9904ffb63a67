//! Reading from Kafka.

use std::ops::Range;
use std::time::Duration;

use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::OffsetAt;

use super::KafkaSettings;
use super::client::{Kafka, meaning};
use crate::mq::consumer::{FetchLimits, Fetched, MqConsumer, ReceivedMessage};
use crate::mq::error::MqError;

/// Kafka to read from. There is no consumer group: offsets are in an
/// [`OffsetStore`](crate::mq::OffsetStore), and partitions are divided by who starts readers.
///
/// Records that are compressed by lz4 or zstd cannot be read; without compression, gzip and snappy
/// can.
#[derive(Debug)]
pub struct KafkaConsumer {
    kafka: Kafka,
}

impl KafkaConsumer {
    /// A consumer; it connects when it is used.
    ///
    /// # Errors
    /// [`MqError::InvalidArgument`] without a broker.
    pub fn new(settings: KafkaSettings) -> Result<Self, MqError> {
        Ok(Self {
            kafka: Kafka::new(settings)?,
        })
    }

    /// With a deadline above what the broker itself may wait.
    async fn within<T>(
        &self,
        wait: Duration,
        work: impl Future<Output = Result<T, MqError>>,
    ) -> Result<T, MqError> {
        self.kafka
            .within(self.kafka.settings.timeout + wait, work)
            .await
    }
}

impl MqConsumer for KafkaConsumer {
    async fn partitions(&self, topic: &str) -> Result<u32, MqError> {
        self.kafka.count(topic, false).await
    }

    async fn range(&self, topic: &str, partition: u32) -> Result<Range<i64>, MqError> {
        let work = async {
            let partition = self.kafka.partition(topic, partition).await?;
            let ask = async |at| {
                partition
                    .get_offset(at)
                    .await
                    .map_err(|error| meaning(&error))
            };
            Ok(ask(OffsetAt::Earliest).await?..ask(OffsetAt::Latest).await?)
        };
        self.within(Duration::ZERO, work).await
    }

    async fn fetch(
        &self,
        topic: &str,
        partition: u32,
        from: i64,
        limits: FetchLimits,
    ) -> Result<Fetched, MqError> {
        let wait = i32::try_from(limits.wait.as_millis()).unwrap_or(i32::MAX);
        let bytes = i32::try_from(limits.bytes).unwrap_or(i32::MAX).max(2);
        let fetched = self.within(limits.wait, async {
            let leader = self.kafka.partition(topic, partition).await?;
            let fetched = leader.fetch_records(from, 1..bytes, wait).await;
            Ok(fetched.map_err(|error| match error {
                Error::ServerError {
                    protocol_error: ProtocolError::OffsetOutOfRange,
                    ..
                } => None,
                error => Some(meaning(&error)),
            }))
        });
        let (records, end) = match fetched.await? {
            Ok(fetched) => fetched,
            Err(Some(error)) => return Err(error),
            Err(None) => {
                let range = self.range(topic, partition).await?;
                return Err(MqError::OffsetOutOfRange {
                    topic: topic.to_owned(),
                    partition,
                    offset: from,
                    earliest: range.start,
                    end: range.end,
                });
            }
        };
        let mut size = 0;
        let mut messages = Vec::new();
        for record in records {
            let payload = record.record.value;
            size += payload.as_ref().map_or(0, Vec::len);
            // A broker sends whole batches of records: what is above the limit is fetched again.
            if size > limits.bytes && !messages.is_empty() {
                break;
            }
            messages.push(ReceivedMessage::new(record.offset, payload.map(Into::into)));
        }
        Ok(Fetched::new(messages, end))
    }
}
