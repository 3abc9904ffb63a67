//! A clock that stands still until it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{BootTime, Clock};

/// A clock for simulations: it goes on only by [`advance`](Self::advance). Clones show one time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanoseconds: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that reads zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets so much time pass.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> BootTime {
        BootTime::since_boot(Duration::from_nanos(
            self.nanoseconds.load(Ordering::SeqCst),
        ))
    }
}
