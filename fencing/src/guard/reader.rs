//! Reading a guarded series without being its leader.

use super::procedure::{self, HighestFence, ReadNewest};
use super::store::GuardStore;
use super::{GuardError, ManifestId};

/// How often a reader starts over while leaders and publishers are at work.
const ATTEMPTS: usize = 5;

/// The newest published manifest and its bytes; `None` before the first was published.
///
/// # Errors
/// [`GuardError::Unsettled`] while a leader is taking over; otherwise those of the store.
pub fn read_newest(store: &dyn GuardStore) -> Result<Option<(ManifestId, Vec<u8>)>, GuardError> {
    let mut attempt = 1;
    loop {
        match procedure::run(store, ReadNewest::new()) {
            Err(GuardError::Unsettled { .. }) if attempt < ATTEMPTS => attempt += 1,
            result => return result,
        }
    }
}

/// The highest epoch that was used in this store, 0 if none was. An election whose own epochs may
/// begin anew (a folder that was lost) begins above it: epochs seen here count as used.
///
/// # Errors
/// [`GuardError::Unsettled`] when leaders take over faster than it can be read; otherwise those of
/// the store.
pub fn highest_fence(store: &dyn GuardStore) -> Result<u64, GuardError> {
    procedure::run(store, HighestFence::new())
}
