//! Time that goes on while the machine sleeps, and the deadline after which a leader must not act.
//!
//! `std::time::Instant` is CLOCK_MONOTONIC on Linux and stands still during suspend: a leader on a
//! laptop that was closed for an hour would believe that its lease has just begun. [`SystemClock`]
//! reads CLOCK_BOOTTIME. All readings on one host, in whatever process, are of one clock, which is
//! what lease files rest on; readings of two hosts or two boots must never be compared.

mod deadline;
mod manual;
#[cfg(test)]
pub(crate) mod simulation;
mod system;
#[cfg(test)]
mod tests;

pub use deadline::{DeadlinePassed, LocalDeadline};
pub use manual::ManualClock;
pub use system::SystemClock;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A reading of a [`Clock`]: the time since the machine's boot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootTime(Duration);

impl BootTime {
    /// The moment of boot.
    pub const ZERO: BootTime = BootTime(Duration::ZERO);

    /// A reading of so much time since boot.
    #[must_use]
    pub const fn since_boot(elapsed: Duration) -> Self {
        BootTime(elapsed)
    }

    /// The time since boot.
    #[must_use]
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// This reading plus `later`; the greatest reading if that does not fit.
    #[must_use]
    pub const fn after(self, later: Duration) -> Self {
        BootTime(self.0.saturating_add(later))
    }

    /// The time from `earlier` to this reading, zero if it was not earlier.
    #[must_use]
    pub const fn since(self, earlier: BootTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for BootTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "boot+{:?}", self.0)
    }
}

/// A source of time since boot. Tests pass a [`ManualClock`].
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The reading now; never less than a former one of the same boot.
    fn now(&self) -> BootTime;
}
