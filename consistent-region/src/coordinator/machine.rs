//! The coordinator's rules: a pure machine, without I/O, clock, thread or actix.
//!
//! The reference's states and transitions (IBM Streams' region controller; facts in issue 7), with
//! these differences on purpose:
//! - late and repeated acknowledgements are dropped and counted, never fatal
//! - a failure ends the round at once, not through a time-out
//! - a lost worker is waited for a limited time, then its instances go elsewhere
//! - a new coordinator goes on without a reset when nothing was missed
//! - several completed cuts are kept; one that can't be read is skipped, and that is said
//! - everything is acknowledged and repeated until it is
//! - consecutive resets have a growing pause between them
//! - the region ends with a last cut when every start operator has ended
//!
//! Rooms: `members` (registration, leases, placement), `round` (drain to manifest), `reset`,
//! `ending` (last commit, failed state), `savepoints`, `pause` (of the sources), `notices` (orders on their way), `time` (what
//! comes due), `watchdog`, `view` (status).

#[cfg(test)]
mod acknowledged;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod broken;
mod ending;
mod members;
mod notices;
mod pause;
#[cfg(test)]
mod random;
mod reset;
mod round;
mod savepoints;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod table;
mod time;
#[cfg(test)]
mod tolerance;
mod view;
mod watchdog;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use self::reset::Resetting;
use self::round::Round;
use self::savepoints::Savepoint;
use self::watchdog::Watchdog;
use super::event::{Action, Beginning, CommandRefused, Event, Moment, RequestId};
use super::members::Members;
use super::placement::by_worker;
use super::record::{ENTRY_FORMAT, Entry, Record};
use super::settings::CoordinatorSettings;
use super::status::RegionEvent;
use crate::protocol::{InstanceId, Stamp};

/// How many worker epochs a term reserves with its first entry.
const EPOCHS_A_TERM: u64 = 1 << 20;
/// An entry that could not be read may have given out this many sequence numbers.
const SEQS_AN_ENTRY: u64 = 2;
/// Pause before an entry that was not written is tried again.
const APPEND_AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Machine {
    settings: CoordinatorSettings,
    term: u64,
    state: State,
    /// The newest record; `durable` says how far the log has it.
    record: Record,
    durable: u64,
    /// The record's placement by worker: what each step asks it for.
    placed: BTreeMap<String, Arc<[InstanceId]>>,
    append_again: Option<Moment>,
    /// The cut that tuples now belong to.
    seq: u64,
    members: Members,
    /// Workers that were stopped: nobody waits for them to come back.
    left: BTreeSet<String>,
    /// Start operators that have produced their last tuple, in this attempt.
    ended: BTreeSet<InstanceId>,
    wishes: Wishes,
    watchdog: Option<Watchdog>,
    /// Cuts that failed since the last completed one or the last reset.
    failed_cuts: u32,
    /// When the sources were paused by hand, if they are.
    paused_since_unix_ms: Option<u64>,
    stale: u64,
    actions: Vec<Action>,
    #[cfg(test)]
    broken: Option<broken::Broken>,
}

/// What was asked for and has to wait.
#[derive(Debug, Default)]
struct Wishes {
    /// An operator asked: a reset makes it meaningless.
    cut: bool,
    /// Somebody asked by the handle: that holds until a cut begins.
    cut_by_hand: bool,
    /// A final cut, then the end.
    stop: bool,
    /// A reset instead of going on as things stand.
    reset: Option<String>,
    /// The next cut is to be kept.
    savepoint: Option<Savepoint>,
    /// The next reset goes back to this savepoint.
    restore: Option<String>,
}

#[derive(Debug)]
enum State {
    Opening,
    Started {
        since: Moment,
    },
    Processing {
        next_cut: Option<Moment>,
        /// No cut before that, whoever asks for it.
        not_before: Moment,
    },
    Round(Round),
    Resetting(Resetting),
    Unhealthy {
        since: Moment,
        reason: String,
    },
    Failed {
        reason: String,
    },
    Ending {
        seq: u64,
        for_good: bool,
        committed: BTreeSet<String>,
        deadline: Moment,
    },
    Completed,
}

impl Machine {
    /// A term begins: the first entry is on its way, nobody is answered before it is durable.
    pub(crate) fn open(
        now: Moment,
        settings: CoordinatorSettings,
        term: u64,
        beginning: Beginning,
    ) -> (Self, Vec<Action>) {
        let Beginning {
            record,
            unusable_entries: unusable,
        } = beginning;
        let known = record.is_some();
        let mut record = record.unwrap_or_default();
        record.region.clone_from(&settings.region);
        let other_widths = known && record.graph != settings.shape.fingerprint;
        record.graph = settings.shape.fingerprint;
        record.structure = settings.shape.structure;
        record.term = term;
        if !known {
            record.allowed_resets = settings.max_consecutive_reset_attempts;
            record.initial_state_retained = true;
        }
        let last_epoch = record.worker_epochs + EPOCHS_A_TERM * unusable;
        record.worker_epochs = last_epoch + EPOCHS_A_TERM;
        if unusable > 0 {
            allow_for_lost_entries(&mut record, unusable, settings.retained);
        }
        if settings.clear_failure && record.failed.take().is_some() {
            record.consecutive_resets = 0;
            record.allowed_resets = settings.max_consecutive_reset_attempts;
        }
        let mut wishes = Wishes::default();
        if !known {
            wishes.restore.clone_from(&settings.restore_from);
        }
        if other_widths {
            wishes.reset = Some("operators have other widths".to_owned());
        }
        if unusable > 0 {
            wishes.reset = Some(format!("{unusable} entries of the log can't be read"));
        }
        let (lease, margin) = (settings.lease, settings.lease_margin);
        let members = Members::new(now, lease, margin, last_epoch, &record.claims);
        let mut machine = Self {
            seq: record.next_cut,
            settings,
            term,
            state: State::Opening,
            durable: record.number,
            placed: by_worker(&record.placement),
            record,
            append_again: None,
            members,
            left: BTreeSet::new(),
            ended: BTreeSet::new(),
            wishes,
            watchdog: None,
            failed_cuts: 0,
            paused_since_unix_ms: None,
            stale: 0,
            actions: Vec::new(),
            #[cfg(test)]
            broken: None,
        };
        machine.calm_watchdog(now);
        machine.append();
        let actions = std::mem::take(&mut machine.actions);
        (machine, actions)
    }

    /// Something happened at `now`. The actions are to be carried out in their order.
    pub(crate) fn step(&mut self, now: Moment, event: Event) -> Vec<Action> {
        let before = self.state_now();
        match event {
            Event::Register { request, register } => self.register(now, request, &register),
            Event::Heartbeat { request, heartbeat } => self.heartbeat(now, request, &heartbeat),
            Event::Progress { request, progress } => self.progress(now, request, progress),
            Event::Appended { number } => self.appended(now, number),
            Event::AppendFailed { number, reason } => self.append_failed(now, number, reason),
            Event::Chosen { choice, outcome } => self.chosen(now, choice, outcome),
            Event::ProcessGone {
                worker,
                worker_epoch,
            } => {
                self.process_gone(now, &worker, worker_epoch);
            }
            Event::ResetRequested {
                request,
                force,
                reason,
            } => {
                let answer = self.reset_requested(now, force, reason);
                self.actions.push(Action::AnswerCommand { request, answer });
            }
            Event::CutRequested { request } => {
                let answer = self.may_command();
                self.wish(now, request, answer, |wishes| wishes.cut_by_hand = true);
            }
            Event::StopRequested { request } => {
                let answer = self.may_command();
                self.wish(now, request, answer, |wishes| wishes.stop = true);
            }
            Event::PauseRequested {
                request,
                at_unix_ms,
            } => {
                let answer = self.pause_sources(at_unix_ms);
                self.answer(request, answer);
            }
            Event::ResumeRequested { request } => {
                let answer = self.resume_sources();
                self.answer(request, answer);
            }
            Event::SavepointRequested {
                request,
                name,
                stop,
            } => self.savepoint_requested(now, request, name, stop),
            Event::SavepointKept {
                request,
                name,
                seq,
                outcome,
            } => {
                if outcome.is_ok() {
                    self.tell(RegionEvent::SavepointKept { name, seq });
                }
                self.answer(request, outcome);
            }
            Event::SavepointRemoved { request, outcome } => self.answer(request, outcome),
            Event::RestoreRequested { request, name } => self.restore_requested(request, name),
            Event::SavepointFound {
                request,
                name,
                outcome,
            } => self.savepoint_found(now, request, name, outcome),
            Event::ForgetSavepointRequested { request, name } => {
                let remove = Action::RemoveSavepoint { request, name };
                match matches!(self.state, State::Opening) {
                    true => self.answer(request, Err(CommandRefused::NotLeading)),
                    false => self.actions.push(remove),
                }
            }
            Event::Tick => {}
        }
        self.pass_time(now);
        let after = self.state_now();
        if before != after {
            let reason = self.reason();
            self.tell(RegionEvent::State {
                from: before,
                to: after,
                reason,
            });
        }
        std::mem::take(&mut self.actions)
    }

    /// The record changed: the log has to know before anybody else does.
    fn append(&mut self) {
        self.append_entry(None);
    }

    fn append_entry(&mut self, manifest: Option<crate::manifest::Manifest>) {
        self.record.number += 1;
        self.append_again = None;
        let record = self.record.clone();
        let entry = Entry {
            format: ENTRY_FORMAT,
            record,
            manifest,
        };
        self.actions.push(Action::Append(Box::new(entry)));
    }

    fn appended(&mut self, now: Moment, number: u64) {
        self.durable = self.durable.max(number);
        self.round_appended(now, number);
        if matches!(self.state, State::Opening) && self.durable >= self.record.number {
            self.opened(now);
        }
        self.release(now);
    }

    fn append_failed(&mut self, now: Moment, number: u64, reason: String) {
        self.tell(RegionEvent::StoreFailed {
            reason: reason.clone(),
        });
        if self.round_append_failed(now, number, &reason)
            || self.restore_append_failed(now, number, &reason)
        {
            return;
        }
        if number == self.record.number {
            self.append_again = Some(now + APPEND_AGAIN);
        }
    }

    fn opened(&mut self, now: Moment) {
        self.state = if self.record.ended {
            State::Completed
        } else if let Some(reason) = self.record.failed.clone() {
            State::Failed { reason }
        } else {
            State::Started { since: now }
        };
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            term: self.term,
            seq: self.seq,
            attempt: self.record.attempt,
        }
    }

    /// Tuples flow (again): the next cut is a period away, or due now.
    fn process(&mut self, now: Moment) {
        let min_pause = self.settings.min_pause;
        let period = self.settings.period;
        self.state = State::Processing {
            next_cut: period.map(|period| now + period.max(min_pause)),
            not_before: now + min_pause,
        };
        self.grant_wishes(now);
    }

    /// Begins what was waited with until tuples flow.
    fn grant_wishes(&mut self, now: Moment) {
        let is_last = self.wishes.stop || self.all_ended();
        let State::Processing {
            next_cut,
            not_before,
        } = &mut self.state
        else {
            return;
        };
        if let Some(reason) = self.wishes.reset.take() {
            self.reset(now, reason);
        } else if is_last {
            self.begin_round(now, true);
        } else if !(self.wishes.cut || self.wishes.cut_by_hand || self.wishes.savepoint.is_some()) {
            // Nothing is wished for.
        } else if now < *not_before {
            let soon = next_cut.map_or(*not_before, |next| next.min(*not_before));
            *next_cut = Some(soon);
        } else {
            self.begin_round(now, false);
        }
    }

    fn all_ended(&self) -> bool {
        self.settings
            .shape
            .starts()
            .all(|start| self.ended.contains(start))
    }

    fn wish(
        &mut self,
        now: Moment,
        request: RequestId,
        answer: Result<(), CommandRefused>,
        set: impl FnOnce(&mut Wishes),
    ) {
        if answer.is_ok() {
            set(&mut self.wishes);
            self.grant_wishes(now);
        }
        self.actions.push(Action::AnswerCommand { request, answer });
    }

    fn may_command(&self) -> Result<(), CommandRefused> {
        match &self.state {
            State::Failed { reason } => Err(CommandRefused::Failed {
                reason: reason.clone(),
            }),
            State::Completed => Err(CommandRefused::Ended),
            State::Opening => Err(CommandRefused::NotLeading),
            _ => Ok(()),
        }
    }

    fn tidy(&mut self) {
        self.actions.push(Action::Tidy {
            record: Box::new(self.record.clone()),
        });
    }

    fn drop_stale(&mut self) {
        self.stale += 1;
    }

    fn tell(&mut self, event: RegionEvent) {
        self.actions.push(Action::Tell(event));
    }
}

/// What the `lost` newest entries of the log may have said: numbers were given out, cuts completed,
/// and with each of them the oldest kept one was given up, so that sources could acknowledge it.
fn allow_for_lost_entries(record: &mut Record, lost: u64, retained: usize) {
    record.number += lost;
    record.highest += SEQS_AN_ENTRY * lost;
    record.attempt += lost;
    let cuts = usize::try_from(lost).unwrap_or(usize::MAX);
    record.initial_state_retained &= record.retained.len().saturating_add(cuts) < retained;
    record
        .retained
        .truncate(retained.saturating_sub(cuts).max(1));
    if record.irrevocable {
        record.failed = Some(format!(
            "the newest {lost} entries of the log can't be read, and what the sinks committed \
             since can't be taken back"
        ));
    }
}
