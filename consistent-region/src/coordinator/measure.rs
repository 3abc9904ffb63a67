//! The metrics of a region, by the `metrics` façade, at the coordinator that leads it.
//!
//! | name | kind, unit | labels | says |
//! |---|---|---|---|
//! | `lockkeeper_region_term` | gauge | region | the leader's term; 0 while this coordinator does not lead |
//! | `lockkeeper_region_state` | gauge | region, state | 1 for the state it is in, 0 for the others, and for all while it does not lead |
//! | `lockkeeper_region_workers` | gauge | region | registered workers |
//! | `lockkeeper_region_waiting_instances` | gauge | region | operator instances that no worker runs |
//! | `lockkeeper_region_cuts_completed_total` | counter | region | cuts whose manifest was published |
//! | `lockkeeper_region_cuts_failed_total` | counter | region | rounds that came to nothing |
//! | `lockkeeper_region_last_cut_age_seconds` | gauge, s | region | since the last completed cut, or since it began to lead; looked at once a second |
//! | `lockkeeper_region_without_cut_total` | counter | region | how often no cut had completed for three periods |
//! | `lockkeeper_region_round_seconds` | histogram, s | region | from the beginning of a round that completed to its manifest |
//! | `lockkeeper_region_pause_seconds` | histogram, s | region | from the beginning of a round until tuples could flow again |
//! | `lockkeeper_region_phase_seconds` | histogram, s | region, operator, phase | one instance's `start_delay`, `drain`, `prepare` and `write` in a round |
//! | `lockkeeper_region_queued_batches` | histogram | region, operator | batches in front of the marker at one instance's receivers; for a start operator when the cut was triggered |
//! | `lockkeeper_region_state_bytes_total` | counter, bytes | region, operator | state that was written for completed cuts |
//! | `lockkeeper_region_last_cut_bytes` | gauge, bytes | region | state that the last cut's objects hold |
//! | `lockkeeper_region_resets_total` | counter | region | resets that have begun |
//! | `lockkeeper_region_reset_seconds` | histogram, s | region | from the beginning of a reset until everybody stood at the restored cut |
//!
//! A coordinator that does not lead, or was deposed and knows, sets the gauges of what it saw to 0, so that the
//! greatest value of all coordinators is the leader's.

mod operator;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use metrics::{counter, gauge, histogram};

use self::operator::OperatorMetrics;
use super::status::{CompletedCut, RegionEvent, RegionState, RegionStatus};
use crate::protocol::InstanceTimings;

/// How often the age of the last cut is looked at.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// What is measured of one region.
#[derive(Debug)]
pub(super) struct Measure {
    region: String,
    state: Option<RegionState>,
    last_cut: Option<Instant>,
    operators: HashMap<String, OperatorMetrics>,
}

impl Measure {
    pub(super) fn new(region: &str) -> Self {
        let measure = Self {
            region: region.to_owned(),
            state: None,
            last_cut: None,
            operators: HashMap::new(),
        };
        measure.set("lockkeeper_region_term", 0.0);
        measure
    }

    /// It leads from now on.
    pub(super) fn leads(&mut self, term: u64) {
        self.last_cut = Some(Instant::now());
        self.set("lockkeeper_region_term", number(term));
        self.look();
    }

    /// It leads no more.
    pub(super) fn left(&mut self) {
        self.show_state(None);
        self.last_cut = None;
        for name in [
            "lockkeeper_region_term",
            "lockkeeper_region_workers",
            "lockkeeper_region_waiting_instances",
            "lockkeeper_region_last_cut_age_seconds",
        ] {
            self.set(name, 0.0);
        }
    }

    /// Time has passed.
    pub(super) fn look(&self) {
        if let Some(last) = self.last_cut {
            let age = last.elapsed().as_secs_f64();
            self.set("lockkeeper_region_last_cut_age_seconds", age);
        }
    }

    pub(super) fn show(&mut self, status: &RegionStatus) {
        self.show_state(Some(status.state));
        let count = |count: usize| number(u64::try_from(count).unwrap_or(u64::MAX));
        self.set("lockkeeper_region_workers", count(status.workers.len()));
        let waiting = count(status.waiting.len());
        self.set("lockkeeper_region_waiting_instances", waiting);
    }

    fn show_state(&mut self, state: Option<RegionState>) {
        if self.state == state {
            return;
        }
        let former = std::mem::replace(&mut self.state, state);
        for (state, value) in [(former, 0.0), (state, 1.0)] {
            if let Some(state) = state {
                let state = state_name(state);
                gauge!("lockkeeper_region_state", "region" => self.region.clone(), "state" => state)
                    .set(value);
            }
        }
    }

    pub(super) fn told(&mut self, event: &RegionEvent) {
        match event {
            RegionEvent::CutCompleted(cut) => self.cut_completed(cut),
            RegionEvent::CutAborted { .. } => self.count("lockkeeper_region_cuts_failed_total"),
            RegionEvent::ResetBegun { .. } => self.count("lockkeeper_region_resets_total"),
            RegionEvent::ResetCompleted { took, .. } => {
                self.time("lockkeeper_region_reset_seconds", *took);
            }
            RegionEvent::NoCut { .. } => self.count("lockkeeper_region_without_cut_total"),
            _ => {}
        }
    }

    fn cut_completed(&mut self, cut: &CompletedCut) {
        self.last_cut = Some(Instant::now());
        self.look();
        self.count("lockkeeper_region_cuts_completed_total");
        self.time("lockkeeper_region_round_seconds", cut.took);
        self.time("lockkeeper_region_pause_seconds", cut.pause);
        self.set("lockkeeper_region_last_cut_bytes", number(cut.bytes));
        for timings in &cut.timings {
            self.instance(timings);
        }
    }

    fn instance(&mut self, timings: &InstanceTimings) {
        let operator = &timings.instance.operator;
        if let Some(metrics) = self.operators.get(operator) {
            return metrics.record(timings);
        }
        let metrics = OperatorMetrics::new(&self.region, operator);
        metrics.record(timings);
        self.operators.insert(operator.clone(), metrics);
    }

    fn count(&self, name: &'static str) {
        counter!(name, "region" => self.region.clone()).increment(1);
    }

    fn time(&self, name: &'static str, took: Duration) {
        histogram!(name, "region" => self.region.clone()).record(took.as_secs_f64());
    }

    fn set(&self, name: &'static str, value: f64) {
        gauge!(name, "region" => self.region.clone()).set(value);
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        self.left();
    }
}

fn number(value: u64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a metric is a float; what is above 2^53 is rounded"
    )]
    let value = value as f64;
    value
}

fn state_name(state: RegionState) -> &'static str {
    match state {
        RegionState::Opening => "opening",
        RegionState::Started => "started",
        RegionState::Processing => "processing",
        RegionState::Draining => "draining",
        RegionState::CheckpointPending => "checkpoint_pending",
        RegionState::Resetting => "resetting",
        RegionState::Unhealthy => "unhealthy",
        RegionState::Failed => "failed",
        RegionState::Ending => "ending",
        RegionState::Completed => "completed",
    }
}

#[cfg(test)]
mod tests;
