//! What the machine tells whoever asks how the worker stands.

use std::sync::Arc;
use std::time::Duration;

use crate::operator::control::InstanceEvent;
use crate::protocol::{InstanceId, Stamp};

use super::{Dropped, Event, Machine, Registration};

/// How a worker stands, without its clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) registration: RegistrationView,
    pub(crate) lease_until: Option<Duration>,
    pub(crate) stamp: Stamp,
    pub(crate) completed: u64,
    /// Something failed since the last reset.
    pub(crate) failed: bool,
    /// In the order of their launches.
    pub(crate) instances: Vec<(Arc<InstanceId>, InstanceState)>,
    pub(crate) dropped: Dropped,
}

/// Whether a coordinator knows the worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RegistrationView {
    /// None does: it asks for one.
    #[default]
    Asking,
    /// One does, under these numbers.
    Valid { term: u64, epoch: u64 },
    /// It will not ask again.
    Over,
}

/// What an instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstanceState {
    /// It was launched, and goes back to the restore point.
    Resetting,
    /// It takes part in the region.
    Runs,
    /// A start operator that is paused by hand.
    Paused,
    /// A start operator that has no more.
    Ended,
    /// Its actor is over.
    Over,
}

impl Machine {
    pub(crate) fn view(&self) -> View {
        let registration = match self.registration {
            Registration::None { .. } | Registration::Asked { .. } => RegistrationView::Asking,
            Registration::Valid { term, epoch, .. } => RegistrationView::Valid { term, epoch },
            Registration::Over => RegistrationView::Over,
        };
        let instances = self.slots.iter().map(|(launch, slot)| {
            let resets = self.resetting.as_ref();
            let state = match slot.alive {
                false => InstanceState::Over,
                true if resets.is_some_and(|waiting| waiting.contains(launch)) => {
                    InstanceState::Resetting
                }
                true if self.ended.contains(launch) => InstanceState::Ended,
                true if self.is_held(slot) => InstanceState::Paused,
                true => InstanceState::Runs,
            };
            (Arc::clone(&slot.instance), state)
        });
        View {
            registration,
            lease_until: self.lease_until,
            stamp: self.stamp,
            completed: self.completed,
            failed: self.failed,
            instances: instances.collect(),
            dropped: self.dropped,
        }
    }
}

impl Event {
    /// Whether the view may be another one afterwards. An instance's part of a cut changes none, and comes
    /// from every instance with every cut, while a view has a line for each.
    pub(crate) fn is_seen(&self) -> bool {
        match self {
            Event::Report(report) => !matches!(
                report.event,
                InstanceEvent::Prepared
                    | InstanceEvent::NothingToWrite { .. }
                    | InstanceEvent::Durable { .. }
                    | InstanceEvent::Committed { .. }
            ),
            _ => true,
        }
    }
}
