//! Objects in memory: for tests, and for regions that survive their actors but not their process.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_fencing::guard::{GuardStore, MemoryGuardStore};

use super::{CheckpointStore, Compression, StoreError, WriteObject, Written, name};

/// Keeps everything in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    objects: Arc<Mutex<BTreeMap<String, Arc<[u8]>>>>,
    log: Arc<MemoryGuardStore>,
    compression: Compression,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How state is written (LZ4 above 4 KiB).
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[u8]>>> {
        // The map is whole at every point where a holder could panic.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckpointStore for MemoryStore {
    fn write_object(&self, name: &str, write: WriteObject<'_>) -> Result<Written, StoreError> {
        if let Some(what) = name::fault(name) {
            let (location, name) = (self.location(), name.to_owned());
            return Err(StoreError::BadName {
                location,
                name,
                what,
            });
        }
        let mut bytes = Vec::new();
        write(&mut bytes).map_err(|source| StoreError::Io {
            location: self.location(),
            name: name.to_owned(),
            source,
        })?;
        let written = Written {
            length: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            crc32: crc32fast::hash(&bytes),
        };
        match self.objects().entry(name.to_owned()) {
            Entry::Vacant(vacant) => {
                vacant.insert(bytes.into());
                Ok(written)
            }
            Entry::Occupied(_) => Err(StoreError::Exists {
                location: self.location(),
                name: name.to_owned(),
            }),
        }
    }

    fn read_object(&self, name: &str) -> Result<Box<dyn Read + Send>, StoreError> {
        match self.objects().get(name) {
            Some(bytes) => Ok(Box::new(io::Cursor::new(Arc::clone(bytes)))),
            None => Err(StoreError::Missing {
                location: self.location(),
                name: name.to_owned(),
            }),
        }
    }

    fn list_objects(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.objects().keys().cloned().collect())
    }

    fn remove_object(&self, name: &str) -> Result<(), StoreError> {
        self.objects().remove(name);
        Ok(())
    }

    fn remove_unfinished(&self, _of: &dyn Fn(&str) -> bool) -> Result<usize, StoreError> {
        Ok(0)
    }

    fn guard_store(&self) -> Result<Arc<dyn GuardStore>, StoreError> {
        Ok(Arc::clone(&self.log) as Arc<dyn GuardStore>)
    }

    fn compression(&self) -> Compression {
        self.compression
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_store_keeps_the_contract() {
        super::super::contract::all(&MemoryStore::new());
    }
}
