//! What is counted, by the `metrics` façade: whatever recorder the program installs sees it.
//! The names are in the crate's documentation.

use metrics::{Counter, Gauge, counter, gauge};

/// The meters of one connection, looked up once. The gauge is given back when this is dropped.
pub(crate) struct Meters {
    received: Counter,
    sent: Counter,
    connections: Gauge,
    in_flight: Gauge,
    calls: u32,
}

impl Meters {
    /// Counts a connection.
    pub(crate) fn new() -> Self {
        let connections = gauge!("lockkeeper_remote_connections");
        connections.increment(1);
        Self {
            received: counter!("lockkeeper_remote_received_bytes_total"),
            sent: counter!("lockkeeper_remote_sent_bytes_total"),
            connections,
            in_flight: gauge!("lockkeeper_remote_calls_in_flight"),
            calls: 0,
        }
    }

    pub(crate) fn received(&self, bytes: u64) {
        if bytes > 0 {
            self.received.increment(bytes);
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent
            .increment(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Sets how many calls of this connection are in flight.
    pub(crate) fn calls(&mut self, calls: usize) {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        if calls > self.calls {
            self.in_flight.increment(f64::from(calls - self.calls));
        } else if calls < self.calls {
            self.in_flight.decrement(f64::from(self.calls - calls));
        }
        self.calls = calls;
    }
}

impl Drop for Meters {
    fn drop(&mut self) {
        self.calls(0);
        self.connections.decrement(1);
    }
}

pub(crate) fn reconnected() {
    counter!("lockkeeper_remote_reconnects_total").increment(1);
}

pub(crate) fn without_credit() {
    counter!("lockkeeper_remote_without_credit_total").increment(1);
}

pub(crate) fn refused(reason: &'static str) {
    counter!("lockkeeper_remote_refused_total", "reason" => reason).increment(1);
}
