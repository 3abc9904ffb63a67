//! What a console shows of a Canal source: what it does, where it is, how far it is behind, and what
//! is not acknowledged. Written by the operator and by its fetching task.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockkeeper_canal::{CanalError, SimpleCanalConnector};
use lockkeeper_core::status::{Level, Plot, StatusKind, StatusSnapshot, StatusSource, Unit};

use crate::operator::{InstanceContext, RegionHandle};

/// For so long what the server said last is as good as what it would say now.
const FRESH: Duration = Duration::from_secs(1);

/// A source as its instance sees it.
#[derive(Debug)]
pub(super) struct SourceStatus {
    instance: String,
    region: RegionHandle,
    now: Mutex<Now>,
}

/// What the fetching task does.
#[derive(Debug, Default)]
enum State {
    /// There is none: the region has not begun, or goes back to a cut.
    #[default]
    Waits,
    ReadsSpool,
    Connects,
    BacksOff(CanalError),
    Streams,
    Failed(String),
    /// The region has ended, and the server has taken note.
    Finished,
}

#[derive(Debug, Default)]
struct Now {
    state: State,
    /// The operator has taken the last row.
    ended: bool,
    destination: Option<String>,
    address: Option<String>,
    connections: u64,
    taken: Taken,
    last_execute_time: Option<i64>,
    /// When the server had nothing more.
    caught_up: Option<Instant>,
}

/// How far the operator is.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    /// Where the last row lay; empty before the first.
    pub(super) position: String,
    /// Changes since the region's beginning.
    pub(super) changes: u64,
    pub(super) outstanding_batches: usize,
    pub(super) oldest_since: Option<Instant>,
    /// What comes was given to the region before.
    pub(super) replaying: bool,
    pub(super) source_changes: u64,
}

impl SourceStatus {
    pub(super) fn new(context: &InstanceContext) -> Self {
        Self {
            instance: context.instance().to_string(),
            region: context.region().clone(),
            now: Mutex::default(),
        }
    }

    // What the operator does.

    /// No row is fetched until the next start.
    pub(super) fn waits(&self) {
        self.lock().state = State::Waits;
    }

    pub(super) fn takes(&self, taken: Taken, ended: bool) {
        let mut now = self.lock();
        (now.taken, now.ended) = (taken, ended);
    }

    /// A batch came; its last entry was executed then, in milliseconds since 1970.
    pub(super) fn receives(&self, executed: Option<i64>) {
        let mut now = self.lock();
        now.caught_up = None;
        now.last_execute_time = executed.or(now.last_execute_time);
    }

    /// The server has nothing more.
    pub(super) fn catches_up(&self) {
        self.lock().caught_up = Some(Instant::now());
    }

    // What the fetching task does.

    pub(super) fn reads_spool(&self) {
        self.lock().state = State::ReadsSpool;
    }

    pub(super) fn connects(&self, connector: &SimpleCanalConnector) {
        let mut now = self.lock();
        let destination = connector.identity().destination();
        if now.destination.as_deref() != Some(destination) {
            now.destination = Some(destination.to_owned());
        }
        if !matches!(now.state, State::BacksOff(_)) {
            now.state = State::Connects;
        }
        now.address = None;
    }

    pub(super) fn backs_off(&self, error: CanalError) {
        self.lock().state = State::BacksOff(error);
    }

    pub(super) fn streams(&self, connector: &SimpleCanalConnector) {
        let mut now = self.lock();
        now.state = State::Streams;
        now.connections += 1;
        now.address = connector.address().map(ToOwned::to_owned);
    }

    pub(super) fn fails(&self, error: &impl ToString) {
        let mut now = self.lock();
        now.state = State::Failed(error.to_string());
        now.address = None;
    }

    pub(super) fn finishes(&self) {
        let mut now = self.lock();
        now.state = State::Finished;
        now.address = None;
        // What is left is the next client's.
        (now.taken.outstanding_batches, now.taken.oldest_since) = (0, None);
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    /// `paused`: the region's sources are, by hand.
    fn judged(&self, paused: bool) -> (String, Level) {
        let (text, level) = match &self.state {
            State::Streams if self.ended => ("has no more", Level::Neutral),
            // like the region's own card: somebody may have forgotten it
            State::Waits | State::ReadsSpool | State::Streams if paused => {
                ("paused: the region's sources are", Level::Warning)
            }
            State::Waits => ("waits for the region", Level::Neutral),
            State::ReadsSpool => ("reads its spool", Level::Busy),
            State::Connects => ("connecting", Level::Busy),
            State::BacksOff(error) => return (format!("backing off: {error}"), Level::Warning),
            State::Streams if self.taken.replaying => ("streaming again", Level::Busy),
            State::Streams => ("streaming", Level::Good),
            State::Failed(error) => return (format!("failed: {error}"), Level::Bad),
            State::Finished => ("finished", Level::Neutral),
        };
        (text.to_owned(), level)
    }

    /// How far it is behind the database at most. Zero when it has all there is. A source that is not
    /// asked, because the region is paused or has no room, does not know what it misses: then the time
    /// since it knew counts. Else the age of the last entry that came; `None` before the first.
    fn lag(&self) -> Option<Duration> {
        if let Some(since) = self.caught_up.map(|at| at.elapsed()) {
            return Some(if since < FRESH { Duration::ZERO } else { since });
        }
        let executed = u64::try_from(self.last_execute_time?).ok()?;
        let age = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(age.saturating_sub(Duration::from_millis(executed)))
    }
}

impl StatusSource for SourceStatus {
    fn name(&self) -> String {
        format!("canal source {}", self.instance)
    }

    fn snapshot(&self) -> StatusSnapshot {
        let now = self.lock();
        let (state, level) = now.judged(self.region.sources_paused());
        let unready = match now.state {
            State::Connects | State::BacksOff(_) | State::Failed(_) => Some(state.clone()),
            State::Waits | State::ReadsSpool | State::Streams | State::Finished => None,
        };
        let mut snapshot = StatusSnapshot::new(StatusKind::Canal)
            .with_state(state, level)
            .with_unready(unready);
        if let Some(destination) = &now.destination {
            snapshot = snapshot.with("destination", destination.as_str());
        }
        if !now.taken.position.is_empty() {
            snapshot = snapshot.with("position", now.taken.position.as_str());
        }
        if let Some(lag) = now.lag() {
            snapshot = snapshot.with_plot("lag", lag.as_secs_f64(), Unit::Seconds, Plot::Value);
        }
        if let Some(address) = &now.address {
            snapshot = snapshot.with("address", address.as_str());
        }
        let outstanding = now.taken.outstanding_batches;
        snapshot = snapshot
            .with_plot("outstanding batches", outstanding, Unit::None, Plot::Value)
            .with_plot("changes", now.taken.changes, Unit::None, Plot::Rate)
            .with("connections", now.connections)
            .with("source changes", now.taken.source_changes)
            .with("caught up", now.lag() == Some(Duration::ZERO));
        match now.taken.oldest_since {
            Some(since) => {
                let age = since.elapsed().as_secs_f64();
                snapshot.with_unit("oldest not acknowledged", age, Unit::Seconds)
            }
            None => snapshot,
        }
    }
}
