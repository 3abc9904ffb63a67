//! Which manifests are part of the history: the rule by which every reader decides.
//!
//! The highest base names the manifest that its leader continued, and whose the numbers up to that
//! one are. That leader's own manifests with greater numbers follow. A manifest on no such path was
//! never published, or was left out explicitly, whatever its number.
//!
//! A base repeats what the base below it says, so that nobody needs that one any more: bases never
//! change, and a copy of what cannot change is as good as the original.

use std::collections::{BTreeMap, BTreeSet};

use super::ManifestId;
use super::record::{Base, Segment};

/// The history as seen from one base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain {
    top: Option<u64>,
    newest: Option<ManifestId>,
    members: BTreeMap<u64, u64>,
    left_over: BTreeSet<ManifestId>,
    /// Whose the numbers are, the newest first.
    segments: Vec<Segment>,
}

impl Chain {
    /// What the leader of `epoch` sees from its base; `None` is the sight before the first leader.
    pub(crate) fn seen_from(top: Option<(u64, &Base)>, manifests: BTreeSet<ManifestId>) -> Self {
        let mut chain = Chain {
            left_over: manifests,
            ..Chain::default()
        };
        let Some((epoch, base)) = top else {
            return chain;
        };
        let own = Segment {
            epoch,
            above: base.manifest.map_or(0, |manifest| manifest.sequence),
            up_to: u64::MAX,
        };
        chain.top = Some(epoch);
        chain.segments = std::iter::once(own).chain(base.history.clone()).collect();
        for &manifest in &chain.left_over {
            if chain.segments.iter().any(|part| part.has(manifest)) {
                chain.members.insert(manifest.sequence, manifest.epoch);
            }
        }
        let members = &chain.members;
        chain
            .left_over
            .retain(|manifest| members.get(&manifest.sequence) != Some(&manifest.epoch));
        let newest_own = chain.manifests().rfind(|manifest| own.has(*manifest));
        chain.newest = newest_own.or(base.manifest);
        chain
    }

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

    /// Whose the numbers up to `newest` are: the history of a leader that continues it. Retired
    /// numbers are in no later chain, so a part that has nothing else is not told.
    pub(crate) fn history_up_to(&self, newest: Option<ManifestId>) -> Vec<Segment> {
        let Some(newest) = newest else {
            return Vec::new();
        };
        let parts = self.segments.iter().map(|part| Segment {
            up_to: part.up_to.min(newest.sequence),
            ..*part
        });
        let is_needed = |part: &Segment| {
            part.has(newest) || self.manifests().any(|manifest| part.has(manifest))
        };
        parts
            .filter(|part| part.above < part.up_to)
            .filter(is_needed)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64, epoch: u64) -> ManifestId {
        ManifestId { sequence, epoch }
    }

    /// The chain after these leaders, each of which saw all these manifests up to the one that it took.
    fn chain(bases: &[(u64, Option<ManifestId>)], manifests: &[ManifestId]) -> Chain {
        let manifests: BTreeSet<ManifestId> = manifests.iter().copied().collect();
        let mut chain = Chain::seen_from(None, manifests.clone());
        for &(epoch, manifest) in bases {
            let base = Base {
                manifest,
                left_out: vec![],
                history: chain.history_up_to(manifest),
            };
            chain = Chain::seen_from(Some((epoch, &base)), manifests.clone());
        }
        chain
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

    #[test]
    fn a_base_tells_of_the_leaders_whose_manifests_are_still_there_and_of_no_others() {
        let bases = [
            (1, None),
            (2, Some(id(2, 1))),
            (3, Some(id(2, 1))),
            (4, Some(id(4, 3))),
        ];
        // Epoch 1's are retired, epoch 2 has published nothing.
        let chain = chain(&bases, &[id(3, 3), id(4, 3), id(5, 4)]);
        let of = |epoch, above, up_to| Segment {
            epoch,
            above,
            up_to,
        };
        assert_eq!(
            chain.history_up_to(Some(id(5, 4))),
            [of(4, 4, 5), of(3, 2, 4)]
        );
        assert_eq!(chain.history_up_to(Some(id(3, 3))), [of(3, 2, 3)]);
    }
}
