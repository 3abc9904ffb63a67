//! What a console shows of a worker: its registration and lease, its link to the coordinator, and the
//! instances that it runs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::status::{
    Level, StatusKind, StatusSnapshot, StatusSource, StatusTable, StatusValue, Unit,
};

use super::lease::since_boot;
use super::machine::{Event, InstanceState, RegistrationView, View};

/// A worker as it sees itself. Written by its actor.
#[derive(Debug)]
pub(super) struct WorkerSource {
    region: String,
    worker: String,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    view: View,
    /// Why the coordinator has not answered the last request.
    link_problem: Option<String>,
}

impl WorkerSource {
    pub(super) fn new(region: &str, worker: &str) -> Self {
        Self {
            region: region.to_owned(),
            worker: worker.to_owned(),
            now: Mutex::default(),
        }
    }

    /// Takes note of how the coordinator answers.
    pub(super) fn hear(&self, event: &Event) {
        let answer = match event {
            Event::RegisterAnswered(answer) => answer.as_ref().err(),
            Event::HeartbeatAnswered(answer) => answer.as_ref().err(),
            Event::ProgressAnswered(answer) => answer.as_ref().err(),
            _ => return,
        };
        self.lock().link_problem = answer.map(ToString::to_string);
    }

    pub(super) fn show(&self, view: View) {
        self.lock().view = view;
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatusSource for WorkerSource {
    fn name(&self) -> String {
        format!("worker {} of {}", self.worker, self.region)
    }

    fn snapshot(&self) -> StatusSnapshot {
        let now = self.lock();
        let view = &now.view;
        let lease = view
            .lease_until
            .map_or(Duration::ZERO, |until| until.saturating_sub(since_boot()));
        let (state, level) = judged(view, lease);
        let unready = match view.registration {
            RegistrationView::Asking => Some(match &now.link_problem {
                Some(problem) => format!("{state}: {problem}"),
                None => state.to_owned(),
            }),
            RegistrationView::Valid { .. } | RegistrationView::Over => None,
        };
        let coordinator = match (&now.link_problem, view.registration) {
            (Some(problem), _) => problem.as_str(),
            (None, RegistrationView::Valid { .. }) => "answers",
            (None, _) => "not heard of",
        };
        let mut snapshot = StatusSnapshot::new(StatusKind::Region)
            .with_state(state, level)
            .with_unready(unready)
            .with("coordinator", coordinator)
            .with_unit("lease", lease.as_secs_f64(), Unit::Seconds);
        if let RegistrationView::Valid { term, epoch } = view.registration {
            snapshot = snapshot.with("term", term).with("registration", epoch);
        }
        snapshot
            .with("newest complete cut", view.completed)
            .with("reset", view.stamp.attempt)
            .with("repeated notices", view.dropped.repeated_notices)
            .with("stale notices", view.dropped.stale_notices)
            .with("stale reports", view.dropped.stale_reports)
            .with_table(instances(view))
    }
}

fn judged(view: &View, lease: Duration) -> (&'static str, Level) {
    match view.registration {
        RegistrationView::Over => ("over", Level::Neutral),
        RegistrationView::Asking if lease.is_zero() => ("registers", Level::Busy),
        RegistrationView::Asking => ("registers anew", Level::Warning),
        RegistrationView::Valid { .. } if view.instances.is_empty() => {
            ("registered, runs nothing", Level::Good)
        }
        RegistrationView::Valid { .. } if view.failed => ("waits for a reset", Level::Warning),
        RegistrationView::Valid { .. } => ("registered", Level::Good),
    }
}

fn instances(view: &View) -> StatusTable {
    let columns = [("instance", Unit::None), ("state", Unit::None)];
    let table = StatusTable::new("instances", columns);
    let mut instances: Vec<_> = view.instances.iter().collect();
    instances.sort_by(|(one, _), (other, _)| one.cmp(other));
    instances
        .into_iter()
        .fold(table, |table, (instance, state)| {
            let state = match state {
                InstanceState::Resetting => "resets",
                InstanceState::Runs => "runs",
                InstanceState::Paused => "paused",
                InstanceState::Ended => "has no more",
                InstanceState::Over => "over",
            };
            table.with_row([StatusValue::from(instance.to_string()), state.into()])
        })
}
