//! What a coordinator must know of its region before it starts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::graph::Region;
use crate::graph::topology::{Role, TriggerKind};
use crate::protocol::InstanceId;

/// The operators of a region as the coordinator sees them: it knows neither types nor streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Fingerprint of the graph; workers with another one are refused.
    pub fingerprint: u64,
    /// The same for graphs that differ in widths only: cuts of such a graph can be restored.
    pub structure: u64,
    /// Who decides when a cut is taken.
    pub trigger: TriggerKind,
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
    /// What it reads from forgets what the oldest kept cut covers
    /// ([`StartOperator::ACKNOWLEDGES`](crate::operator::StartOperator::ACKNOWLEDGES)).
    pub acknowledges: bool,
    /// The labels that a worker must have to run it.
    pub labels: Vec<String>,
}

impl From<&Region> for Shape {
    fn from(region: &Region) -> Self {
        let operators = &region.topology().operators;
        let instances = region.plan().instances.iter().map(|planned| InstanceShape {
            instance: planned.id.clone(),
            start: operators[planned.operator].role == Role::Start,
            acknowledges: region.operator(planned.operator).acknowledges(),
            labels: operators[planned.operator].labels.clone(),
        });
        Self {
            fingerprint: region.fingerprint(),
            structure: region.structure(),
            trigger: region.trigger(),
            instances: instances.collect(),
        }
    }
}

impl Shape {
    pub(crate) fn instances(&self) -> impl Iterator<Item = &InstanceId> {
        self.instances.iter().map(|shape| &shape.instance)
    }

    /// How many instances each operator has.
    pub(crate) fn widths(&self) -> BTreeMap<String, u16> {
        let mut widths = BTreeMap::new();
        for InstanceId { operator, index } in self.instances() {
            let width = widths.entry(operator.clone()).or_insert(0_u16);
            *width = (*width).max(index.saturating_add(1));
        }
        widths
    }

    /// Whether some source can't go back behind the oldest kept cut.
    pub(crate) fn acknowledges(&self) -> bool {
        self.instances.iter().any(|shape| shape.acknowledges)
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
    /// How many cuts may fail one after the other without a reset of the region: state or output
    /// that could not be written in time, a manifest that was not written. Default 0. The region
    /// goes on if every operator has prepared, and can take what it gave away into its next cut
    /// ([`Operator::cut_abandoned`](crate::operator::Operator::cut_abandoned)); a region that is
    /// stopped or has ended tries its last cut again after a reset.
    pub tolerable_failed_cuts: u32,
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
    /// A region whose store knows of no cut and no start yet begins with this savepoint, which lies
    /// in the store already ([`copy_savepoint`](super::copy_savepoint)). Nothing for others: see
    /// [`CoordinatorHandle::restore_savepoint`](super::CoordinatorHandle::restore_savepoint).
    pub restore_from: Option<String>,
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
            tolerable_failed_cuts: 0,
            reset_backoff: Duration::from_millis(200),
            workers: 1,
            placement_timeout: Duration::from_secs(10),
            unhealthy_timeout: None,
            lease: Duration::from_secs(5),
            lease_margin: Duration::from_secs(1),
            resend: Duration::from_millis(200),
            retained: 2,
            restore_from: None,
            clear_failure: false,
        }
    }

    /// The settings of a region that two have become, because their operators meet: the greater of
    /// each parameter, as in the reference (IBM Streams; S2 of the semantics list, issue 7). Name,
    /// shape, savepoint and `clear_failure` are those of `self`.
    ///
    /// # Errors
    /// When one of them has no period: regions whose operators decide when to cut never merge.
    pub fn merged(self, other: &Self) -> Result<Self, SettingsError> {
        let (Some(period), Some(others)) = (self.period, other.period) else {
            return Err(SettingsError {
                setting: "period",
                rule: "must be there in both: only periodic regions can be merged",
            });
        };
        let greater = |ours: Duration, theirs: Duration| ours.max(theirs);
        Ok(Self {
            period: Some(greater(period, others)),
            min_pause: greater(self.min_pause, other.min_pause),
            drain_timeout: greater(self.drain_timeout, other.drain_timeout),
            reset_timeout: greater(self.reset_timeout, other.reset_timeout),
            max_consecutive_reset_attempts: self
                .max_consecutive_reset_attempts
                .max(other.max_consecutive_reset_attempts),
            tolerable_failed_cuts: self.tolerable_failed_cuts.max(other.tolerable_failed_cuts),
            reset_backoff: greater(self.reset_backoff, other.reset_backoff),
            workers: self.workers.max(other.workers),
            placement_timeout: greater(self.placement_timeout, other.placement_timeout),
            // None is the greatest: for ever.
            unhealthy_timeout: self
                .unhealthy_timeout
                .zip(other.unhealthy_timeout)
                .map(|(ours, theirs)| greater(ours, theirs)),
            lease: greater(self.lease, other.lease),
            lease_margin: greater(self.lease_margin, other.lease_margin),
            resend: greater(self.resend, other.resend),
            retained: self.retained.max(other.retained),
            ..self
        })
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
        if self.period.is_some() && self.shape.trigger == TriggerKind::OperatorDriven {
            return bad(
                "period",
                "must be none: the region's start operator decides",
            );
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(period: Option<Duration>) -> CoordinatorSettings {
        let instance = InstanceId {
            operator: "source".to_owned(),
            index: 0,
        };
        let shape = Shape {
            fingerprint: 1,
            structure: 1,
            trigger: TriggerKind::Periodic,
            instances: vec![InstanceShape {
                instance,
                start: true,
                acknowledges: false,
                labels: Vec::new(),
            }],
        };
        CoordinatorSettings {
            period,
            ..CoordinatorSettings::new("region", shape)
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn s2_regions_that_meet_have_the_greater_of_each_parameter() {
        let one = CoordinatorSettings {
            drain_timeout: SECOND,
            reset_timeout: SECOND * 9,
            max_consecutive_reset_attempts: 2,
            unhealthy_timeout: Some(SECOND),
            ..settings(Some(SECOND))
        };
        let other = CoordinatorSettings {
            drain_timeout: SECOND * 3,
            reset_timeout: SECOND * 4,
            max_consecutive_reset_attempts: 7,
            unhealthy_timeout: None,
            ..settings(Some(SECOND * 2))
        };
        let merged = one.clone().merged(&other).unwrap();
        let expected = CoordinatorSettings {
            period: Some(SECOND * 2),
            drain_timeout: SECOND * 3,
            reset_timeout: SECOND * 9,
            max_consecutive_reset_attempts: 7,
            unhealthy_timeout: None,
            ..one.clone()
        };
        assert_eq!(merged, expected);
        assert_eq!(other.merged(&one).unwrap(), expected, "whoever asks");
    }

    #[test]
    fn s2_regions_whose_operators_decide_when_to_cut_never_merge() {
        let (periodic, driven) = (settings(Some(SECOND)), settings(None));
        assert!(periodic.clone().merged(&driven).is_err());
        assert!(driven.merged(&periodic).is_err());
    }

    #[test]
    fn s1_an_operator_driven_region_has_no_period() {
        let mut settings = settings(Some(SECOND));
        settings.shape.trigger = TriggerKind::OperatorDriven;
        let error = settings.validate().unwrap_err();
        assert_eq!(error.setting, "period");
        settings.period = None;
        assert_eq!(settings.validate(), Ok(()));
    }
}
