//! A leader between its fence and its base: it looks at the chain and chooses where to continue.

use std::sync::Arc;

use uuid::Uuid;

use super::procedure::{self, Announce, Look, OwnFence, Settle};
use super::record::{Base, LeftOut};
use super::store::{GuardStore, Guarded};
use super::{Chain, EpochGuard, GuardError, ManifestId};

/// How often an unreadable manifest is read before it is given up.
const READ_ATTEMPTS: usize = 3;

/// Why a manifest's bytes cannot be used: checksum, missing data file, unknown format, ….
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

/// A leader that has created its fence and not yet its base.
///
/// Nothing irreversible may be done yet. [`continue_from_newest`](Self::continue_from_newest)
/// takes the newest manifest unseen; [`continue_from_usable`](Self::continue_from_usable) lets
/// the caller verify it and falls back explicitly.
#[derive(Debug)]
pub struct Entering {
    store: Arc<dyn GuardStore>,
    own: OwnFence,
    chain: Chain,
}

impl Entering {
    pub(super) fn announce(
        store: Arc<dyn GuardStore>,
        epoch: u64,
    ) -> Result<Guarded<Entering>, GuardError> {
        let own = OwnFence::new(epoch, Uuid::new_v4())?;
        let announce = Announce::new(own.clone());
        Ok(match procedure::run(store.as_ref(), announce)? {
            Guarded::Done(chain) => Guarded::Done(Entering { store, own, chain }),
            Guarded::SteppedDown { highest } => Guarded::SteppedDown { highest },
        })
    }

    /// The chain as former leaders left it.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The bytes of a manifest.
    ///
    /// # Errors
    /// Those of the store.
    pub fn read(&self, manifest: ManifestId) -> Result<Option<Vec<u8>>, GuardError> {
        self.store.read(&manifest.name())
    }

    /// Takes the newest manifest of the chain as the base.
    ///
    /// # Errors
    /// Those of the store; after any of them this epoch is lost.
    pub fn continue_from_newest(self) -> Result<Guarded<EpochGuard>, GuardError> {
        let newest = self.chain.newest();
        self.settle(newest, Vec::new())
    }

    /// Takes the newest manifest that `verify` accepts. An unusable one is read and verified
    /// three times before the one below it is taken; the base then names what it leaves out.
    ///
    /// `floor` is the lowest sequence that may be taken: what was acknowledged to a source or
    /// committed to a sink bounds how far one may fall back. Floor 0 allows to begin with nothing.
    /// A series that has no manifest yet begins with nothing whatever the floor.
    ///
    /// # Errors
    /// [`GuardError::FallBackRefused`] when nothing down to the floor can be used; those of the
    /// store. After any of them this epoch is lost.
    pub fn continue_from_usable(
        self,
        floor: u64,
        mut verify: impl FnMut(ManifestId, &[u8]) -> Result<(), Unusable>,
    ) -> Result<Guarded<EpochGuard>, GuardError> {
        let mut left_out: Vec<LeftOut> = Vec::new();
        let candidates: Vec<ManifestId> = match self.chain.newest() {
            // The newest is looked for even if its file is gone: that has to be told, not skipped.
            Some(newest) => {
                let older = self.chain.manifests().rev();
                let older = older.filter(|manifest| manifest.sequence < newest.sequence);
                std::iter::once(newest).chain(older).collect()
            }
            None => return self.settle(None, left_out),
        };
        for manifest in candidates
            .iter()
            .copied()
            .filter(|found| found.sequence >= floor)
        {
            match self.try_use(manifest, &mut verify)? {
                Ok(()) => return self.settle(Some(manifest), left_out),
                Err(Unusable(reason)) => {
                    tracing::warn!(%manifest, reason, "a published manifest cannot be used");
                    left_out.push(LeftOut { manifest, reason });
                }
            }
        }
        if floor == 0 {
            return self.settle(None, left_out);
        }
        // A successor may have retired what was looked for: then it is no refusal.
        let look = Look::new(self.own.clone());
        if let Guarded::SteppedDown { highest } = procedure::run(self.store.as_ref(), look)? {
            return Ok(Guarded::SteppedDown { highest });
        }
        let reason = left_out.pop().map_or_else(
            || "all are below the floor".to_owned(),
            |last| format!("{}: {}", last.manifest, last.reason),
        );
        Err(GuardError::FallBackRefused {
            newest: self.chain.newest(),
            floor,
            reason,
        })
    }

    fn try_use(
        &self,
        manifest: ManifestId,
        verify: &mut impl FnMut(ManifestId, &[u8]) -> Result<(), Unusable>,
    ) -> Result<Result<(), Unusable>, GuardError> {
        let mut last = Unusable(String::new());
        for _ in 0..READ_ATTEMPTS {
            let verdict = match self.read(manifest)? {
                Some(bytes) => verify(manifest, &bytes),
                None => Err(Unusable("it is missing".to_owned())),
            };
            match verdict {
                Ok(()) => return Ok(Ok(())),
                Err(reason) => last = reason,
            }
        }
        Ok(Err(last))
    }

    fn settle(
        self,
        manifest: Option<ManifestId>,
        left_out: Vec<LeftOut>,
    ) -> Result<Guarded<EpochGuard>, GuardError> {
        let base = Base {
            manifest,
            left_out,
            history: self.chain.history_up_to(manifest),
        };
        let settle = Settle::new(self.own.clone(), &base)?;
        Ok(match procedure::run(self.store.as_ref(), settle)? {
            Guarded::Done(()) => Guarded::Done(EpochGuard::settled(self.store, self.own, base)),
            Guarded::SteppedDown { highest } => Guarded::SteppedDown { highest },
        })
    }
}
