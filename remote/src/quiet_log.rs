//! Warnings about strangers, at most one a second: a port scan must not fill a disk.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Logs warnings, and counts those it keeps to itself.
#[derive(Debug)]
pub(crate) struct QuietLog(Mutex<State>);

#[derive(Debug)]
struct State {
    last: Option<Instant>,
    kept: u64,
}

impl QuietLog {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            last: None,
            kept: 0,
        }))
    }

    /// Whether to log now, and then how many were kept since the last line.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < PAUSE)
        {
            state.kept += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.kept))
    }

    /// Logs the text, unless a line was logged within the last second.
    pub(crate) fn warn(&self, text: fmt::Arguments<'_>) {
        if let Some(kept) = self.admit(Instant::now()) {
            tracing::warn!(kept, "{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_were_kept() {
        let log = QuietLog::new();
        let start = Instant::now();
        assert_eq!(log.admit(start), Some(0));
        assert_eq!(log.admit(start), None);
        assert_eq!(log.admit(start), None);
        assert_eq!(log.admit(start + PAUSE), Some(2));
    }
}
