//! A round: drain, checkpoint, manifest, resume.

use std::collections::BTreeMap;

use super::{Machine, Moment, Savepoint, State};
use crate::coordinator::record::Retained;
use crate::coordinator::status::{CompletedCut, RegionEvent, RoundPhase, RoundStatus};
use crate::manifest::{CommitToken, MANIFEST_FORMAT, Manifest, ObjectRecord};
use crate::protocol::{InstanceId, InstanceTimings, Order, Stamp};

/// What a worker made durable for a cut.
pub(super) type Results = (Vec<ObjectRecord>, Vec<CommitToken>, Vec<InstanceTimings>);

#[derive(Debug)]
pub(super) struct Round {
    seq: u64,
    attempt: u64,
    last: bool,
    begun: Moment,
    deadline: Moment,
    /// When tuples could flow again.
    resumed: Option<Moment>,
    workers: BTreeMap<String, Part>,
    publication: Publication,
    /// The cut is to be kept.
    pub(super) savepoint: Option<Savepoint>,
    /// Why the cut can't become complete; it is given up when everybody has prepared.
    failed: Option<String>,
}

/// How far one worker is.
#[derive(Debug, Default)]
struct Part {
    blocking: bool,
    results: Option<Results>,
}

#[derive(Debug)]
enum Publication {
    /// Workers still write.
    Collecting,
    /// The entry `number` says that the cut holds what can't be taken back; the manifest follows.
    Announced { number: u64 },
    /// The manifest is on its way to the log. `given_up`: why the region is reset whatever comes.
    Publishing {
        number: u64,
        given_up: Option<String>,
    },
}

impl Round {
    pub(super) fn is_publishing(&self) -> bool {
        matches!(self.publication, Publication::Publishing { .. })
    }

    pub(super) fn status(&self) -> RoundStatus {
        let workers = self.workers.iter().map(|(worker, part)| {
            let phase = match part {
                Part {
                    results: Some(_), ..
                } => RoundPhase::Durable,
                Part { blocking: true, .. } => RoundPhase::Writing,
                Part { .. } => RoundPhase::Draining,
            };
            (worker.clone(), phase)
        });
        RoundStatus {
            seq: self.seq,
            last: self.last,
            workers: workers.collect(),
            publishing: !matches!(self.publication, Publication::Collecting),
        }
    }

    /// Whether tuples flow again.
    pub(super) fn is_resumed(&self) -> bool {
        self.resumed.is_some()
    }

    /// None once the manifest is on its way: whether the cut exists is then the log's to say.
    pub(super) fn deadline(&self) -> Option<Moment> {
        (!self.is_publishing()).then_some(self.deadline)
    }

    /// The region will be reset, but only when it is known whether this cut exists: completing a
    /// round and resetting never overlap.
    pub(super) fn give_up(&mut self, reason: String) {
        if let Publication::Publishing { given_up, .. } = &mut self.publication {
            given_up.get_or_insert(reason);
        }
    }

    fn is_about(&self, stamp: Stamp) -> bool {
        stamp.seq == self.seq && stamp.attempt == self.attempt
    }

    fn all_blocking(&self) -> bool {
        self.workers.values().all(|part| part.blocking)
    }

    fn all_done(&self) -> bool {
        self.workers.values().all(|part| part.results.is_some())
    }
}

impl Machine {
    pub(super) fn begin_round(&mut self, now: Moment, last: bool) {
        let seq = self.seq;
        (self.wishes.cut, self.wishes.cut_by_hand) = (false, false);
        self.record.highest = self.record.highest.max(seq + 1);
        self.record.next_cut = seq;
        self.append();
        let completed = self.record.completed;
        self.order_participants(&Order::Drain { last, completed });
        let part = |worker| (worker, Part::default());
        self.state = State::Round(Round {
            seq,
            attempt: self.record.attempt,
            last,
            begun: now,
            deadline: now + self.settings.drain_timeout,
            resumed: None,
            workers: self.participants().into_iter().map(part).collect(),
            publication: Publication::Collecting,
            savepoint: self.wishes.savepoint.take(),
            failed: None,
        });
        self.tell(RegionEvent::CutBegun { seq, last });
    }

    pub(super) fn blocking_done(&mut self, now: Moment, worker: &str, stamp: Stamp) -> bool {
        let term = self.term;
        let State::Round(round) = &mut self.state else {
            return false;
        };
        if stamp.term != term || !round.is_about(stamp) {
            return false;
        }
        let Some(part) = round.workers.get_mut(worker) else {
            return false;
        };
        let news = !std::mem::replace(&mut part.blocking, true);
        self.everybody_may_have_prepared(now);
        news
    }

    fn everybody_may_have_prepared(&mut self, now: Moment) {
        let State::Round(round) = &mut self.state else {
            return;
        };
        if !round.all_blocking() {
            return;
        }
        match round.failed.take() {
            Some(reason) => self.abandon(now, reason),
            None => self.resume_early(now),
        }
    }

    /// State or output of an instance that has prepared could not be written.
    pub(super) fn cut_failed(&mut self, now: Moment, stamp: Stamp, reason: String) -> bool {
        let term = self.term;
        let State::Round(round) = &mut self.state else {
            return false;
        };
        if stamp.term != term || !round.is_about(stamp) || round.is_publishing() {
            return false;
        }
        round.failed.get_or_insert_with(|| reason.clone());
        if self.may_abandon() {
            self.everybody_may_have_prepared(now);
        } else {
            self.reset(now, reason);
        }
        true
    }

    /// Whether this round may come to nothing without a reset, once everybody has prepared.
    fn may_abandon(&self) -> bool {
        let is_last = matches!(&self.state, State::Round(round) if round.last);
        !is_last && self.failed_cuts < self.settings.tolerable_failed_cuts
    }

    /// The cut comes to nothing, and the region goes on: everybody has prepared and stands right.
    fn abandon(&mut self, now: Moment, reason: String) {
        let State::Round(round) = std::mem::replace(&mut self.state, State::Opening) else {
            return;
        };
        let seq = round.seq;
        self.wishes.savepoint = round.savepoint;
        self.failed_cuts += 1;
        self.tell(RegionEvent::CutAborted { seq, reason });
        self.seq = seq + 1;
        self.record.next_cut = seq + 1;
        self.record.highest = self.record.highest.max(seq + 1);
        self.append();
        self.order_participants(&Order::Abandoned { seq });
        if round.resumed.is_none() {
            self.order_participants(&Order::Resume);
        }
        self.process(now);
        self.tidy();
    }

    pub(super) fn round_time_is_over(&mut self, now: Moment) {
        let State::Round(round) = &self.state else {
            return;
        };
        let reason = "the drain time-out is over".to_owned();
        if round.all_blocking() && self.may_abandon() {
            self.abandon(now, reason);
        } else {
            self.reset(now, reason);
        }
    }

    pub(super) fn checkpoint_done(
        &mut self,
        now: Moment,
        worker: &str,
        stamp: Stamp,
        results: Results,
    ) -> bool {
        let term = self.term;
        let State::Round(round) = &mut self.state else {
            return false;
        };
        if stamp.term != term || !round.is_about(stamp) {
            return false;
        }
        let Some(part) = round.workers.get_mut(worker) else {
            return false;
        };
        if part.results.is_some() {
            return false;
        }
        part.blocking = true;
        part.results = Some(results);
        if round.all_done() {
            self.publish();
        } else {
            self.everybody_may_have_prepared(now);
        }
        true
    }

    /// Everybody has prepared: tuples flow while state is written (non-blocking completion).
    fn resume_early(&mut self, now: Moment) {
        let State::Round(round) = &mut self.state else {
            return;
        };
        if round.is_resumed() || round.last || round.all_done() {
            return;
        }
        round.resumed = Some(now);
        self.seq = round.seq + 1;
        self.order_participants(&Order::Resume);
    }

    fn publish(&mut self) {
        let State::Round(round) = &mut self.state else {
            return;
        };
        let tokens = round
            .workers
            .values()
            .filter_map(|part| part.results.as_ref());
        let irrevocable = tokens
            .flat_map(|(_, tokens, _)| tokens)
            .any(|token| !token.can_take_back);
        if irrevocable && !self.record.irrevocable {
            // Whoever finds the manifest damaged must know that it may not be skipped.
            self.record.irrevocable = true;
            let number = self.record.number + 1;
            round.publication = Publication::Announced { number };
            self.append();
        } else {
            self.publish_manifest();
        }
    }

    fn publish_manifest(&mut self) {
        let number = self.record.number + 1;
        let last = self.all_ended();
        let State::Round(round) = &mut self.state else {
            return;
        };
        round.publication = Publication::Publishing {
            number,
            given_up: None,
        };
        let mut manifest = Manifest {
            format: MANIFEST_FORMAT,
            region: self.settings.region.clone(),
            graph: self.settings.shape.fingerprint,
            seq: round.seq,
            term: self.term,
            attempt: round.attempt,
            previous: self.record.completed,
            published_at_ms: 0,
            last: round.last && last,
            objects: Vec::new(),
            tokens: Vec::new(),
            structure: self.settings.shape.structure,
            widths: self.settings.shape.widths(),
        };
        for (objects, tokens, _) in round
            .workers
            .values()
            .filter_map(|part| part.results.as_ref())
        {
            manifest.objects.extend(objects.iter().cloned());
            manifest.tokens.extend(tokens.iter().cloned());
        }
        manifest.objects.sort_by(|a, b| a.instance.cmp(&b.instance));
        manifest.tokens.sort_by(|a, b| a.instance.cmp(&b.instance));
        let before = self.record.clone();
        let ends = matches!(&self.state, State::Round(round) if round.last);
        self.complete_in_record(manifest.seq, number, ends);
        self.append_entry(Some(manifest));
        // Until the log has it, the cut is not complete.
        self.record = crate::coordinator::record::Record { number, ..before };
    }

    /// With a cut that `ends` the region or this run of it, sources acknowledge all that it covers.
    fn complete_in_record(&mut self, seq: u64, number: u64, ends: bool) {
        let acknowledges = self.settings.shape.acknowledges();
        let record = &mut self.record;
        record.completed = seq;
        record.next_cut = seq + 1;
        record.highest = record.highest.max(seq + 1);
        record.consecutive_resets = 0;
        record.allowed_resets = self.settings.max_consecutive_reset_attempts;
        record.retained.insert(
            0,
            Retained {
                seq,
                entry: number,
                term: self.term,
            },
        );
        // The initial state counts as one of those that are kept, until enough cuts follow it.
        record.initial_state_retained &= record.retained.len() < self.settings.retained;
        record.retained.truncate(self.settings.retained);
        if acknowledges {
            let covered = if ends { seq } else { record.oldest_retained() };
            record.acked_through = record.acked_through.max(covered);
        }
    }

    pub(super) fn round_appended(&mut self, now: Moment, number: u64) {
        let State::Round(round) = &mut self.state else {
            return;
        };
        match &mut round.publication {
            Publication::Announced { number: announced } if number >= *announced => {
                self.publish_manifest();
            }
            Publication::Publishing {
                number: published,
                given_up,
            } if number == *published => {
                let given_up = given_up.take();
                let State::Round(round) = std::mem::replace(&mut self.state, State::Opening) else {
                    return;
                };
                self.completed(now, round, number, given_up);
            }
            _ => {}
        }
    }

    /// The cut exists.
    fn completed(&mut self, now: Moment, mut round: Round, number: u64, given_up: Option<String>) {
        let (seq, last, for_good) = (round.seq, round.last, round.last && self.all_ended());
        self.complete_in_record(seq, number, last);
        let savepoint = round.savepoint.take();
        if let Some(cut) = self.record.retained.first().copied() {
            self.keep_savepoint(savepoint, cut);
        }
        self.failed_cuts = 0;
        self.calm_watchdog(now);
        self.seq = seq + 1;
        let resumed = round.is_resumed();
        self.tell(RegionEvent::CutCompleted(Box::new(summary(&round, now))));
        if let Some(reason) = given_up {
            self.go_back(now, reason);
        } else if last {
            self.order_checkpointed(seq);
            self.begin_ending(now, seq, for_good);
        } else {
            if !resumed {
                self.order_participants(&Order::Resume);
            }
            self.order_checkpointed(seq);
            self.process(now);
        }
        self.tidy();
    }

    fn order_checkpointed(&mut self, seq: u64) {
        let oldest_retained = self.record.oldest_retained();
        self.order_participants(&Order::Checkpointed {
            seq,
            oldest_retained,
        });
    }

    /// Whether the failed entry was this round's manifest.
    pub(super) fn round_append_failed(&mut self, now: Moment, number: u64, reason: &str) -> bool {
        let State::Round(round) = &mut self.state else {
            return false;
        };
        match &mut round.publication {
            Publication::Publishing {
                number: published,
                given_up,
            } if number == *published => {
                let given_up = given_up.take();
                round.publication = Publication::Collecting;
                let reason = format!("the manifest could not be written: {reason}");
                match self.may_abandon() && given_up.is_none() {
                    true => self.abandon(now, reason),
                    false => self.go_back(now, given_up.unwrap_or(reason)),
                }
                true
            }
            // Tried again with a new number, which covers this one.
            _ => false,
        }
    }

    /// Resets, or waits for workers first if some were lost meanwhile.
    fn go_back(&mut self, now: Moment, reason: String) {
        let everybody = self
            .participants()
            .iter()
            .all(|worker| self.members.get(worker).is_some());
        if everybody {
            self.reset(now, reason);
        } else {
            self.abort_round(&reason);
            self.drop_held();
            self.become_unhealthy(now, reason);
            self.look_for_places(now);
        }
    }

    /// If a round is under way it has come to nothing.
    pub(super) fn abort_round(&mut self, reason: &str) {
        if let State::Round(Round { seq, savepoint, .. }) = &mut self.state {
            let seq = *seq;
            self.wishes.savepoint = savepoint.take();
            self.tell(RegionEvent::CutAborted {
                seq,
                reason: reason.to_owned(),
            });
        }
    }

    /// A worker says that an instance failed.
    pub(super) fn failed(
        &mut self,
        now: Moment,
        worker: &str,
        instance: Option<InstanceId>,
        reason: &str,
        permanent: bool,
    ) -> bool {
        let reason = match instance {
            Some(instance) => format!("{instance} on worker {worker} failed: {reason}"),
            None => format!("worker {worker} failed: {reason}"),
        };
        match &mut self.state {
            State::Opening | State::Unhealthy { .. } | State::Failed { .. } | State::Completed => {
                return false;
            }
            State::Started { .. } => self.wishes.reset = Some(reason),
            State::Round(round) if round.is_publishing() => round.give_up(reason),
            _ if permanent => {
                self.abort_round(&reason);
                self.fail(reason);
            }
            _ => self.reset(now, reason),
        }
        true
    }
}

fn summary(round: &Round, now: Moment) -> CompletedCut {
    let results = || {
        round
            .workers
            .values()
            .filter_map(|part| part.results.as_ref())
    };
    CompletedCut {
        seq: round.seq,
        last: round.last,
        pause: round.resumed.unwrap_or(now).saturating_sub(round.begun),
        took: now.saturating_sub(round.begun),
        bytes: results()
            .flat_map(|(objects, ..)| objects)
            .map(|object| object.length)
            .sum(),
        timings: results()
            .flat_map(|(_, _, timings)| timings.clone())
            .collect(),
    }
}
