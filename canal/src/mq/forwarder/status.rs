//! What a forwarder shows of itself.

use std::time::{Duration, Instant};

use lockkeeper_core::status::{Level, Plot, StatusKind, StatusSnapshot, StatusSource, Unit};
use tokio::sync::watch;

use crate::mq::error::MqError;

/// What a forwarder has done since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MqForwarderStatus {
    /// Batches of which every message was confirmed by the queue.
    pub batches: u64,
    /// Messages that the queue confirmed. A batch that is tried again counts anew.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Attempts that failed, each followed by another or by giving the batch back.
    pub failures: u64,
    /// Batches that were given back, to come again.
    pub returned: u64,
    /// What the last attempt failed with; `None` when it did not.
    pub error: Option<MqError>,
    /// Since when the batch in work is so.
    pub(super) busy_since: Option<Instant>,
}

impl MqForwarderStatus {
    /// For how long the batch in work has not been confirmed; `None` if there is none.
    pub fn unconfirmed_for(&self) -> Option<Duration> {
        self.busy_since.map(|since| since.elapsed())
    }
}

/// A forwarder's status for a console, by [`MqForwarder::status_source`].
///
/// [`MqForwarder::status_source`]: super::MqForwarder::status_source
#[derive(Debug)]
pub(super) struct ForwarderStatusSource {
    pub(super) topic: String,
    pub(super) status: watch::Receiver<MqForwarderStatus>,
}

impl StatusSource for ForwarderStatusSource {
    fn name(&self) -> String {
        format!("canal to queue {}", self.topic)
    }

    fn snapshot(&self) -> StatusSnapshot {
        let status = self.status.borrow().clone();
        let state = match (&status.error, status.busy_since) {
            (Some(error), _) => (format!("failing: {error}"), Level::Warning),
            (None, Some(_)) => ("forwarding".to_owned(), Level::Good),
            (None, None) => ("idle".to_owned(), Level::Good),
        };
        let unready = status.error.is_some().then(|| state.0.clone());
        let mut snapshot = StatusSnapshot::new(StatusKind::Canal)
            .with_state(state.0, state.1)
            .with_unready(unready)
            .with("batches", status.batches)
            .with_plot("messages", status.messages, Unit::None, Plot::Rate)
            .with_unit("bytes", status.bytes, Unit::Bytes)
            .with("failures", status.failures)
            .with("returned", status.returned);
        if let Some(age) = status.unconfirmed_for() {
            let age = age.as_secs_f64();
            snapshot = snapshot.with_unit("unconfirmed for", age, Unit::Seconds);
        }
        snapshot
    }
}
