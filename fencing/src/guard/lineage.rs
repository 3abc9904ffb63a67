//! Epochs of one lineage, and the step to another one that an operator takes.

use lockkeeper_core::token::{FencingToken, Lineage};

use super::GuardError;
use super::procedure::{self, Adopt, ReadLineage, ResolveEpoch};
use super::store::GuardStore;

/// The guard's epoch of a leadership: the token's, above what former lineages have used.
///
/// # Errors
/// [`GuardError::LineageChanged`], [`GuardError::EpochsExhausted`] and those of the store.
pub(super) fn epoch_of(store: &dyn GuardStore, token: &FencingToken) -> Result<u64, GuardError> {
    procedure::run(store, ResolveEpoch::new(token.lineage, token.epoch))
}

/// The lineage whose epochs count in this store; `None` before the first leader with a token.
///
/// # Errors
/// Those of the store, and [`GuardError::Corrupt`] for a damaged record.
pub fn current_lineage(store: &dyn GuardStore) -> Result<Option<Lineage>, GuardError> {
    let newest = procedure::run(store, ReadLineage::default())?;
    Ok(newest.map(|(_, record)| record.lineage))
}

/// Lets the epochs of another lineage count in this store: for an operator, after the coordination
/// store was replaced or restored and [`GuardError::LineageChanged`] was told.
///
/// Make sure first that no leader of the former lineage is left. One that is nevertheless there does no
/// harm to the history: fences stay in one order, and it steps down when a leader of the new
/// lineage has entered. From now on the guard's epochs are those of the tokens plus the highest
/// there was, so that the new lineage may begin with 1. Doing it again changes nothing.
///
/// Returns the number that is added to the tokens' epochs.
///
/// # Errors
/// [`GuardError::LineageChanged`] when the store's lineage is neither `former` nor `adopted`:
/// somebody else has adopted another one. Otherwise those of the store; it may be done again.
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_fencing::guard::{self, EpochGuard, GuardError, GuardStore, MemoryGuardStore};
/// # use lockkeeper_fencing::FencingToken;
/// # fn main() -> Result<(), GuardError> {
/// # let store: Arc<dyn GuardStore> = Arc::new(MemoryGuardStore::new());
/// # let session = Default::default();
/// let old = FencingToken::new(1_u64, 40, session);
/// assert!(EpochGuard::enter_with(store.clone(), &old)?.is_done());
/// let new = FencingToken::new(2_u64, 1, session);
/// let refused = EpochGuard::enter_with(store.clone(), &new);
/// assert!(matches!(refused, Err(GuardError::LineageChanged { .. })));
///
/// guard::adopt_lineage(store.as_ref(), old.lineage, new.lineage)?;
/// assert!(EpochGuard::enter_with(store, &new)?.is_done());
/// # Ok(())
/// # }
/// ```
pub fn adopt_lineage(
    store: &dyn GuardStore,
    former: Lineage,
    adopted: Lineage,
) -> Result<u64, GuardError> {
    procedure::run(store, Adopt::new(former, adopted))
}
