//! The metrics of a [`CanalConnector`](crate::CanalConnector), by the `metrics` façade. Install the
//! recorder before the connector is made. The label of all is `destination`.
//!
//! | name | kind, unit | says |
//! |---|---|---|
//! | `lockkeeper_canal_batches_total` | counter | batches that were pushed, those that came again included |
//! | `lockkeeper_canal_entries_total` | counter | entries in them |
//! | `lockkeeper_canal_rows_total` | counter | rows in these |
//! | `lockkeeper_canal_acknowledged_batches_total` | counter | batches that were acknowledged |
//! | `lockkeeper_canal_rollbacks_total` | counter | rollbacks: everything that is not acknowledged comes again |
//! | `lockkeeper_canal_connections_total` | counter | subscriptions that stood; all but the first are reconnects |
//! | `lockkeeper_canal_undecodable_rows_total` | counter | rows that did not fit their type |
//! | `lockkeeper_canal_stalls_total` | counter | times at which the server delivered nothing while the binlog grew |
//! | `lockkeeper_canal_lag_seconds` | gauge, s | how far behind the database: see [`ConnectorStatus::lag`] |
//! | `lockkeeper_canal_position_time_seconds` | gauge, s since 1970 | when the last entry that was handled was executed |
//! | `lockkeeper_canal_outstanding_batches` | gauge | batches that are not acknowledged |
//! | `lockkeeper_canal_streaming` | gauge | 1 while batches are pushed, else 0 |
//! | `lockkeeper_canal_stalled` | gauge | 1 while the server delivers nothing and the binlog grows, else 0 |
//! | `lockkeeper_canal_oldest_unacknowledged_seconds` | gauge, s | how long the oldest of them has been so |
//!
//! Gauges are set at every question to the server and every answer of a handler, and while a handler
//! works with every [keep-alive](crate::CanalConnectorSettings::with_keep_alive).

use metrics::{Counter, Gauge, counter, gauge};

use super::status::{ConnectorState, ConnectorStatus};

/// The handles of one connector.
pub(super) struct ConnectorMetrics {
    batches: Counter,
    entries: Counter,
    rows: Counter,
    acknowledged: Counter,
    rollbacks: Counter,
    connections: Counter,
    undecodable: Counter,
    stalls: Counter,
    lag: Gauge,
    position_time: Gauge,
    outstanding: Gauge,
    oldest: Gauge,
    streaming: Gauge,
    stalled: Gauge,
}

impl ConnectorMetrics {
    pub(super) fn new(destination: &str) -> Self {
        let counter = |name: &'static str| counter!(name, "destination" => destination.to_owned());
        let gauge = |name: &'static str| gauge!(name, "destination" => destination.to_owned());
        Self {
            batches: counter("lockkeeper_canal_batches_total"),
            entries: counter("lockkeeper_canal_entries_total"),
            rows: counter("lockkeeper_canal_rows_total"),
            acknowledged: counter("lockkeeper_canal_acknowledged_batches_total"),
            rollbacks: counter("lockkeeper_canal_rollbacks_total"),
            connections: counter("lockkeeper_canal_connections_total"),
            undecodable: counter("lockkeeper_canal_undecodable_rows_total"),
            stalls: counter("lockkeeper_canal_stalls_total"),
            lag: gauge("lockkeeper_canal_lag_seconds"),
            position_time: gauge("lockkeeper_canal_position_time_seconds"),
            outstanding: gauge("lockkeeper_canal_outstanding_batches"),
            oldest: gauge("lockkeeper_canal_oldest_unacknowledged_seconds"),
            streaming: gauge("lockkeeper_canal_streaming"),
            stalled: gauge("lockkeeper_canal_stalled"),
        }
    }

    /// Shows a status that has followed on another.
    pub(super) fn show(&self, before: &ConnectorStatus, now: &ConnectorStatus) {
        for (counter, was, is) in [
            (&self.batches, before.batches, now.batches),
            (&self.entries, before.entries, now.entries),
            (&self.rows, before.rows, now.rows),
            (
                &self.acknowledged,
                before.acknowledged_batches,
                now.acknowledged_batches,
            ),
            (&self.rollbacks, before.rollbacks, now.rollbacks),
            (&self.connections, before.connections, now.connections),
            (
                &self.undecodable,
                before.undecodable_rows,
                now.undecodable_rows,
            ),
            (&self.stalls, before.stalls, now.stalls),
        ] {
            if is > was {
                counter.increment(is - was);
            }
        }
        if let Some(lag) = now.lag() {
            self.lag.set(lag.as_secs_f64());
        }
        if let Some(position) = &now.position {
            let seconds = u32::try_from(position.execute_time / 1000);
            self.position_time.set(seconds.unwrap_or_default());
        }
        let outstanding = u32::try_from(now.outstanding_batches).unwrap_or(u32::MAX);
        self.outstanding.set(outstanding);
        let oldest = now.oldest_unacknowledged().unwrap_or_default();
        self.oldest.set(oldest.as_secs_f64());
        let is = |state: bool| if state { 1.0 } else { 0.0 };
        self.streaming
            .set(is(now.state == ConnectorState::Streaming));
        let stalled = matches!(now.state, ConnectorState::Stalled { .. });
        self.stalled.set(is(stalled));
    }
}

impl Drop for ConnectorMetrics {
    fn drop(&mut self) {
        for gauge in [
            &self.outstanding,
            &self.oldest,
            &self.streaming,
            &self.stalled,
        ] {
            gauge.set(0);
        }
    }
}
