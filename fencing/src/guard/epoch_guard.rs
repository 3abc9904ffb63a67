//! The leader's side of a guarded series.

use std::sync::Arc;

use lockkeeper_core::token::FencingToken;

use super::entering::Entering;
use super::procedure::{self, Look, OwnFence, Procedure, Prune, Publish, Tidy, What};
use super::record::Base;
use super::store::{GuardStore, Guarded};
use super::{Chain, GuardError, ManifestId, lineage, name};

/// How many records of former leaders are removed at once.
pub const MAX_PRUNED: usize = 100;

/// A leader that has entered with its epoch: it publishes manifests that a deposed leader cannot
/// follow, and notices when it is deposed itself.
///
/// All calls block on the store. After one has answered [`Guarded::SteppedDown`], all later ones
/// do. After an error that [is not retryable](GuardError::is_retryable) all later ones fail with
/// [`GuardError::Spent`]: enter again with a new epoch.
#[derive(Debug)]
pub struct EpochGuard {
    store: Arc<dyn GuardStore>,
    own: OwnFence,
    base: Base,
    newest: Option<ManifestId>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Leading,
    SteppedDown { highest: u64 },
    Spent,
}

impl EpochGuard {
    /// Creates the fence of `epoch` and reads the chain; the caller then chooses the base.
    ///
    /// Steps down if this epoch or a higher one was used before.
    ///
    /// # Errors
    /// [`GuardError::EpochZero`], those of the store, and [`GuardError::Corrupt`] when the chain
    /// cannot be followed. After any of them this epoch is lost.
    pub fn announce(
        store: Arc<dyn GuardStore>,
        epoch: u64,
    ) -> Result<Guarded<Entering>, GuardError> {
        Entering::announce(store, epoch)
    }

    /// Enters with the newest manifest as the base, without looking into it.
    ///
    /// # Errors
    /// As [`announce`](Self::announce) and [`Entering::continue_from_newest`].
    pub fn enter(
        store: Arc<dyn GuardStore>,
        epoch: u64,
    ) -> Result<Guarded<EpochGuard>, GuardError> {
        match Self::announce(store, epoch)? {
            Guarded::Done(entering) => entering.continue_from_newest(),
            Guarded::SteppedDown { highest } => Ok(Guarded::SteppedDown { highest }),
        }
    }

    /// As [`announce`](Self::announce), for the leadership of a token. The store keeps whose epochs
    /// count: the lineage of the first token it sees.
    ///
    /// The [epoch](Self::epoch) of this guard is the token's, until another lineage was
    /// [adopted](super::adopt_lineage); then it is higher.
    ///
    /// # Errors
    /// [`GuardError::LineageChanged`] and [`GuardError::EpochsExhausted`] before anything was
    /// changed; and as `announce`.
    pub fn announce_with(
        store: Arc<dyn GuardStore>,
        token: &FencingToken,
    ) -> Result<Guarded<Entering>, GuardError> {
        let epoch = lineage::epoch_of(store.as_ref(), token)?;
        Self::announce(store, epoch)
    }

    /// As [`enter`](Self::enter), for the leadership of a token.
    ///
    /// # Errors
    /// As [`announce_with`](Self::announce_with) and [`Entering::continue_from_newest`].
    pub fn enter_with(
        store: Arc<dyn GuardStore>,
        token: &FencingToken,
    ) -> Result<Guarded<EpochGuard>, GuardError> {
        let epoch = lineage::epoch_of(store.as_ref(), token)?;
        Self::enter(store, epoch)
    }

    pub(super) fn settled(store: Arc<dyn GuardStore>, own: OwnFence, base: Base) -> Self {
        let newest = base.manifest;
        EpochGuard {
            store,
            own,
            base,
            newest,
            state: State::Leading,
        }
    }

    /// The epoch of this leader.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.own.epoch
    }

    /// Where this leader began, and what it left out.
    #[must_use]
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// The newest published manifest: the last one of this leader, or its base.
    #[must_use]
    pub fn newest(&self) -> Option<ManifestId> {
        self.newest
    }

    /// Publishes manifest number `sequence`, which must be above the newest.
    ///
    /// Only after `Done` may anything follow from it: commits, acknowledgements, [`retire_below`].
    /// After `SteppedDown` nothing may, although a successor may have taken it into its chain.
    ///
    /// # Errors
    /// [`GuardError::SequenceNotAbove`] before anything was touched;
    /// [`GuardError::NotWritten`] when it certainly was not written: the same sequence may be
    /// published again; [`GuardError::Unknown`] and the others end this guard.
    ///
    /// [`retire_below`]: Self::retire_below
    pub fn publish(
        &mut self,
        sequence: u64,
        bytes: &[u8],
    ) -> Result<Guarded<ManifestId>, GuardError> {
        let newest = self.newest.map_or(0, |manifest| manifest.sequence);
        if sequence <= newest {
            return Err(GuardError::SequenceNotAbove {
                offered: sequence,
                newest,
            });
        }
        let manifest = ManifestId {
            sequence,
            epoch: self.own.epoch,
        };
        let publish = Publish::new(self.own.clone(), sequence, bytes.to_vec());
        let published = match self.run(publish) {
            // The manifest is there, only the look failed: whether it counts is not known.
            Err(GuardError::Unavailable { source, .. }) => {
                self.state = State::Spent;
                return Err(GuardError::Unknown {
                    name: manifest.name(),
                    source,
                });
            }
            result => result?,
        };
        if let Guarded::Done(manifest) = published {
            self.newest = Some(manifest);
        }
        Ok(published)
    }

    /// Looks at the fences: whether this leader may go on.
    ///
    /// # Errors
    /// Those of the store.
    pub fn look(&mut self) -> Result<Guarded<()>, GuardError> {
        self.run(Look::new(self.own.clone()))
    }

    /// The chain as it is in the store now, seen from this leader's base.
    ///
    /// # Errors
    /// Those of the store.
    pub fn chain(&self) -> Result<Chain, GuardError> {
        let names = self.store.list(name::MANIFESTS)?;
        let top = Some((self.own.epoch, &self.base));
        Ok(Chain::seen_from(top, name::manifests(&names).collect()))
    }

    /// The bytes of a manifest; `None` if it was removed.
    ///
    /// # Errors
    /// Those of the store.
    pub fn read(&self, manifest: ManifestId) -> Result<Option<Vec<u8>>, GuardError> {
        self.store.read(&manifest.name())
    }

    /// Removes the chain's manifests with a sequence below `limit`, never the newest. Returns
    /// what was removed, so that the caller can remove what those manifests referred to.
    ///
    /// # Errors
    /// Those of the store; a part may have been removed.
    pub fn retire_below(&mut self, limit: u64) -> Result<Guarded<Vec<ManifestId>>, GuardError> {
        self.tidy(What::RetiredBelow(limit))
    }

    /// Removes manifests of former leaders that are not in the chain: unpublished ones, and those
    /// that a base has left out. Returns what was removed.
    ///
    /// # Errors
    /// Those of the store; a part may have been removed.
    pub fn sweep(&mut self) -> Result<Guarded<Vec<ManifestId>>, GuardError> {
        self.tidy(What::LeftOver)
    }

    /// Removes fences and bases of former leaders, at most [`MAX_PRUNED`]: nobody needs them once this
    /// leader has entered. Returns how many were removed; with fewer than that, none is left.
    ///
    /// Once a leadership is enough: call it after entering, and again while it removes as many as it may.
    ///
    /// # Errors
    /// Those of the store; a part may have been removed.
    pub fn prune(&mut self) -> Result<Guarded<usize>, GuardError> {
        self.run(Prune::new(self.own.clone(), MAX_PRUNED))
    }

    fn tidy(&mut self, what: What) -> Result<Guarded<Vec<ManifestId>>, GuardError> {
        self.run(Tidy::new(self.own.clone(), self.base.clone(), what))
    }

    fn run<T, P>(&mut self, procedure: P) -> Result<Guarded<T>, GuardError>
    where
        P: Procedure<Output = Guarded<T>>,
    {
        match self.state {
            State::Leading => {}
            State::SteppedDown { highest } => return Ok(Guarded::SteppedDown { highest }),
            State::Spent => return Err(GuardError::Spent),
        }
        let result = procedure::run(self.store.as_ref(), procedure);
        match &result {
            Ok(Guarded::SteppedDown { highest }) => {
                self.state = State::SteppedDown { highest: *highest };
            }
            Err(error) if !error.is_retryable() && !before_any_access(error) => {
                self.state = State::Spent;
            }
            Ok(Guarded::Done(_)) | Err(_) => {}
        }
        result
    }
}

/// Errors that a store gives before it touches anything: the guard can go on.
fn before_any_access(error: &GuardError) -> bool {
    matches!(
        error,
        GuardError::TooLarge { .. } | GuardError::InvalidName { .. }
    )
}
