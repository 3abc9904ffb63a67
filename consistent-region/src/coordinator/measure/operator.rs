//! The metrics of one operator: their keys, made once. A region may have a thousand operators, and a cut
//! each second.

use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, with_recorder};

use super::number;
use crate::protocol::InstanceTimings;

const PHASES: [&str; 4] = ["start_delay", "drain", "prepare", "write"];

static METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// What is measured of one operator. The recorder is asked each time: it may be installed later.
#[derive(Debug)]
pub(super) struct OperatorMetrics {
    phases: [Key; PHASES.len()],
    queued: Key,
    bytes: Key,
}

impl OperatorMetrics {
    pub(super) fn new(region: &str, operator: &str) -> Self {
        let labels = || {
            let region = Label::new("region", region.to_owned());
            vec![region, Label::new("operator", operator.to_owned())]
        };
        Self {
            phases: PHASES.map(|phase| {
                let mut labels = labels();
                labels.push(Label::new("phase", phase));
                Key::from_parts("lockkeeper_region_phase_seconds", labels)
            }),
            queued: Key::from_parts("lockkeeper_region_queued_batches", labels()),
            bytes: Key::from_parts("lockkeeper_region_state_bytes_total", labels()),
        }
    }

    /// An instance's part of a completed cut.
    pub(super) fn record(&self, timings: &InstanceTimings) {
        let InstanceTimings {
            start_delay,
            drain,
            prepare,
            write,
            ..
        } = *timings;
        with_recorder(|recorder| {
            let times = [start_delay, drain, prepare, write];
            for (key, microseconds) in self.phases.iter().zip(times) {
                let seconds = Duration::from_micros(microseconds).as_secs_f64();
                recorder.register_histogram(key, &METADATA).record(seconds);
            }
            recorder
                .register_histogram(&self.queued, &METADATA)
                .record(number(timings.queued));
            recorder
                .register_counter(&self.bytes, &METADATA)
                .increment(timings.bytes);
        });
    }
}
