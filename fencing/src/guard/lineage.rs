//! Epochs of one lineage, and the step to another one that an operator takes.

use lockkeeper_core::token::{FencingToken, Lineage};

use super::procedure::{self, ReadLineage};
use super::record::{self, LineageRecord};
use super::store::{Creation, GuardStore};
use super::{GuardError, highest_fence, name};

/// How often somebody else's record may come first; each time the store is one lineage further.
const ATTEMPTS: usize = 5;

/// The guard's epoch of a leadership: the token's, above what former lineages have used.
///
/// # Errors
/// [`GuardError::LineageChanged`], [`GuardError::EpochsExhausted`] and those of the store.
pub(super) fn epoch_of(store: &dyn GuardStore, token: &FencingToken) -> Result<u64, GuardError> {
    let present = match procedure::run(store, ReadLineage::default())? {
        Some((_, present)) => present,
        None => first(store, token.lineage)?,
    };
    if present.lineage != token.lineage {
        return Err(GuardError::LineageChanged {
            expected: present.lineage,
            found: token.lineage,
        });
    }
    let (epoch, above) = (token.epoch, present.epochs_above);
    above
        .checked_add(epoch)
        .ok_or(GuardError::EpochsExhausted { epoch, above })
}

/// The first leader with a token decides which lineage counts.
fn first(store: &dyn GuardStore, lineage: Lineage) -> Result<LineageRecord, GuardError> {
    let own = LineageRecord {
        lineage,
        epochs_above: 0,
    };
    Ok(match create(store, 1, &own)? {
        Creation::Created => own,
        // Another one came first, and its record counts.
        Creation::AlreadyExists => {
            procedure::run(store, ReadLineage::default())?.map_or(own, |(_, present)| present)
        }
    })
}

fn create(
    store: &dyn GuardStore,
    number: u64,
    record: &LineageRecord,
) -> Result<Creation, GuardError> {
    let name = name::lineage(number);
    store.create_if_absent(&name, &record::encode(&name, record)?)
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
    let mut found = former;
    for _ in 0..ATTEMPTS {
        let present = procedure::run(store, ReadLineage::default())?;
        let number = match present {
            Some((_, present)) if present.lineage == adopted => return Ok(present.epochs_above),
            Some((_, present)) if present.lineage != former => {
                found = present.lineage;
                break;
            }
            Some((number, _)) => number,
            // Fences of leaders without tokens only.
            None => 0,
        };
        let record = LineageRecord {
            lineage: adopted,
            epochs_above: highest_fence(store)?,
        };
        if create(store, number + 1, &record)? == Creation::Created {
            return Ok(record.epochs_above);
        }
    }
    Err(GuardError::LineageChanged {
        expected: former,
        found,
    })
}
