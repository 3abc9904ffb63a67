//! What a running connector can be asked.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockkeeper_core::status::{
    Level, Plot, StatusControl, StatusKind, StatusSnapshot, StatusSource, Unit, now_unix_ms,
};
use tokio::sync::watch;

use super::delivery::Desired;
use super::pausing::ConnectorControl;
use super::stall::BinlogPosition;
use crate::entry::Position;
use crate::error::CanalError;

/// What a [`CanalConnector`](crate::CanalConnector) does at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectorState {
    /// It connects and subscribes.
    Connecting,
    /// Another client is active; this one takes over when that one is gone.
    Standby,
    /// Batches are pushed.
    Streaming,
    /// The server is asked and has nothing, and yet the database's binlog grows on: its parser has
    /// stopped, or its buffer is full of what is not acknowledged. Told only with a
    /// [probe](crate::CanalConnector::with_binlog_probe). It goes on asking; the next entry ends it.
    Stalled {
        /// How far the binlog goes.
        binlog: BinlogPosition,
    },
    /// No batch is fetched; the connection is kept.
    Paused,
    /// It waits before it connects again.
    BackingOff {
        /// What happened.
        error: CanalError,
        /// Failures in a row.
        failures: u32,
        /// How long it waits.
        wait: Duration,
    },
    /// It has ended.
    Ended(ConnectorEnd),
}

/// Why a [`CanalConnector`](crate::CanalConnector) has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectorEnd {
    /// It was asked to; everything that was handled is acknowledged.
    Stopped,
    /// An error that connecting again does not repair, or one too many in a row.
    Failed(CanalError),
    /// The actor that handles the batches is gone.
    RecipientClosed,
}

/// A snapshot of a [`CanalConnector`](crate::CanalConnector).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectorStatus {
    /// What it does.
    pub state: ConnectorState,
    /// The server it is connected to.
    pub address: Option<String>,
    /// Batches that were pushed since the start, those that came again included.
    pub batches: u64,
    /// Entries in them.
    pub entries: u64,
    /// Rows in these.
    pub rows: u64,
    /// Batches whose handler succeeded since the start.
    pub handled_batches: u64,
    /// Batches whose handler failed since the start.
    pub failed_batches: u64,
    /// Batches that were acknowledged since the start.
    pub acknowledged_batches: u64,
    /// Rollbacks since the start: each has everything come again that is not acknowledged.
    pub rollbacks: u64,
    /// Connections that were opened since the start.
    pub connections: u64,
    /// How often the connector's task panicked and began anew.
    pub panics: u64,
    /// Rows that did not fit their type, since the start: see
    /// [`RowDecoding`](crate::RowDecoding).
    pub undecodable_rows: u64,
    /// How often the server has stalled since the start.
    pub stalls: u64,
    /// Why the database could not be asked how far its binlog goes, if the last question failed.
    pub probe_problem: Option<String>,
    /// Batches that are being handled, or that wait for the end of a transaction.
    pub outstanding_batches: usize,
    /// The last entry of the batch that was handled last.
    pub position: Option<Position>,
    /// When the last entry that was pushed was executed, in milliseconds since 1970.
    pub last_execute_time: Option<i64>,
    /// Whether the last fetch found nothing, so that the connector has all there is. False while the
    /// server has stalled and while it is paused.
    pub caught_up: bool,
    /// Since when it is paused, in milliseconds since 1970.
    pub paused_since_unix_ms: Option<u64>,
    /// When the oldest batch was pushed that is not acknowledged.
    pub(super) oldest_since: Option<Instant>,
}

impl ConnectorStatus {
    pub(super) fn new() -> Self {
        Self {
            state: ConnectorState::Connecting,
            address: None,
            batches: 0,
            entries: 0,
            rows: 0,
            acknowledged_batches: 0,
            rollbacks: 0,
            handled_batches: 0,
            failed_batches: 0,
            connections: 0,
            panics: 0,
            undecodable_rows: 0,
            stalls: 0,
            probe_problem: None,
            outstanding_batches: 0,
            position: None,
            last_execute_time: None,
            caught_up: false,
            paused_since_unix_ms: None,
            oldest_since: None,
        }
    }

    /// How long the oldest batch has waited for its acknowledgement that waits now; `None` if none
    /// does. One that grows on is a handler that hangs, and in the end a server that stops: it holds
    /// only so much unacknowledged.
    pub fn oldest_unacknowledged(&self) -> Option<Duration> {
        self.oldest_since.map(|since| since.elapsed())
    }

    /// Takes note of whether it is paused: nobody knows then what it misses.
    pub(super) fn pause(&mut self, paused: bool) {
        if !paused {
            self.paused_since_unix_ms = None;
        } else if self.paused_since_unix_ms.is_none() {
            self.paused_since_unix_ms = Some(now_unix_ms());
            self.caught_up = false;
        }
    }

    /// How far behind the database the connector is: zero when it has all there is, else the age
    /// of the last entry that was pushed. In whole seconds; it compares the database's clock with
    /// ours. `None` before the first entry.
    pub fn lag(&self) -> Option<Duration> {
        if self.caught_up {
            return Some(Duration::ZERO);
        }
        let executed = u64::try_from(self.last_execute_time?).ok()?;
        let age = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(age.saturating_sub(Duration::from_millis(executed)))
    }
}

/// A connector's status for a console, by [`CanalConnector::status_source`].
///
/// [`CanalConnector::status_source`]: crate::CanalConnector::status_source
#[derive(Debug)]
pub(super) struct ConnectorStatusSource {
    pub(super) destination: String,
    pub(super) status: watch::Receiver<ConnectorStatus>,
    pub(super) desired: watch::Sender<Desired>,
}

impl StatusSource for ConnectorStatusSource {
    fn name(&self) -> String {
        format!("canal {}", self.destination)
    }

    fn snapshot(&self) -> StatusSnapshot {
        let status = self.status.borrow().clone();
        let (state, level) = shown(&status.state);
        let unready = match &status.state {
            ConnectorState::Connecting
            | ConnectorState::Stalled { .. }
            | ConnectorState::BackingOff { .. }
            | ConnectorState::Ended(_) => Some(state.clone()),
            ConnectorState::Standby | ConnectorState::Streaming | ConnectorState::Paused => None,
        };
        let mut snapshot = StatusSnapshot::new(StatusKind::Canal)
            .with_state(state, level)
            .with_unready(unready);
        if let Some(position) = &status.position {
            let text = format!("{}:{}", position.journal, position.offset);
            snapshot = snapshot.with("position", text);
        }
        if let Some(lag) = status.lag() {
            snapshot = snapshot.with_plot("lag", lag.as_secs_f64(), Unit::Seconds, Plot::Value);
        }
        if let Some(address) = &status.address {
            snapshot = snapshot.with("address", address.as_str());
        }
        snapshot = snapshot
            .with_plot(
                "outstanding batches",
                status.outstanding_batches,
                Unit::None,
                Plot::Value,
            )
            .with_plot("rows", status.rows, Unit::None, Plot::Rate)
            .with("entries", status.entries)
            .with("batches", status.batches)
            .with("handled batches", status.handled_batches)
            .with("failed batches", status.failed_batches)
            .with("acknowledged batches", status.acknowledged_batches)
            .with("rollbacks", status.rollbacks)
            .with("connections", status.connections)
            .with("panics", status.panics)
            .with("undecodable rows", status.undecodable_rows)
            .with("stalls", status.stalls)
            .with("caught up", status.caught_up);
        if let Some(since) = status.paused_since_unix_ms {
            snapshot = snapshot.with_unit("paused since", since, Unit::UnixMilliseconds);
        }
        if let Some(age) = status.oldest_unacknowledged() {
            let age = age.as_secs_f64();
            snapshot = snapshot.with_unit("oldest not acknowledged", age, Unit::Seconds);
        }
        match &status.probe_problem {
            Some(problem) => snapshot.with("probe's problem", problem.as_str()),
            None => snapshot,
        }
    }

    fn control(&self) -> Option<Arc<dyn StatusControl>> {
        let ended = matches!(self.status.borrow().state, ConnectorState::Ended(_));
        (!ended).then(|| Arc::new(ConnectorControl(self.desired.clone())) as Arc<dyn StatusControl>)
    }
}

/// A state in words, and how good it is.
fn shown(state: &ConnectorState) -> (String, Level) {
    match state {
        ConnectorState::Connecting => ("connecting".to_owned(), Level::Busy),
        ConnectorState::Standby => ("standby".to_owned(), Level::Neutral),
        ConnectorState::Streaming => ("streaming".to_owned(), Level::Good),
        ConnectorState::Stalled { binlog } => (
            format!("stalled: the binlog is at {binlog}"),
            Level::Warning,
        ),
        ConnectorState::Paused => ("paused".to_owned(), Level::Warning),
        ConnectorState::BackingOff { error, .. } => {
            (format!("backing off: {error}"), Level::Warning)
        }
        ConnectorState::Ended(ConnectorEnd::Stopped) => ("stopped".to_owned(), Level::Neutral),
        ConnectorState::Ended(ConnectorEnd::Failed(error)) => {
            (format!("failed: {error}"), Level::Bad)
        }
        ConnectorState::Ended(ConnectorEnd::RecipientClosed) => {
            ("handler gone".to_owned(), Level::Bad)
        }
    }
}
