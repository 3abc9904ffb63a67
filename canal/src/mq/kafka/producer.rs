//! Writing to Kafka.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rskafka::chrono::DateTime;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::Compression;
use rskafka::record::Record;

use super::KafkaSettings;
use super::client::{Kafka, meaning};
use crate::mq::error::MqError;
use crate::mq::producer::MqProducer;

/// Kafka to write to. A write is confirmed by all replicas that are in sync (`acks=all`): set the
/// topic's `min.insync.replicas` to 2 or more, or one broker's disk is all there is.
///
/// Records have no key, as those of Canal's own server: do not compact the topics.
#[derive(Debug)]
pub struct KafkaProducer {
    kafka: Kafka,
}

impl KafkaProducer {
    /// A producer; it connects when it is used.
    ///
    /// # Errors
    /// [`MqError::InvalidArgument`] without a broker.
    pub fn new(settings: KafkaSettings) -> Result<Self, MqError> {
        Ok(Self {
            kafka: Kafka::new(settings)?,
        })
    }
}

impl MqProducer for KafkaProducer {
    async fn partitions(&self, topic: &str) -> Result<u32, MqError> {
        self.kafka.count(topic, true).await
    }

    async fn produce(
        &self,
        topic: &str,
        partition: u32,
        messages: Vec<Bytes>,
    ) -> Result<(), MqError> {
        let largest = messages.iter().map(Bytes::len).max().unwrap_or_default();
        let timestamp = now();
        let records = messages.into_iter().map(|message| Record {
            key: None,
            value: Some(message.into()),
            headers: BTreeMap::new(),
            timestamp,
        });
        let records = records.collect();
        let work = async {
            let partition = self.kafka.partition(topic, partition).await?;
            let produced = partition.produce(records, Compression::NoCompression).await;
            produced.map(drop).map_err(|error| match &error {
                Error::ServerError {
                    protocol_error:
                        ProtocolError::MessageTooLarge | ProtocolError::RecordListTooLarge,
                    ..
                } => MqError::Refused(format!(
                    "messages of up to {largest} bytes are above the broker's limit: raise \
                     `max.message.bytes` of topic `{topic}` or lower `message_limit`"
                )),
                error => meaning(error),
            })
        };
        self.kafka.within(self.kafka.settings.timeout, work).await
    }
}

fn now() -> DateTime<rskafka::chrono::Utc> {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let millis = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(millis).unwrap_or_default()
}
