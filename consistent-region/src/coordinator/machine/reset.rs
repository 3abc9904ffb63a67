//! Setting the region back to its newest readable cut.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Action, Machine, Moment, State};
use crate::coordinator::event::{Choice, CommandRefused};
use crate::coordinator::members::Member;
use crate::coordinator::placement::by_worker;
use crate::coordinator::record::Claim;
use crate::coordinator::status::RegionEvent;
use crate::manifest::{Manifest, RestorePoint};
use crate::protocol::Order;

/// The longest pause between two consecutive resets.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// Pause before the store is asked again what there is to restore.
const CHOOSE_AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Resetting {
    reason: String,
    begun: Moment,
    deadline: Moment,
    phase: Phase,
    /// The entry that takes a savepoint's cut up, and the savepoint.
    taken_up: Option<(u64, String)>,
}

#[derive(Debug)]
enum Phase {
    /// Not before that moment.
    BackingOff { until: Moment },
    /// The store looks for the newest readable cut.
    Choosing,
    /// Workers set their instances back.
    Ordered {
        restored: u64,
        last: bool,
        done: BTreeSet<String>,
    },
}

impl Resetting {
    pub(super) fn next_deadline(&self) -> Moment {
        match self.phase {
            Phase::BackingOff { until } => until.min(self.deadline),
            _ => self.deadline,
        }
    }

    pub(super) fn reason(&self) -> &str {
        &self.reason
    }
}

impl Machine {
    /// Begins a new attempt: whatever was under way is void from now on.
    pub(super) fn reset(&mut self, now: Moment, reason: String) {
        self.abort_round(&reason);
        self.drop_held();
        self.ended.clear();
        self.failed_cuts = 0;
        self.wishes.cut = false;
        self.wishes.reset = None;
        if self.record.consecutive_resets >= self.record.allowed_resets {
            let count = self.record.consecutive_resets;
            return self.fail(format!(
                "{count} resets without a completed cut; the last: {reason}"
            ));
        }
        let pause = self.backoff();
        let record = &mut self.record;
        record.consecutive_resets += 1;
        record.attempt += 1;
        record.highest += 1;
        record.next_cut = record.highest;
        #[cfg(test)]
        if self.broken == Some(super::broken::Broken::NumberUsedAgain) {
            record.highest = self.seq.max(1);
            record.next_cut = record.highest;
        }
        self.seq = record.highest;
        self.tell(RegionEvent::ResetBegun {
            attempt: self.record.attempt,
            reason: reason.clone(),
        });
        self.state = State::Resetting(Resetting {
            reason,
            begun: now,
            deadline: now + pause + self.settings.reset_timeout,
            phase: Phase::BackingOff { until: now + pause },
            taken_up: None,
        });
        self.resetting_time_is_over(now);
    }

    /// The first reset follows its cause at once, further ones wait longer and longer.
    fn backoff(&self) -> Duration {
        match self.record.consecutive_resets {
            0 => Duration::ZERO,
            earlier => {
                let doubled = 1_u32.checked_shl(earlier - 1).unwrap_or(u32::MAX);
                self.settings
                    .reset_backoff
                    .saturating_mul(doubled)
                    .min(LONGEST_BACKOFF)
            }
        }
    }

    pub(super) fn resetting_time_is_over(&mut self, now: Moment) {
        let State::Resetting(resetting) = &mut self.state else {
            return;
        };
        if now >= resetting.deadline {
            let reason = format!(
                "a reset was not done in time; its cause: {}",
                resetting.reason
            );
            self.reset(now, reason);
        } else if matches!(resetting.phase, Phase::BackingOff { until } if now >= until) {
            resetting.phase = Phase::Choosing;
            let record = Box::new(self.record.clone());
            self.actions.push(Action::ChooseRestorePoint {
                choice: record.attempt,
                record,
                savepoint: self.wishes.restore.clone(),
            });
        }
    }

    pub(super) fn chosen(&mut self, now: Moment, choice: u64, outcome: Choice) {
        let State::Resetting(resetting) = &mut self.state else {
            return self.drop_stale();
        };
        if choice != self.record.attempt || !matches!(resetting.phase, Phase::Choosing) {
            return self.drop_stale();
        }
        match outcome {
            Choice::Unavailable { reason } => {
                resetting.phase = Phase::BackingOff {
                    until: now + CHOOSE_AGAIN,
                };
                self.tell(RegionEvent::StoreFailed { reason });
            }
            Choice::Impossible { reason } => self.fail(reason),
            Choice::Restore {
                restore,
                last,
                retained,
                left_out,
                manifest,
            } => {
                for (from, reason) in left_out {
                    self.tell(RegionEvent::FellBack { from, reason });
                }
                if manifest.is_none() {
                    self.record.completed = restore.as_ref().map_or(0, |restore| restore.seq);
                    self.record.retained = retained;
                }
                self.order_reset(now, restore, last, manifest);
            }
        }
    }

    fn order_reset(
        &mut self,
        now: Moment,
        restore: Option<RestorePoint>,
        is_last: bool,
        manifest: Option<Box<Manifest>>,
    ) {
        let placement = match self.new_placement() {
            Ok(placement) => placement,
            Err(waiting) => {
                let reason = self.missing_places(&waiting);
                return self.become_unhealthy(now, reason);
            }
        };
        let first_start = self.record.placement.is_empty() && restore.is_none();
        self.placed = by_worker(&placement);
        self.record.placement = placement.into();
        self.record.claims = self.claims();
        let savepoint = self.wishes.restore.clone().unwrap_or_default();
        let taken_up = match manifest {
            Some(manifest) => Some((self.take_up(*manifest), savepoint)),
            None => {
                self.append();
                None
            }
        };
        let restored = self.record.completed;
        let placement = self.placement();
        self.order_everybody(&Order::Reset {
            placement,
            restore,
            first_start,
        });
        if let State::Resetting(resetting) = &mut self.state {
            resetting.taken_up = taken_up;
            resetting.phase = Phase::Ordered {
                restored,
                last: is_last,
                done: BTreeSet::new(),
            };
        }
    }

    /// Whether the failed entry was the one that took a savepoint up: nothing else has its manifest.
    pub(super) fn restore_append_failed(&mut self, now: Moment, number: u64, reason: &str) -> bool {
        let State::Resetting(resetting) = &mut self.state else {
            return false;
        };
        let Some((_, name)) = resetting.taken_up.take_if(|(entry, _)| *entry == number) else {
            return false;
        };
        self.wishes.restore = Some(name);
        self.reset(now, format!("the savepoint was not taken up: {reason}"));
        true
    }

    fn claims(&self) -> Vec<Claim> {
        let lasts = self.settings.lease + self.settings.lease_margin;
        let participants = self.participants();
        let members = self
            .members
            .iter()
            .filter(|(worker, _)| participants.contains(*worker));
        let claim = |(worker, member): (&str, &Member)| Claim {
            worker: worker.to_owned(),
            incarnation: member.incarnation,
            process: member.process.clone(),
            lasts,
        };
        members.map(claim).collect()
    }

    pub(super) fn reset_done(&mut self, now: Moment, worker: &str) -> bool {
        let participants = self.participants();
        let State::Resetting(resetting) = &mut self.state else {
            return false;
        };
        let Phase::Ordered {
            restored,
            last,
            done,
        } = &mut resetting.phase
        else {
            return false;
        };
        let news = done.insert(worker.to_owned());
        if *done != participants {
            return news;
        }
        let (restored, last) = (*restored, *last);
        let took = now.saturating_sub(resetting.begun);
        self.tell(RegionEvent::ResetCompleted {
            attempt: self.record.attempt,
            restored,
            took,
        });
        if last {
            // Its outputs were committed again by the reset: nothing is left to do.
            self.end(restored, true);
        } else {
            self.order_participants(&Order::Resume);
            self.process(now);
        }
        self.tidy();
        news
    }

    pub(super) fn reset_requested(
        &mut self,
        now: Moment,
        force: bool,
        reason: String,
    ) -> Result<(), CommandRefused> {
        if force {
            self.record.allowed_resets = self
                .record
                .consecutive_resets
                .saturating_add(self.settings.max_consecutive_reset_attempts);
        }
        match &mut self.state {
            State::Opening => return Err(CommandRefused::NotLeading),
            State::Completed => return Err(CommandRefused::Ended),
            State::Failed { .. } if force => {
                self.record.failed = None;
                self.become_unhealthy(now, reason);
                self.look_for_places(now);
            }
            State::Failed { reason } => {
                return Err(CommandRefused::Failed {
                    reason: reason.clone(),
                });
            }
            State::Started { .. } => self.wishes.reset = Some(reason),
            // Every way out of it is a reset.
            State::Unhealthy { .. } => {}
            State::Round(round) if round.is_publishing() => round.give_up(reason),
            _ => self.reset(now, reason),
        }
        Ok(())
    }
}
