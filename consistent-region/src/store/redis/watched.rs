//! Records of a database that may be set back: nothing is written or believed after that.

use std::sync::Arc;

use lockkeeper_fencing::guard::{Creation, GuardError, GuardStore, RedisGuardStore};

use super::clock::Clock;

/// A guard store that looks at the clock with each call.
#[derive(Debug)]
pub(super) struct Watched {
    records: RedisGuardStore,
    clock: Arc<Clock>,
}

impl Watched {
    pub(super) fn new(records: RedisGuardStore, clock: Arc<Clock>) -> Self {
        Self { records, clock }
    }

    fn look(&self, what: String) -> Result<(), GuardError> {
        let looked = self.clock.look();
        looked.map_err(|source| GuardError::Unavailable { what, source })
    }
}

impl GuardStore for Watched {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        let ticked = self.clock.tick();
        ticked.map_err(|source| GuardError::NotWritten {
            name: name.to_owned(),
            source,
        })?;
        self.records.create_if_absent(name, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        let names = self.records.list(prefix)?;
        // Afterwards: a list that was read after the setting back is not believed.
        self.look(format!("listing {prefix}*"))?;
        Ok(names)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        let bytes = self.records.read(name)?;
        self.look(format!("reading {name}"))?;
        Ok(bytes)
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        self.records.remove(name)
    }
}
