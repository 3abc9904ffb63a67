//! What comes due, and when the machine has to be asked next.

#[cfg(test)]
use super::broken;
use super::{Machine, Moment, State};

impl Machine {
    /// When [`Event::Tick`] is needed at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let resends = self
            .members
            .iter()
            .filter_map(|(_, member)| member.outbox.next_due());
        let deadlines = [
            self.state_deadline(),
            self.append_again,
            self.members.next_expiry(),
            self.watchdog_due(),
        ];
        deadlines.into_iter().flatten().chain(resends).min()
    }

    pub(super) fn pass_time(&mut self, now: Moment) {
        if self.append_again.is_some_and(|at| now >= at) {
            self.append_again = None;
            self.append();
        }
        for worker in self.members.expired(self.leases_now(now)) {
            self.lose(now, &worker, "its lease has ended");
        }
        if self.members.lay_ghosts(now) {
            self.look_for_places(now);
        }
        self.pass_state_time(now);
        self.ask_watchdog(now);
        self.push_due(now);
    }

    #[cfg(not(test))]
    pub(super) fn leases_now(&self, now: Moment) -> Moment {
        now
    }

    #[cfg(test)]
    pub(super) fn leases_now(&self, now: Moment) -> Moment {
        match self.broken {
            Some(broken::Broken::LeaseCutShort) => now + self.settings.lease * 3 / 4,
            _ => now,
        }
    }

    pub(super) fn pass_state_time(&mut self, now: Moment) {
        if self.state_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match &self.state {
            State::Started { .. } | State::Unhealthy { .. } => self.look_for_places(now),
            State::Processing { .. } => self.begin_round(now, false),
            State::Round(_) => self.round_time_is_over(now),
            State::Ending { .. } => {
                self.reset(
                    now,
                    "the last cut was not committed within the drain time-out".to_owned(),
                );
            }
            State::Resetting(_) => self.resetting_time_is_over(now),
            State::Opening | State::Failed { .. } | State::Completed => {}
        }
    }

    pub(super) fn state_deadline(&self) -> Option<Moment> {
        match &self.state {
            State::Started { since } => self.place_deadline(*since),
            State::Unhealthy { since, .. } => {
                let failed = self
                    .settings
                    .unhealthy_timeout
                    .map(|timeout| *since + timeout);
                let places = self.place_deadline(*since);
                [failed, places].into_iter().flatten().min()
            }
            State::Processing { next_cut, .. } => *next_cut,
            State::Round(round) => round.deadline(),
            State::Resetting(resetting) => Some(resetting.next_deadline()),
            State::Ending { deadline, .. } => Some(*deadline),
            State::Opening | State::Failed { .. } | State::Completed => None,
        }
    }
}
