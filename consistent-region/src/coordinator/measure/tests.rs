//! What a region's coordinator counts, as a recorder sees it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Key, KeyName, Metadata, SharedString, Unit};

use super::*;
use crate::protocol::InstanceId;

/// Keeps the last value of a gauge, the sum of a counter, the sum and the number of a histogram's
/// values, by name and labels.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<BTreeMap<String, f64>>>);

#[derive(Clone)]
struct Cell {
    recorder: Recorder,
    name: String,
}

impl Recorder {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels = key.labels().map(|label| format!(" {}", label.value()));
        let name = format!("{}{}", key.name(), labels.collect::<String>());
        let recorder = self.clone();
        Arc::new(Cell { recorder, name })
    }

    fn value(&self, name: &str) -> Option<f64> {
        let name = format!("lockkeeper_region_{name}");
        self.0.lock().unwrap().get(&name).copied()
    }
}

impl Cell {
    fn change(&self, suffix: &str, change: impl FnOnce(f64) -> f64) {
        let mut cells = self.recorder.0.lock().unwrap();
        let cell = cells.entry(format!("{}{suffix}", self.name)).or_default();
        *cell = change(*cell);
    }
}

impl metrics::CounterFn for Cell {
    fn increment(&self, by: u64) {
        self.change("", |value| value + number(by));
    }

    fn absolute(&self, value: u64) {
        self.change("", |_| number(value));
    }
}

impl metrics::GaugeFn for Cell {
    fn increment(&self, by: f64) {
        self.change("", |value| value + by);
    }

    fn decrement(&self, by: f64) {
        self.change("", |value| value - by);
    }

    fn set(&self, value: f64) {
        self.change("", |_| value);
    }
}

impl metrics::HistogramFn for Cell {
    fn record(&self, value: f64) {
        assert!(value.is_finite() && value >= 0.0);
        self.change(" sum", |sum| sum + value);
        self.change(" count", |count| count + 1.0);
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::from_arc(self.cell(key))
    }
}

/// Carries `body` out with a recorder of its own.
fn recorded(body: impl FnOnce(&Recorder)) {
    let recorder = Recorder::default();
    metrics::with_local_recorder(&recorder, || body(&recorder));
}

fn check(recorder: &Recorder, expected: &[(&str, f64)]) {
    for (name, value) in expected {
        let found = recorder.value(name);
        let equals = found.is_some_and(|found| (found - value).abs() < 1e-9);
        assert!(equals, "{name} is {found:?}, not {value}");
    }
}

fn status(state: RegionState) -> RegionStatus {
    let waiting = |index| InstanceId {
        operator: "totals".to_owned(),
        index,
    };
    RegionStatus {
        region: "r".to_owned(),
        term: 7,
        state,
        reason: None,
        seq: 4,
        completed: 3,
        oldest_retained: 2,
        attempt: 1,
        consecutive_resets: 0,
        round: None,
        sources_paused_since_unix_ms: None,
        workers: Vec::new(),
        waiting: vec![waiting(0), waiting(1)],
        stale_messages: 0,
        finished: false,
    }
}

#[test]
fn a_completed_cut_is_measured_phase_by_phase() {
    recorded(|recorder| {
        let mut measure = Measure::new("r");
        measure.leads(7);
        let timings = |index| InstanceTimings {
            instance: InstanceId {
                operator: "totals".to_owned(),
                index,
            },
            start_delay: 1_000,
            blocking: 9_000,
            write: 4_000,
            bytes: 50,
            drain: 2_000,
            prepare: 3_000,
            queued: 6,
        };
        let cut = CompletedCut {
            seq: 4,
            last: false,
            pause: Duration::from_millis(20),
            took: Duration::from_millis(30),
            bytes: 100,
            timings: vec![timings(0), timings(1)],
        };
        measure.told(&RegionEvent::CutCompleted(Box::new(cut)));
        check(
            recorder,
            &[
                ("cuts_completed_total r", 1.0),
                ("round_seconds r sum", 0.03),
                ("pause_seconds r sum", 0.02),
                ("last_cut_bytes r", 100.0),
                ("phase_seconds r totals start_delay sum", 0.002),
                ("phase_seconds r totals drain sum", 0.004),
                ("phase_seconds r totals prepare sum", 0.006),
                ("phase_seconds r totals write sum", 0.008),
                ("phase_seconds r totals write count", 2.0),
                ("queued_batches r totals sum", 12.0),
                ("state_bytes_total r totals", 100.0),
            ],
        );
    });
}

#[test]
fn failed_cuts_resets_and_long_waits_are_counted() {
    recorded(|recorder| {
        let mut measure = Measure::new("r");
        measure.leads(7);
        let (reason, seq, attempt) = (String::new(), 4, 2);
        let begun = RegionEvent::ResetBegun {
            attempt,
            reason: reason.clone(),
        };
        measure.told(&RegionEvent::CutAborted { seq, reason });
        measure.told(&begun);
        measure.told(&RegionEvent::ResetCompleted {
            attempt,
            restored: 3,
            took: Duration::from_millis(40),
        });
        measure.told(&RegionEvent::NoCut {
            since: Duration::from_secs(3),
            state: RegionState::Unhealthy,
        });
        check(
            recorder,
            &[
                ("cuts_failed_total r", 1.0),
                ("resets_total r", 1.0),
                ("reset_seconds r sum", 0.04),
                ("without_cut_total r", 1.0),
            ],
        );
    });
}

#[test]
fn one_state_is_shown_at_a_time_and_none_by_who_does_not_lead() {
    recorded(|recorder| {
        let mut measure = Measure::new("r");
        check(recorder, &[("term r", 0.0)]);
        measure.leads(7);
        measure.show(&status(RegionState::Processing));
        let leading = [
            ("term r", 7.0),
            ("state r processing", 1.0),
            ("waiting_instances r", 2.0),
        ];
        check(recorder, &leading);
        measure.show(&status(RegionState::Unhealthy));
        let unhealthy = [("state r processing", 0.0), ("state r unhealthy", 1.0)];
        check(recorder, &unhealthy);
        measure.left();
        let deposed = [
            ("term r", 0.0),
            ("state r unhealthy", 0.0),
            ("waiting_instances r", 0.0),
            ("last_cut_age_seconds r", 0.0),
        ];
        check(recorder, &deposed);
    });
}
