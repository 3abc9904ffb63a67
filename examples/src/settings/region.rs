//! `[region]` and `[worker]`: a consistent region's coordinator, and the processes of its operators.

use std::time::Duration;

use lockkeeper_consistent_region::coordinator::{CoordinatorSettings, Shape};
use lockkeeper_consistent_region::worker::WorkerConfig;
use serde::{Deserialize, Serialize};

use super::rules::Rules;

/// See [`CoordinatorSettings`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegionSettings {
    /// Time between two cuts; none: only when asked for.
    pub period: Option<Duration>,
    /// Shortest time between a cut and the next.
    pub min_pause: Duration,
    /// Limit of a cut.
    pub drain_timeout: Duration,
    /// Limit of a reset.
    pub reset_timeout: Duration,
    /// Resets in a row without a cut.
    pub max_consecutive_reset_attempts: u32,
    /// Cuts in a row that may fail without a reset.
    pub tolerable_failed_cuts: u32,
    /// Pause before the second reset in a row.
    pub reset_backoff: Duration,
    /// Workers that the first placement waits for.
    pub workers: usize,
    /// How long a lost worker is waited for.
    pub placement_timeout: Duration,
    /// How long instances may be without a worker; none: for ever.
    pub unhealthy_timeout: Option<Duration>,
    /// How long a worker may act without an answer.
    pub lease: Duration,
    /// How much longer it counts as alive.
    pub lease_margin: Duration,
    /// Pause before an order is sent again.
    pub resend: Duration,
    /// States that may be restored.
    pub retained: usize,
    /// A savepoint that an empty store begins with.
    pub restore_from: Option<String>,
    /// Takes a failed region up again.
    pub clear_failure: bool,
}

impl Default for RegionSettings {
    fn default() -> Self {
        let shape = Shape {
            fingerprint: 0,
            structure: 0,
            trigger: lockkeeper_consistent_region::graph::topology::TriggerKind::Periodic,
            instances: Vec::new(),
        };
        // each field by name: one that is added has to be added here
        let CoordinatorSettings {
            region: _,
            shape: _,
            period,
            min_pause,
            drain_timeout,
            reset_timeout,
            max_consecutive_reset_attempts,
            tolerable_failed_cuts,
            reset_backoff,
            workers,
            placement_timeout,
            unhealthy_timeout,
            lease,
            lease_margin,
            resend,
            retained,
            restore_from,
            clear_failure,
        } = CoordinatorSettings::new("region", shape);
        Self {
            period,
            min_pause,
            drain_timeout,
            reset_timeout,
            max_consecutive_reset_attempts,
            tolerable_failed_cuts,
            reset_backoff,
            workers,
            placement_timeout,
            unhealthy_timeout,
            lease,
            lease_margin,
            resend,
            retained,
            restore_from,
            clear_failure,
        }
    }
}

impl RegionSettings {
    /// For a region of this name and shape.
    #[must_use]
    pub fn coordinator(&self, region: impl Into<String>, shape: Shape) -> CoordinatorSettings {
        CoordinatorSettings {
            region: region.into(),
            shape,
            period: self.period,
            min_pause: self.min_pause,
            drain_timeout: self.drain_timeout,
            reset_timeout: self.reset_timeout,
            max_consecutive_reset_attempts: self.max_consecutive_reset_attempts,
            tolerable_failed_cuts: self.tolerable_failed_cuts,
            reset_backoff: self.reset_backoff,
            workers: self.workers,
            placement_timeout: self.placement_timeout,
            unhealthy_timeout: self.unhealthy_timeout,
            lease: self.lease,
            lease_margin: self.lease_margin,
            resend: self.resend,
            retained: self.retained,
            restore_from: self.restore_from.clone(),
            clear_failure: self.clear_failure,
        }
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        if let Some(period) = self.period {
            rules.time("region.period", period);
        }
        for (key, time) in [
            ("region.drain_timeout", self.drain_timeout),
            ("region.reset_timeout", self.reset_timeout),
            ("region.lease", self.lease),
            ("region.resend", self.resend),
        ] {
            rules.time(key, time);
        }
        if let Some(time) = self.unhealthy_timeout {
            rules.time("region.unhealthy_timeout", time);
        }
        let attempts = self.max_consecutive_reset_attempts;
        let key = "region.max_consecutive_reset_attempts";
        rules.within(key, attempts, 1..=u32::MAX);
        rules.within("region.retained", self.retained, 1..=1_000);
        rules.within("region.workers", self.workers, 1..=10_000);
    }
}

/// See [`WorkerConfig`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerSettings {
    /// How many operator instances it takes.
    pub slots: u16,
    /// What it has to offer.
    pub labels: Vec<String>,
    /// Limit of a registration or message.
    pub call_timeout: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        let config = WorkerConfig::new("worker");
        Self {
            slots: config.slots,
            labels: config.labels,
            call_timeout: config.call_timeout,
        }
    }
}

impl WorkerSettings {
    /// A worker of this name.
    #[must_use]
    pub fn config(&self, name: impl Into<String>) -> WorkerConfig {
        let mut config = WorkerConfig::new(name);
        config.slots = self.slots;
        config.labels.clone_from(&self.labels);
        config.call_timeout = self.call_timeout;
        config
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        rules.within("worker.slots", self.slots, 1..=u16::MAX);
        rules.time("worker.call_timeout", self.call_timeout);
    }
}
