//! A process of the cluster, as the one that started it sees it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Mutex;

use lockkeeper_core::status::{Level, StatusEvent, StatusKind, StatusSnapshot, StatusSource, Unit};
use tokio::sync::broadcast;

use super::lock;

/// Events that a slow reader may be behind.
const EVENTS: usize = 64;

#[derive(Debug)]
pub(super) struct ProcessSource {
    name: String,
    state: Mutex<State>,
    events: broadcast::Sender<StatusEvent>,
}

#[derive(Debug, Default)]
struct State {
    pid: Option<u32>,
    since: u64,
    starts: u64,
    has_told: bool,
    is_stopped: bool,
    last_end: Option<String>,
}

impl ProcessSource {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
        }
    }

    pub(super) fn started(&self, pid: Option<u32>) {
        let mut state = lock(&self.state);
        state.starts += 1;
        state.pid = pid;
        let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
        let event = StatusEvent::now(match state.starts {
            1 => format!("started, process {pid}"),
            _ => format!("started again, process {pid}"),
        });
        state.since = event.at_unix_ms;
        self.tell(event);
    }

    pub(super) fn ended(&self, status: Option<ExitStatus>) {
        let mut state = lock(&self.state);
        let end = match status.map(|status| (status.signal(), status)) {
            Some((Some(signal), _)) => format!("killed by signal {signal}"),
            Some((None, status)) => format!("ended by itself: {status}"),
            None => "ended".to_owned(),
        };
        let pid = state.pid.take();
        let who = pid.map_or_else(String::new, |pid| format!("process {pid} was "));
        let event = StatusEvent::now(format!("{who}{end}")).with_level(Level::Bad);
        state.since = event.at_unix_ms;
        state.last_end = Some(end);
        (state.has_told, state.is_stopped) = (false, false);
        self.tell(event);
    }

    /// It is up: it tells how it is.
    pub(super) fn has_told(&self) {
        let mut state = lock(&self.state);
        state.has_told = true;
        if std::mem::take(&mut state.is_stopped) {
            self.tell(StatusEvent::now("runs again").with_level(Level::Good));
        }
    }

    pub(super) fn kills_itself(&self, point: &str) {
        let event = StatusEvent::now(format!("kills itself at {point}"));
        self.tell(event.with_level(Level::Warning));
    }

    pub(super) fn stops_itself(&self, point: &str) {
        lock(&self.state).is_stopped = true;
        let event = StatusEvent::now(format!("stops itself at {point}"));
        self.tell(event.with_level(Level::Warning));
    }

    fn tell(&self, event: StatusEvent) {
        // Nobody listens: nobody is told.
        let _ = self.events.send(event);
    }
}

impl StatusSource for ProcessSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn snapshot(&self) -> StatusSnapshot {
        let state = lock(&self.state);
        let (text, level) = match &*state {
            State { pid: None, .. } => ("down", Level::Bad),
            State {
                is_stopped: true, ..
            } => ("stopped", Level::Bad),
            State {
                has_told: false, ..
            } => ("starting", Level::Busy),
            _ => ("running", Level::Good),
        };
        let unready = (level != Level::Good).then(|| text.to_owned());
        let mut snapshot = StatusSnapshot::new(StatusKind::Process)
            .with_state(text, level)
            .with_unready(unready);
        if let Some(pid) = state.pid {
            // a name, not a number to be read in groups
            snapshot = snapshot.with("process", pid.to_string());
        }
        snapshot = snapshot
            .with_unit("since", state.since, Unit::UnixMilliseconds)
            .with("starts", state.starts);
        match &state.last_end {
            Some(end) => snapshot.with("last end", end.as_str()),
            None => snapshot,
        }
    }

    fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
        Some(self.events.subscribe())
    }
}
