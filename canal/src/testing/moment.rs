//! The time that a machine is told: it has no clock of its own.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time, on the clock of waits and on that of commits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    /// Milliseconds since 1970.
    pub(crate) unix: u64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self {
            instant: Instant::now(),
            unix: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
