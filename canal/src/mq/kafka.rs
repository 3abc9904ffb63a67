//! Kafka behind the traits, by the client `rskafka`: pure Rust, without consumer groups, so the
//! offsets are the reader's own.

mod client;
mod consumer;
mod producer;
mod settings;

pub use consumer::KafkaConsumer;
pub use producer::KafkaProducer;
pub use settings::KafkaSettings;

use super::connector::MqConnector;
use super::forwarder::MqForwarder;

/// Batches to Kafka, as Canal's own server writes them.
pub type KafkaForwarder = MqForwarder<KafkaProducer>;

/// Batches from Kafka; Canal's Java client calls it `KafkaCanalConnector`.
pub type KafkaConnector<O> = MqConnector<KafkaConsumer, O>;
