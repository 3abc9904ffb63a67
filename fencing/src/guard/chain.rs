//! Which manifests are part of the history: the rule by which every reader decides.
//!
//! The highest base names the manifest that its leader continued. That leader's own manifests
//! with greater numbers follow it; up to that manifest the history is the one of the leader who
//! wrote it, and so on downwards. A manifest on no such path was never published, or was left out
//! explicitly, whatever its number.

use std::collections::{BTreeMap, BTreeSet};

use super::{Base, ManifestId};

/// The history as seen from one base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain {
    top: Option<u64>,
    newest: Option<ManifestId>,
    members: BTreeMap<u64, u64>,
    left_over: BTreeSet<ManifestId>,
}

impl Chain {
    /// The epoch of the base that it is seen from; none before the first leader.
    #[must_use]
    pub fn top(&self) -> Option<u64> {
        self.top
    }

    /// The newest manifest, where a new leader continues.
    #[must_use]
    pub fn newest(&self) -> Option<ManifestId> {
        self.newest
    }

    /// The manifests that are part of it and not yet retired, the oldest first.
    pub fn manifests(&self) -> impl DoubleEndedIterator<Item = ManifestId> + '_ {
        self.members
            .iter()
            .map(|(&sequence, &epoch)| ManifestId { sequence, epoch })
    }

    /// Whether this manifest is part of it and not yet retired.
    #[must_use]
    pub fn contains(&self, manifest: ManifestId) -> bool {
        self.members.get(&manifest.sequence) == Some(&manifest.epoch)
    }

    /// Manifests in the store that are not part of it: of publishers that stepped down, of
    /// leaders above [`top`](Self::top), and those that were left out explicitly.
    pub fn left_over(&self) -> impl Iterator<Item = ManifestId> + '_ {
        self.left_over.iter().copied()
    }
}

/// Follows the bases downwards, one at a time, as their bytes come in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChainBuilder {
    chain: Chain,
    /// The base that is wanted next.
    wanted: Option<u64>,
    /// Numbers above this belong to bases that were followed already.
    up_to: u64,
}

impl ChainBuilder {
    pub(crate) fn new(top: Option<u64>, manifests: BTreeSet<ManifestId>) -> Self {
        let chain = Chain {
            top,
            left_over: manifests,
            ..Chain::default()
        };
        ChainBuilder {
            chain,
            wanted: top,
            up_to: u64::MAX,
        }
    }

    /// The epoch whose base is wanted next; `None` when the chain is complete.
    pub(crate) fn wanted(&self) -> Option<u64> {
        self.wanted
    }

    pub(crate) fn follow(&mut self, epoch: u64, base: &Base) {
        let begin = base.manifest.map_or(0, |manifest| manifest.sequence);
        let chain = &mut self.chain;
        let own: Vec<ManifestId> = chain
            .left_over
            .iter()
            .copied()
            .filter(|manifest| manifest.epoch == epoch)
            .filter(|manifest| manifest.sequence > begin && manifest.sequence <= self.up_to)
            .collect();
        if chain.top == Some(epoch) {
            chain.newest = own.last().copied().or(base.manifest);
        }
        for manifest in own {
            chain.left_over.remove(&manifest);
            chain.members.insert(manifest.sequence, manifest.epoch);
        }
        self.up_to = begin;
        // Below the lowest number that is still in the store there is nothing to decide.
        let more = chain
            .left_over
            .iter()
            .any(|manifest| manifest.sequence <= begin);
        self.wanted = base
            .manifest
            .map(|manifest| manifest.epoch)
            .filter(|_| more);
    }

    pub(crate) fn finish(self) -> Chain {
        self.chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64, epoch: u64) -> ManifestId {
        ManifestId { sequence, epoch }
    }

    fn chain(bases: &[(u64, Option<ManifestId>)], manifests: &[ManifestId]) -> Chain {
        let top = bases.iter().map(|(epoch, _)| *epoch).max();
        let mut builder = ChainBuilder::new(top, manifests.iter().copied().collect());
        while let Some(epoch) = builder.wanted() {
            let (_, manifest) = bases.iter().find(|(known, _)| *known == epoch).unwrap();
            builder.follow(
                epoch,
                &Base {
                    manifest: *manifest,
                    left_out: vec![],
                },
            );
        }
        builder.finish()
    }

    #[test]
    fn the_greatest_number_is_not_the_newest_manifest() {
        // Epoch 1 wrote 3 after epoch 2 had chosen 2.1 as its base.
        let chain = chain(
            &[(1, None), (2, Some(id(2, 1)))],
            &[id(1, 1), id(2, 1), id(3, 1), id(4, 1), id(3, 2)],
        );
        assert_eq!(chain.newest(), Some(id(3, 2)));
        assert_eq!(
            chain.manifests().collect::<Vec<_>>(),
            [id(1, 1), id(2, 1), id(3, 2)]
        );
        assert_eq!(chain.left_over().collect::<Vec<_>>(), [id(3, 1), id(4, 1)]);
        assert!(!chain.contains(id(3, 1)));
    }

    #[test]
    fn a_leader_without_manifests_continues_its_base() {
        let bases = [(1, None), (2, Some(id(1, 1))), (5, Some(id(1, 1)))];
        let chain = chain(&bases, &[id(1, 1), id(2, 2)]);
        assert_eq!(chain.newest(), Some(id(1, 1)));
        assert_eq!(chain.left_over().collect::<Vec<_>>(), [id(2, 2)]);
    }

    #[test]
    fn before_the_first_leader_there_is_nothing() {
        let chain = chain(&[], &[id(1, 1)]);
        assert_eq!((chain.top(), chain.newest()), (None, None));
        assert_eq!(chain.left_over().count(), 1);
    }
}
