//! The metrics of an [`MqForwarder`](super::MqForwarder), by the `metrics` façade. Install the
//! recorder before the forwarder is made. The label of all is `topic`, the default one.
//!
//! | name | kind, unit | says |
//! |---|---|---|
//! | `lockkeeper_canal_mq_forwarded_batches_total` | counter | batches of which every message was confirmed |
//! | `lockkeeper_canal_mq_forwarded_messages_total` | counter | messages that the queue confirmed |
//! | `lockkeeper_canal_mq_forwarded_bytes_total` | counter, bytes | their size |
//! | `lockkeeper_canal_mq_forward_failures_total` | counter | attempts that failed |
//! | `lockkeeper_canal_mq_returned_batches_total` | counter | batches that were given back, to come again |
//! | `lockkeeper_canal_mq_forward_seconds` | histogram, s | from a batch's turn until all of it was confirmed, failed attempts included |

use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};

/// The handles of one forwarder.
pub(super) struct ForwarderMetrics {
    batches: Counter,
    messages: Counter,
    bytes: Counter,
    failures: Counter,
    returned: Counter,
    seconds: Histogram,
}

impl ForwarderMetrics {
    pub(super) fn new(topic: &str) -> Self {
        let counter = |name: &'static str| counter!(name, "topic" => topic.to_owned());
        Self {
            batches: counter("lockkeeper_canal_mq_forwarded_batches_total"),
            messages: counter("lockkeeper_canal_mq_forwarded_messages_total"),
            bytes: counter("lockkeeper_canal_mq_forwarded_bytes_total"),
            failures: counter("lockkeeper_canal_mq_forward_failures_total"),
            returned: counter("lockkeeper_canal_mq_returned_batches_total"),
            seconds: histogram!("lockkeeper_canal_mq_forward_seconds", "topic" => topic.to_owned()),
        }
    }

    pub(super) fn forwarded(&self, took: Duration) {
        self.batches.increment(1);
        self.seconds.record(took.as_secs_f64());
    }

    pub(super) fn confirmed(&self, messages: u64, bytes: u64) {
        self.messages.increment(messages);
        self.bytes.increment(bytes);
    }

    pub(super) fn failed(&self) {
        self.failures.increment(1);
    }

    pub(super) fn returned(&self) {
        self.returned.increment(1);
    }
}
