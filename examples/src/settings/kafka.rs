//! `[kafka]` and `[forwarder]`: a Kafka cluster, and what is written to it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use lockkeeper_canal::mq::{self, MqForm, MqForwarderSettings, MqRouting};
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use super::secret::Secret;

/// See [`KafkaSettings`](mq::KafkaSettings).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KafkaSettings {
    /// The brokers to begin with, `host:port`.
    pub brokers: Vec<String>,
    /// How the client calls itself.
    pub client_id: String,
    /// The user there, by SASL PLAIN.
    pub user: Option<String>,
    /// A file whose first line is the user's password.
    pub password_file: Option<PathBuf>,
    /// The password; by the environment only.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// From a question to its answer.
    pub timeout: Duration,
    /// The largest answer in bytes.
    pub frame_limit_bytes: usize,
    /// Makes topics that are not there, with so many partitions; none: that is an error.
    pub create_partitions: Option<u32>,
    /// On how many brokers made topics are kept.
    pub create_copies: u16,
}

impl Default for KafkaSettings {
    fn default() -> Self {
        Self {
            brokers: Vec::new(),
            client_id: "lockkeeper".to_owned(),
            user: None,
            password_file: None,
            password: None,
            timeout: Duration::from_secs(10),
            frame_limit_bytes: 64 << 20,
            create_partitions: None,
            create_copies: 1,
        }
    }
}

impl KafkaSettings {
    /// For a producer or consumer.
    ///
    /// # Errors
    /// A user without a password, a password file that can't be read.
    pub fn client(&self) -> anyhow::Result<mq::KafkaSettings> {
        let mut settings = mq::KafkaSettings::new(&self.brokers)
            .with_client_id(&self.client_id)
            .with_timeout(self.timeout)
            .with_frame_limit(self.frame_limit_bytes);
        if let Some(user) = &self.user {
            match Secret::given(self.password.as_ref(), self.password_file.as_deref())? {
                Some(password) => settings = settings.with_credentials(user, password.reveal()),
                None => bail!(
                    "kafka.user needs kafka.password_file, or a password in LOCKKEEPER__KAFKA__PASSWORD"
                ),
            }
        }
        Ok(match self.create_partitions {
            Some(partitions) => settings.with_create_topics(partitions, self.create_copies),
            None => settings,
        })
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        rules.text("kafka.client_id", &self.client_id, 249);
        rules.time("kafka.timeout", self.timeout);
        let frame = 1 << 10..=1 << 31;
        rules.within("kafka.frame_limit_bytes", self.frame_limit_bytes, frame);
        if let Some(partitions) = self.create_partitions {
            rules.within("kafka.create_partitions", partitions, 1..=100_000);
        }
        rules.within("kafka.create_copies", self.create_copies, 1..=32_767);
    }
}

/// The form of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Form {
    /// JSON, a message for the rows of one statement.
    #[default]
    Flat,
    /// Canal's packets, a message for a batch.
    Protobuf,
}

/// See [`MqForwarderSettings`] and [`MqRouting`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForwarderSettings {
    /// The topic of what no rule sends elsewhere.
    pub topic: String,
    /// Topics by table, Canal's `canal.mq.dynamicTopic`.
    pub dynamic_topic: Option<String>,
    /// What partitions are chosen by, Canal's `canal.mq.partitionHash`; none: all to partition 0.
    pub partition_hash: Option<String>,
    /// The form of messages.
    pub form: Form,
    /// The largest message in bytes.
    pub message_limit_bytes: usize,
    /// The first pause between two attempts; it doubles.
    pub first_back_off: Duration,
    /// The longest.
    pub longest_back_off: Duration,
    /// For how long a batch is tried before it is given back.
    pub retry_for: Duration,
}

impl Default for ForwarderSettings {
    fn default() -> Self {
        Self {
            topic: "canal".to_owned(),
            dynamic_topic: None,
            partition_hash: Some(r".*\..*:$pk$".to_owned()),
            form: Form::default(),
            message_limit_bytes: 1_000_000,
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(5),
            retry_for: Duration::from_secs(60),
        }
    }
}

impl ForwarderSettings {
    /// For a forwarder.
    ///
    /// # Errors
    /// Rules that can't be read.
    pub fn forwarder(&self) -> anyhow::Result<MqForwarderSettings> {
        let mut routing = MqRouting::to(&self.topic);
        if let Some(rules) = &self.partition_hash {
            routing = routing.with_partition_hash(rules)?;
        }
        if let Some(rules) = &self.dynamic_topic {
            routing = routing.with_dynamic_topic(rules)?;
        }
        let form = match self.form {
            Form::Flat => MqForm::Flat,
            Form::Protobuf => MqForm::Protobuf,
        };
        Ok(MqForwarderSettings::new(routing)
            .with_form(form)
            .with_message_limit(self.message_limit_bytes)
            .with_back_off(self.first_back_off, self.longest_back_off)
            .with_retry_for(self.retry_for))
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        rules.text("forwarder.topic", &self.topic, 249);
        for (key, text) in [
            ("forwarder.dynamic_topic", &self.dynamic_topic),
            ("forwarder.partition_hash", &self.partition_hash),
        ] {
            let Some(text) = text else { continue };
            let routing = MqRouting::to("topic");
            let read = match key {
                "forwarder.dynamic_topic" => routing.with_dynamic_topic(text),
                _ => routing.with_partition_hash(text),
            };
            let rule = read
                .as_ref()
                .err()
                .map_or_else(String::new, ToString::to_string);
            rules.must(key, read.is_ok(), rule);
        }
        let bytes = 1_024..=1 << 31;
        rules.within(
            "forwarder.message_limit_bytes",
            self.message_limit_bytes,
            bytes,
        );
        rules.time("forwarder.first_back_off", self.first_back_off);
        let times = self.first_back_off..=Duration::from_secs(86_400);
        rules.times("forwarder.longest_back_off", self.longest_back_off, times);
        rules.time("forwarder.retry_for", self.retry_for);
    }
}
