//! What a coordinator must know of its region before it starts.

use std::time::Duration;

use crate::graph::Region;
use crate::graph::topology::Role;
use crate::protocol::InstanceId;

/// The operators of a region as the coordinator sees them: it knows neither types nor streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Fingerprint of the graph; workers with another one are refused.
    pub fingerprint: u64,
    /// Every instance of every operator.
    pub instances: Vec<InstanceShape>,
}

/// One instance in a [`Shape`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceShape {
    /// Which one.
    pub instance: InstanceId,
    /// Tuples enter the region by it.
    pub start: bool,
}

impl From<&Region> for Shape {
    fn from(region: &Region) -> Self {
        let operators = &region.topology().operators;
        let instances = region.plan().instances.iter().map(|planned| InstanceShape {
            instance: planned.id.clone(),
            start: operators[planned.operator].role == Role::Start,
        });
        Self {
            fingerprint: region.fingerprint(),
            instances: instances.collect(),
        }
    }
}

impl Shape {
    pub(crate) fn instances(&self) -> impl Iterator<Item = &InstanceId> {
        self.instances.iter().map(|shape| &shape.instance)
    }

    pub(crate) fn starts(&self) -> impl Iterator<Item = &InstanceId> {
        self.instances
            .iter()
            .filter(|shape| shape.start)
            .map(|shape| &shape.instance)
    }
}

/// How a coordinator drives its region. Start from [`new`](Self::new) and change what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorSettings {
    /// The region's name: 1 to 100 bytes.
    pub region: String,
    /// Its operators.
    pub shape: Shape,
    /// Time between two cuts, counted from the end of the last cut or reset, so that rounds never
    /// pile up; `None` (the default): only when asked for. At least 1 ms.
    pub period: Option<Duration>,
    /// Shortest time between the end of a cut or reset and the next cut, whoever asks for it; a
    /// region that is stopped or has ended takes its last cut at once. Default 0. Not for sources
    /// that need a cut to go on, beyond what their buffers hold meanwhile.
    pub min_pause: Duration,
    /// Limit for drain and checkpoint together, including the non-blocking tail. Default 180 s.
    pub drain_timeout: Duration,
    /// Limit for one reset attempt. Default 180 s.
    pub reset_timeout: Duration,
    /// How many resets may follow one another without a completed cut. Default 5.
    pub max_consecutive_reset_attempts: u32,
    /// Pause before the second consecutive reset, doubled for each further one up to 10 s.
    /// Default 200 ms. The first one follows its cause at once.
    pub reset_backoff: Duration,
    /// How many workers the very first placement waits for (not longer than
    /// `placement_timeout`). Default 1.
    pub workers: usize,
    /// How long a lost worker is waited for before its instances go to others. Default 10 s.
    pub placement_timeout: Duration,
    /// How long the region may be without a place for every instance before it goes to its failed
    /// state; `None` (the default): it waits for ever, and says so.
    pub unhealthy_timeout: Option<Duration>,
    /// How long a worker may act after the send time of its last answered heartbeat. Default 5 s.
    pub lease: Duration,
    /// How much longer the coordinator waits before it takes a silent worker for dead. Default 1 s.
    pub lease_margin: Duration,
    /// Pause before a notice that was not acknowledged is pushed again; doubled each time up to the
    /// lease. Default 200 ms.
    pub resend: Duration,
    /// How many states that may be restored are kept: completed cuts, and the initial state as long
    /// as there are fewer of them. Sources acknowledge what the oldest covers. At least 1;
    /// default 2: one may be damaged.
    pub retained: usize,
    /// Takes a failed region up again when this coordinator takes over, as a forced reset would. For a start by hand, not by a supervisor.
    pub clear_failure: bool,
}

impl CoordinatorSettings {
    /// The defaults, for this region.
    #[must_use]
    pub fn for_region(region: &Region) -> Self {
        Self::new(region.name(), Shape::from(region))
    }

    /// The defaults, for a region of this name and shape.
    #[must_use]
    pub fn new(region: impl Into<String>, shape: Shape) -> Self {
        Self {
            region: region.into(),
            shape,
            period: None,
            min_pause: Duration::ZERO,
            drain_timeout: Duration::from_secs(180),
            reset_timeout: Duration::from_secs(180),
            max_consecutive_reset_attempts: 5,
            reset_backoff: Duration::from_millis(200),
            workers: 1,
            placement_timeout: Duration::from_secs(10),
            unhealthy_timeout: None,
            lease: Duration::from_secs(5),
            lease_margin: Duration::from_secs(1),
            resend: Duration::from_millis(200),
            retained: 2,
            clear_failure: false,
        }
    }

    /// Checks every limit.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let shortest = Duration::from_millis(1);
        let bad = |setting, rule| Err(SettingsError { setting, rule });
        if self.region.is_empty() || self.region.len() > 100 {
            return bad("region", "must have 1 to 100 bytes");
        }
        if self.shape.instances.is_empty() {
            return bad("shape", "must have at least one instance");
        }
        if self.shape.starts().next().is_none() {
            return bad("shape", "must have at least one start operator");
        }
        if self.period.is_some_and(|period| period < shortest) {
            return bad("period", "must be at least 1 ms");
        }
        if self.max_consecutive_reset_attempts == 0 {
            return bad("max_consecutive_reset_attempts", "must be at least 1");
        }
        if self.retained == 0 {
            return bad("retained", "must be at least 1");
        }
        for (setting, value) in [
            ("drain_timeout", self.drain_timeout),
            ("reset_timeout", self.reset_timeout),
            ("lease", self.lease),
            ("resend", self.resend),
        ] {
            if value < shortest {
                return bad(setting, "must be at least 1 ms");
            }
        }
        Ok(())
    }
}

/// A setting that can't be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} {rule}")]
pub struct SettingsError {
    /// Its name.
    pub setting: &'static str,
    /// What it must be.
    pub rule: &'static str,
}
