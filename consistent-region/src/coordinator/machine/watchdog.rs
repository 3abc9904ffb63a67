//! Says so when no cut completes for long, whatever the reason.

use std::time::Duration;

use super::{Machine, Moment, State};
use crate::coordinator::status::RegionEvent;

/// A region without a cut for so many periods is worth a word.
const PERIODS: u32 = 3;

/// Barks after three periods without a cut, then after six, twelve and so on.
#[derive(Debug)]
pub(super) struct Watchdog {
    since: Moment,
    patience: Duration,
}

impl Watchdog {
    /// `None` for a region without a period: nobody knows when it should cut.
    pub(super) fn new(now: Moment, period: Option<Duration>) -> Option<Self> {
        period.map(|period| Self {
            since: now,
            patience: period * PERIODS,
        })
    }

    fn due(&self) -> Moment {
        self.since + self.patience
    }
}

impl Machine {
    /// A cut has completed, or the term has begun.
    pub(super) fn calm_watchdog(&mut self, now: Moment) {
        let period = self.settings.period.map(|period| {
            // A pause that is wished for is no standstill.
            period.max(self.settings.min_pause)
        });
        self.watchdog = Watchdog::new(now, period);
    }

    pub(super) fn watchdog_due(&self) -> Option<Moment> {
        let is_over = matches!(self.state, State::Failed { .. } | State::Completed);
        self.watchdog
            .as_ref()
            .filter(|_| !is_over)
            .map(Watchdog::due)
    }

    pub(super) fn ask_watchdog(&mut self, now: Moment) {
        if self.watchdog_due().is_none_or(|due| now < due) {
            return;
        }
        let state = self.state_now();
        if let Some(watchdog) = &mut self.watchdog {
            let since = now.saturating_sub(watchdog.since);
            while watchdog.due() <= now {
                watchdog.patience = watchdog.patience.saturating_mul(2);
            }
            self.tell(RegionEvent::NoCut { since, state });
        }
    }
}
