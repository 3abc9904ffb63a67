//! What a run ends with: its figures, one JSON object.

use std::collections::BTreeMap;

use lockkeeper_consistent_region::point::Point;
use serde::Serialize;

use super::chaos::Kill;
use super::judge::Verdict;
use super::report::Report;

/// The last line of `orders --json`. Times named `_ms` are milliseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Outcome {
    /// Row changes that the output covers; one that moves a row to another customer counts for
    /// both.
    pub rows: u64,
    /// From the first row processed to the end.
    pub seconds: f64,
    /// `rows` / `seconds`.
    pub rows_per_s: f64,
    /// Customers in the output.
    pub customers: u64,
    /// Changes of the truth that the output misses.
    pub lost: u64,
    /// Changes that the output has and the truth has not.
    pub duplicated: u64,
    /// Totals and counts are those of the truth.
    pub totals_match: bool,
    /// Digests are those of the truth.
    pub digest_match: bool,
    /// Workers killed.
    pub worker_kills: u64,
    /// Leading coordinators killed.
    pub leader_kills: u64,
    /// How often another coordinator took the lead.
    pub leader_changes: u64,
    /// Processes stopped (SIGSTOP) beyond their lease and continued.
    pub stops: u64,
    /// Where processes were killed or stopped.
    pub kill_points: Vec<String>,
    /// Cuts in the output.
    pub cuts: u64,
    /// Resets of the region.
    pub resets: u64,
    /// Longest time between two rows processed anywhere in the region.
    pub max_pause_ms: u64,
    /// Longest time from a worker's kill to the first row processed after it; 0 without a kill.
    pub worker_recovery_ms: u64,
    /// Longest time from a leader's kill to the first cut of its successor; 0 without a kill.
    pub leader_recovery_ms: u64,
    /// Longest time from a reset's begin to the first tuple that the source emits after it.
    pub source_recovery_ms: u64,
    /// `embedded` or the server's address.
    pub canal: String,
    /// `file` or `zookeeper`.
    pub election: String,
    /// The seed.
    pub seed: u64,
}

/// Collects the reports of all processes.
#[derive(Debug, Default)]
pub struct Measured {
    first_row: Option<u64>,
    last_row: Option<u64>,
    /// When rows were processed, for the longest pause.
    active: BTreeMap<u64, ()>,
    processed: u64,
    waiting_worker_kill: Option<u64>,
    waiting_leader_kill: Option<(u64, u64)>,
    waiting_reset: Option<u64>,
    term: u64,
    terms_seen: u64,
    last_cut: u64,
    outcome: Outcome,
}

impl Measured {
    /// Takes a line that a process wrote.
    pub fn take(&mut self, report: &Report) {
        match report {
            Report::Rows { at, changes } => {
                self.processed += changes;
                self.first_row.get_or_insert(*at);
                self.last_row = self.last_row.max(Some(*at));
                self.active.insert(*at, ());
            }
            Report::FirstRows { at } => {
                if let Some(killed) = self.waiting_worker_kill.take_if(|killed| *killed <= *at) {
                    longest(&mut self.outcome.worker_recovery_ms, at - killed);
                }
            }
            Report::SourceEmits { at } => {
                if let Some(began) = self.waiting_reset.take_if(|began| *began <= *at) {
                    longest(&mut self.outcome.source_recovery_ms, at - began);
                }
            }
            Report::Leader { term } => {
                self.terms_seen += 1;
                self.term = *term;
            }
            Report::Cut { at, seq, term } => {
                self.last_cut = *seq;
                let successor = |(_, killed_term): &mut (u64, u64)| *killed_term < *term;
                if let Some((killed, _)) = self.waiting_leader_kill.take_if(successor) {
                    longest(
                        &mut self.outcome.leader_recovery_ms,
                        at.saturating_sub(killed),
                    );
                }
            }
            Report::Reset { at, .. } => {
                self.outcome.resets += 1;
                self.waiting_reset = Some(*at);
            }
            Report::Subscribed
            | Report::Status { .. }
            | Report::Happened { .. }
            | Report::Acted { .. }
            | Report::Leads { .. }
            | Report::Kill { .. }
            | Report::Stop { .. }
            | Report::Admin { .. }
            | Report::StopAsked
            | Report::Completed
            | Report::Failed { .. } => {}
        }
    }

    /// A process was killed.
    pub fn killed(&mut self, kill: Kill, at: u64) {
        self.outcome.kill_points.push(kill.point.to_string());
        if kill.hits_leader() {
            self.outcome.leader_kills += 1;
            self.waiting_leader_kill = Some((at, self.term));
        } else {
            self.outcome.worker_kills += 1;
            self.waiting_worker_kill.get_or_insert(at);
        }
    }

    /// A process was stopped.
    pub fn stopped(&mut self, point: Point) {
        self.outcome.kill_points.push(point.to_string());
        self.outcome.stops += 1;
    }

    /// Whether the region has recovered from the last kill.
    #[must_use]
    pub fn has_recovered(&self) -> bool {
        self.waiting_worker_kill.is_none() && self.waiting_leader_kill.is_none()
    }

    /// Changes processed so far, replayed ones included.
    #[must_use]
    pub fn processed(&self) -> u64 {
        self.processed
    }

    /// The newest cut.
    #[must_use]
    pub fn last_cut(&self) -> u64 {
        self.last_cut
    }

    /// The leading coordinator's term.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Kills so far.
    #[must_use]
    pub fn kills(&self) -> u64 {
        self.outcome.worker_kills + self.outcome.leader_kills
    }

    /// The figures, with the judge's verdict.
    #[must_use]
    pub fn outcome(mut self, verdict: &Verdict) -> Outcome {
        let rows = verdict.changes;
        let times: Vec<u64> = self.active.into_keys().collect();
        for pair in times.windows(2) {
            longest(&mut self.outcome.max_pause_ms, pair[1] - pair[0]);
        }
        let span = self
            .last_row
            .zip(self.first_row)
            .map_or(0, |(last, first)| last - first);
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let (seconds, count) = (span as f64 / 1_000.0, rows as f64);
        Outcome {
            rows,
            seconds,
            rows_per_s: if seconds > 0.0 {
                (count / seconds).round()
            } else {
                0.0
            },
            customers: verdict.customers,
            lost: verdict.lost,
            duplicated: verdict.duplicated,
            totals_match: verdict.totals_match,
            digest_match: verdict.digest_match,
            cuts: verdict.cuts,
            leader_changes: self.terms_seen.saturating_sub(1),
            ..self.outcome
        }
    }
}

fn longest(value: &mut u64, candidate: u64) {
    if candidate > *value {
        *value = candidate;
    }
}
