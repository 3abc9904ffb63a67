//! The metrics of an [`MqConnector`](super::MqConnector), by the `metrics` façade. Install the recorder
//! before the connector is made. The label of all is `topic`; gauges have `partition` too.
//!
//! | name | kind, unit | says |
//! |---|---|---|
//! | `lockkeeper_canal_mq_handled_batches_total` | counter | batches that were handled, and their offset kept |
//! | `lockkeeper_canal_mq_failed_batches_total` | counter | batches whose handler failed; each comes again |
//! | `lockkeeper_canal_mq_bad_messages_total` | counter | messages that could not be read and were taken by their handler |
//! | `lockkeeper_canal_mq_lag_messages` | gauge | offsets that are not handled yet |

use metrics::{Counter, counter, gauge};

use super::status::PartitionStatus;

/// The handles of one connector.
pub(super) struct ReaderMetrics {
    topic: String,
    pub(super) handled: Counter,
    pub(super) failed: Counter,
    pub(super) bad: Counter,
}

impl ReaderMetrics {
    pub(super) fn new(topic: &str) -> Self {
        let counter = |name: &'static str| counter!(name, "topic" => topic.to_owned());
        Self {
            topic: topic.to_owned(),
            handled: counter("lockkeeper_canal_mq_handled_batches_total"),
            failed: counter("lockkeeper_canal_mq_failed_batches_total"),
            bad: counter("lockkeeper_canal_mq_bad_messages_total"),
        }
    }

    /// A partition's progress.
    pub(super) fn at(&self, partition: u32, status: &PartitionStatus) {
        let lag = u32::try_from(status.lag()).unwrap_or(u32::MAX);
        gauge!(
            "lockkeeper_canal_mq_lag_messages",
            "topic" => self.topic.clone(),
            "partition" => partition.to_string()
        )
        .set(lag);
    }
}
