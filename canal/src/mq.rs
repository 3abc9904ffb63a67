//! Message queues, in both directions.
//!
//! Canal's server can write changes to a queue by itself. [`MqForwarder`] does the same from a
//! client, in the same forms, and [`MqConnector`] reads what either has written:
//!
//! - *To* the queue: an [`MqForwarder`] is the handler of a [`CanalConnector`](crate::CanalConnector).
//!   A batch is acknowledged to Canal's server only after the queue has answered for every message
//!   made of it.
//! - *From* the queue: an [`MqConnector`] pushes [`Batch`](crate::Batch)es to the same kind of handler
//!   as a `CanalConnector` does, and keeps its offset when the handler's result is `Ok`.
//!
//! Both work **at least once**: after a failure messages come again, in their order.
//!
//! The queue is behind two traits, [`MqProducer`] and [`MqConsumer`]. With the feature `kafka`
//! there are `KafkaProducer` and `KafkaConsumer`; with `testing` a queue in memory and the
//! tests that every implementation has to pass (`testing::contract`).
//!
//! When not to use it: to read Canal's changes in the process that handles them. A
//! `CanalConnector` alone has one hop less.

mod connector;
mod consumer;
mod error;
mod flat;
mod form;
mod forwarder;
#[cfg(test)]
mod golden;
#[cfg(feature = "kafka")]
mod kafka;
mod offsets;
mod producer;
mod protobuf;
mod routing;
#[cfg(feature = "testing")]
pub mod testing;

pub use connector::{
    BadMessage, GetMqStatus, MqConnector, MqConnectorSettings, MqConnectorStatus, MqEnd,
    PartitionStatus, StartFrom, StopMq, WaitForMqEnd,
};
pub use consumer::{FetchLimits, Fetched, MqConsumer, ReceivedMessage};
pub use error::MqError;
pub use flat::FlatMessage;
pub use form::MqForm;
pub use forwarder::{GetForwarderStatus, MqForwarder, MqForwarderSettings, MqForwarderStatus};
#[cfg(feature = "kafka")]
pub use kafka::{KafkaConnector, KafkaConsumer, KafkaForwarder, KafkaProducer, KafkaSettings};
pub use offsets::{FileOffsets, MemoryOffsets, OffsetStore};
pub use producer::MqProducer;
#[cfg(feature = "_fuzzing")]
pub(crate) use protobuf::{decode as decode_protobuf, encode as encode_protobuf};
pub use routing::MqRouting;
