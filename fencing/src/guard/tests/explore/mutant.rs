//! Rules that are broken on purpose, to show that the search would find it.

use super::{Access, Answer, Leader, World, fence_of};
use crate::guard::name;
use crate::guard::tests::listing::Process;

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::guard::tests) enum Mutant {
    None,
    NoLookAfterBase,
    NoLookAfterManifest,
    ListBeforeFence,
    DeletesWhenSteppingDown,
    ReaderWithoutLook,
    /// A leader does not look which lineage counts.
    AnyLineage,
    /// An adoption does not look at the fences there are.
    AdoptsWithoutLook,
    /// The look after a manifest is a listing only: the leader does not read its own fence.
    LooksWithoutOwnFence,
    /// A reader's look is a listing only: it does not read the fence of the chain's top.
    ReaderWithoutAnchor,
    /// A leader removes as soon as its base is there, and looks afterwards.
    PrunesBeforeLook,
    /// Its own fence is removed with those below it.
    PrunesItsOwnFence,
    /// A base does not tell what those told that are removed.
    ForgetsHistory,
}

impl World {
    /// The answer that a mutant makes up instead of asking the store.
    pub(super) fn made_up(
        &self,
        mutant: Mutant,
        process: Process,
        access: &Access,
    ) -> Option<Answer> {
        let Access::Read { name } = access else {
            return None;
        };
        let reads_a_fence = name.starts_with(name::FENCES);
        match (mutant, process) {
            (Mutant::LooksWithoutOwnFence, Process::Leader(number))
                if reads_a_fence && self.publishes(number) =>
            {
                let own = fence_of(number, self.ghosts.epoch_of(number));
                Some(Answer::Bytes(Some(own.bytes)))
            }
            (Mutant::ReaderWithoutAnchor, Process::Reader) if reads_a_fence => {
                Some(Answer::Bytes(Some(Vec::new())))
            }
            _ => None,
        }
    }

    fn publishes(&self, number: usize) -> bool {
        matches!(self.leaders.get(&number), Some(Leader::Publishing(..)))
    }

    /// What a leader of `epoch` removes; the mutant takes its own fence instead of a former one.
    pub(super) fn removed(&self, mutant: Mutant, epoch: u64, access: Access) -> Access {
        match &access {
            Access::Remove { name }
                if mutant == Mutant::PrunesItsOwnFence && name.starts_with(name::FENCES) =>
            {
                Access::Remove {
                    name: name::fence(epoch),
                }
            }
            _ => access,
        }
    }

    /// Removes all fences and bases below `epoch`.
    pub(super) fn remove_all_former(&mut self, epoch: u64) {
        self.records.retain(|name, _| {
            let names = [name.clone()];
            let numbers = [name::FENCES, name::BASES].map(|prefix| {
                let mut numbers = name::numbers(prefix, &names);
                numbers.next()
            });
            !numbers.iter().flatten().any(|number| *number < epoch)
        });
        let _already_there = self.records.entry(name::PRUNED.to_owned()).or_default();
    }
}
