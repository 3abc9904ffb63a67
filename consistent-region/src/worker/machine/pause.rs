//! Whether start operators take anything in: a state of the region that the coordinator tells with each
//! registration and heartbeat.

use super::{Action, Machine, OperatorFacts, Slot};

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
        for launch in self.instances_that(is_source) {
            let held = paused;
            self.actions.push(Action::Hold { launch, held });
        }
    }

    /// An instance that is launched into a pause keeps to it.
    pub(super) fn hold_launched(&mut self, launch: u64) {
        if self
            .slots
            .get(&launch)
            .is_some_and(|slot| self.is_held(slot))
        {
            let held = true;
            self.actions.push(Action::Hold { launch, held });
        }
    }

    pub(super) fn is_held(&self, slot: &Slot) -> bool {
        self.sources_paused && is_source(&slot.facts)
    }
}

/// What is not part of the region is none of its sources.
fn is_source(facts: &OperatorFacts) -> bool {
    facts.start && !facts.autonomous
}
