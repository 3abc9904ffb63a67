//! `[queue_connector]`: the actor that reads batches back from a message queue.

use std::time::Duration;

use lockkeeper_canal::mq::{MqConnectorSettings, StartFrom};
use serde::{Deserialize, Serialize};

use super::rules::Rules;

/// Where a partition begins of which no offset is kept; see [`StartFrom`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Start {
    /// With the first message that the queue still has.
    #[default]
    Earliest,
    /// With what is written from now on.
    Latest,
}

impl From<Start> for StartFrom {
    fn from(start: Start) -> Self {
        match start {
            Start::Earliest => Self::Earliest,
            Start::Latest => Self::Latest,
        }
    }
}

/// See [`MqConnectorSettings`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueConnectorSettings {
    /// The topic.
    pub topic: String,
    /// Which partitions are read; none: all.
    pub partitions: Option<Vec<u32>>,
    /// Where a partition begins of which no offset is kept.
    pub start_from: Start,
    /// Bytes of messages that become one batch.
    pub batch_bytes: usize,
    /// The largest message in bytes.
    pub message_limit_bytes: usize,
    /// How long the queue may keep a question.
    pub longest_wait: Duration,
    /// The first pause after a failure; it doubles.
    pub first_back_off: Duration,
    /// The longest.
    pub longest_back_off: Duration,
    /// How long stopping waits for the handler.
    pub stop_timeout: Duration,
}

impl Default for QueueConnectorSettings {
    fn default() -> Self {
        Self {
            topic: "canal".to_owned(),
            partitions: None,
            start_from: Start::default(),
            batch_bytes: 1 << 20,
            message_limit_bytes: 16 << 20,
            longest_wait: Duration::from_millis(500),
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(30),
        }
    }
}

impl QueueConnectorSettings {
    /// For a connector to a queue, such as a `KafkaConnector`.
    #[must_use]
    pub fn connector(&self) -> MqConnectorSettings {
        let settings = MqConnectorSettings::new(&self.topic)
            .with_start_from(self.start_from.into())
            .with_batch_bytes(self.batch_bytes)
            .with_message_limit(self.message_limit_bytes)
            .with_longest_wait(self.longest_wait)
            .with_back_off(self.first_back_off, self.longest_back_off)
            .with_stop_timeout(self.stop_timeout);
        match &self.partitions {
            Some(partitions) => settings.with_partitions(partitions.iter().copied()),
            None => settings,
        }
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        rules.text("queue_connector.topic", &self.topic, 249);
        let some = self.partitions.as_ref().is_none_or(|some| !some.is_empty());
        let rule = "must name a partition, or be none for all";
        rules.must("queue_connector.partitions", some, rule);
        let bytes = 1..=1 << 30;
        rules.within("queue_connector.batch_bytes", self.batch_bytes, bytes);
        let (key, limit) = (
            "queue_connector.message_limit_bytes",
            self.message_limit_bytes,
        );
        rules.within(key, limit, 1_024..=1 << 31);
        rules.time("queue_connector.longest_wait", self.longest_wait);
        rules.time("queue_connector.first_back_off", self.first_back_off);
        let times = self.first_back_off..=Duration::from_secs(86_400);
        let key = "queue_connector.longest_back_off";
        rules.times(key, self.longest_back_off, times);
        rules.time("queue_connector.stop_timeout", self.stop_timeout);
    }
}
