//! The machine's own clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{BootTime, Clock};

/// CLOCK_BOOTTIME on Linux and Android; CLOCK_MONOTONIC elsewhere, which may stand still while
/// the machine sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

impl Clock for SystemClock {
    fn now(&self) -> BootTime {
        let reading = clock_gettime(CLOCK);
        // Both parts of a time since boot are never negative, and nanoseconds are below 10^9.
        let seconds = u64::try_from(reading.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(reading.tv_nsec).unwrap_or(0);
        BootTime::since_boot(Duration::new(seconds, nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let first = SystemClock.now();
        assert!(first > BootTime::ZERO);
        assert!(SystemClock.now() >= first);
    }
}
