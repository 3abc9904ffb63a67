//! The metrics of calls, by the `metrics` façade. Install the recorder before the service is built:
//! handles are made once an endpoint, not once a call.
//!
//! | name | kind, unit | labels | says |
//! |---|---|---|---|
//! | `lockkeeper_rpc_calls_total` | counter | endpoint, method | calls whose handler has begun |
//! | `lockkeeper_rpc_queue_seconds` | histogram, s | endpoint, method | the time from send (or arrival, for a remote call) to the handler's begin |
//! | `lockkeeper_rpc_handle_seconds` | histogram, s | endpoint, method | the time from the handler's begin to its answer |
//! | `lockkeeper_rpc_message_bytes_total` | counter, bytes | endpoint, method | encoded messages that came in |
//! | `lockkeeper_rpc_reply_bytes_total` | counter, bytes | endpoint, method | encoded replies that went out |
//! | `lockkeeper_rpc_queue_age_seconds` | gauge, s | endpoint | how long the oldest call has waited that waits now |
//! | `lockkeeper_rpc_queue_messages` | gauge | endpoint | calls that wait now |
//! | `lockkeeper_rpc_in_flight` | gauge | endpoint | calls whose handler has returned a future that is not done |
//! | `lockkeeper_rpc_refused_total` | counter | reason | calls that were answered with an error before or instead of a reply |
//! | `lockkeeper_rpc_dead_letters_total` | counter | reason | one-way messages that were not handled |
//! | `lockkeeper_rpc_stalls_total` | counter | endpoint, method | handlers that held their arbiter longer than [`watchdog`](crate::RpcServiceBuilder::watchdog) allows |
//!
//! The gauges of the queue are set by the [`watchdog`](crate::RpcServiceBuilder::watchdog), four times
//! within its limit, and stand still without one. The endpoint's
//! [`StatusSource`](crate::status::StatusSource) has the same as of the moment.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// The handles of one method of one endpoint.
pub(crate) struct MethodMetrics {
    calls: Counter,
    queue: Histogram,
    handle: Histogram,
    message_bytes: Counter,
    reply_bytes: Counter,
}

impl MethodMetrics {
    pub(crate) fn new(endpoint: &str, method: &'static str) -> Self {
        let endpoint = || endpoint.to_owned();
        Self {
            calls: counter!("lockkeeper_rpc_calls_total", "endpoint" => endpoint(), "method" => method),
            queue: histogram!("lockkeeper_rpc_queue_seconds", "endpoint" => endpoint(), "method" => method),
            handle: histogram!("lockkeeper_rpc_handle_seconds", "endpoint" => endpoint(), "method" => method),
            message_bytes: counter!("lockkeeper_rpc_message_bytes_total", "endpoint" => endpoint(), "method" => method),
            reply_bytes: counter!("lockkeeper_rpc_reply_bytes_total", "endpoint" => endpoint(), "method" => method),
        }
    }

    pub(crate) fn begun(&self, waited: Duration) {
        self.calls.increment(1);
        self.queue.record(waited.as_secs_f64());
    }

    pub(crate) fn answered(&self, took: Duration) {
        self.handle.record(took.as_secs_f64());
    }

    pub(crate) fn message(&self, bytes: usize) {
        self.message_bytes.increment(count(bytes));
    }

    /// For replies, which are encoded where the method is not at hand.
    pub(crate) fn reply_bytes(&self) -> Counter {
        self.reply_bytes.clone()
    }
}

/// What waits at one endpoint, as the watchdog sees it.
pub(crate) struct QueueMetrics {
    age: Gauge,
    messages: Gauge,
}

impl QueueMetrics {
    pub(crate) fn new(endpoint: &str) -> Self {
        let endpoint = || endpoint.to_owned();
        Self {
            age: gauge!("lockkeeper_rpc_queue_age_seconds", "endpoint" => endpoint()),
            messages: gauge!("lockkeeper_rpc_queue_messages", "endpoint" => endpoint()),
        }
    }

    pub(crate) fn seen(&self, age: Duration, messages: usize) {
        self.age.set(age.as_secs_f64());
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.messages.set(messages);
    }
}

impl Drop for QueueMetrics {
    fn drop(&mut self) {
        self.seen(Duration::ZERO, 0);
    }
}

pub(crate) fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(crate) fn in_flight(endpoint: &str) -> Gauge {
    gauge!("lockkeeper_rpc_in_flight", "endpoint" => endpoint.to_owned())
}

pub(crate) fn stall(endpoint: &str, method: &'static str) {
    counter!("lockkeeper_rpc_stalls_total", "endpoint" => endpoint.to_owned(), "method" => method)
        .increment(1);
}
