//! A store in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::store::{Creation, GuardStore, MAX_RECORD_BYTES};
use super::{GuardError, name};

/// A store that ends with the process: for tests, and for regions that need no restart.
#[derive(Debug, Default)]
pub struct MemoryGuardStore {
    records: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryGuardStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[cfg(test)]
    pub(super) fn holding(records: BTreeMap<String, Vec<u8>>) -> Self {
        MemoryGuardStore {
            records: Mutex::new(records),
        }
    }

    #[cfg(test)]
    pub(super) fn into_records(self) -> BTreeMap<String, Vec<u8>> {
        self.records
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        // Each change is one call on the map: a panic elsewhere leaves it whole.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuardStore for MemoryGuardStore {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        name::validate(name)?;
        check_size(name, bytes.len())?;
        let mut records = self.records();
        if records.contains_key(name) {
            return Ok(Creation::AlreadyExists);
        }
        records.insert(name.to_owned(), bytes.to_vec());
        Ok(Creation::Created)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        let records = self.records();
        Ok(records
            .keys()
            .filter(|name| name.starts_with(prefix))
            .cloned()
            .collect())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        name::validate(name)?;
        Ok(self.records().get(name).cloned())
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        name::validate(name)?;
        self.records().remove(name);
        Ok(())
    }
}

pub(crate) fn check_size(name: &str, bytes: usize) -> Result<(), GuardError> {
    check_size_below(MAX_RECORD_BYTES, name, bytes)
}

pub(crate) fn check_size_below(limit: usize, name: &str, bytes: usize) -> Result<(), GuardError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(GuardError::TooLarge {
        name: name.to_owned(),
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        limit: u64::try_from(limit).unwrap_or(u64::MAX),
    })
}
