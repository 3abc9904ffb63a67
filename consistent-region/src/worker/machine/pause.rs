//! Whether start operators take anything in: a state of the region that the coordinator tells with each
//! registration and heartbeat.

use crate::protocol::InstanceId;

use super::{Action, Machine, OperatorFacts};

impl Machine {
    pub(crate) fn sources_paused(&self) -> bool {
        self.sources_paused
    }

    /// Takes over what the coordinator says.
    pub(super) fn pause_sources(&mut self, paused: bool) {
        if self.sources_paused == paused {
            return;
        }
        self.sources_paused = paused;
        for instance in self.instances_that(is_source) {
            let held = paused;
            self.actions.push(Action::Hold { instance, held });
        }
    }

    /// An instance that is launched into a pause keeps to it.
    pub(super) fn hold_launched(&mut self, instance: &InstanceId) {
        if self.is_held(instance) {
            let (instance, held) = (instance.clone(), true);
            self.actions.push(Action::Hold { instance, held });
        }
    }

    pub(super) fn is_held(&self, instance: &InstanceId) -> bool {
        let facts = self.setup.operators.get(&instance.operator);
        self.sources_paused && facts.is_some_and(is_source)
    }
}

/// What is not part of the region is none of its sources.
fn is_source(facts: &OperatorFacts) -> bool {
    facts.start && !facts.autonomous
}
