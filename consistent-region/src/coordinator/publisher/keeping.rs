//! What stays in the store: savepoints, and whatever the record still needs; the rest is removed.

use std::collections::BTreeSet;

use lockkeeper_fencing::guard::Guarded;

use super::{Over, Publisher};
use crate::coordinator::event::CommandRefused;
use crate::coordinator::record::{Record, Retained};
use crate::coordinator::savepoint::{self, Savepoint, list_savepoints, read_savepoint};
use crate::manifest::Manifest;
use crate::store::{ObjectName, StoreError};

impl Publisher {
    /// Keeps a completed cut under a name.
    pub(crate) fn keep_savepoint(
        &mut self,
        name: &str,
        cut: &Retained,
    ) -> Result<(), CommandRefused> {
        let manifest = self.manifest(cut).map_err(|error| CommandRefused::Store {
            reason: error.to_string(),
        })?;
        let needed = parts_of(&manifest);
        savepoint::write(self.store.as_ref(), &Savepoint::now(name, manifest))
            .map_err(|error| refused(name, error))?;
        self.savepoints.insert(name.to_owned(), needed);
        Ok(())
    }

    pub(crate) fn find_savepoint(&self, name: &str) -> Result<Savepoint, CommandRefused> {
        read_savepoint(self.store.as_ref(), name).map_err(|error| refused(name, error))
    }

    pub(crate) fn remove_savepoint(&mut self, name: &str) -> Result<(), CommandRefused> {
        savepoint::remove(self.store.as_ref(), name).map_err(|error| refused(name, error))?;
        self.savepoints.remove(name);
        Ok(())
    }

    /// What the savepoints that lie in the store need.
    fn needed_by_savepoints(&mut self) -> Result<BTreeSet<String>, StoreError> {
        let names = list_savepoints(self.store.as_ref())?;
        self.savepoints.retain(|name, _| names.contains(name));
        for name in names {
            if !self.savepoints.contains_key(&name) {
                let Savepoint { manifest, .. } = read_savepoint(self.store.as_ref(), &name)?;
                self.savepoints.insert(name, parts_of(&manifest));
            }
        }
        Ok(self.savepoints.values().flatten().cloned().collect())
    }

    /// What the cuts that `record` retains need.
    fn needed_by_cuts(&mut self, record: &Record) -> Result<BTreeSet<String>, String> {
        let id = |cut: &Retained| (cut.entry, cut.term);
        let retained: BTreeSet<_> = record.retained.iter().map(id).collect();
        self.cuts.retain(|id, _| retained.contains(id));
        for cut in &record.retained {
            if !self.cuts.contains_key(&id(cut)) {
                let manifest = self.manifest(cut).map_err(text)?;
                self.cuts.insert(id(cut), parts_of(&manifest));
            }
        }
        Ok(self.cuts.values().flatten().cloned().collect())
    }

    /// Removes entries and objects that `record` does not retain, and those of rounds that came to
    /// nothing. What can't be removed now is removed next time.
    pub(crate) fn tidy(&mut self, record: &Record) -> Result<(), Over> {
        match self.try_tidy(record) {
            Ok(Guarded::Done(())) => Ok(()),
            Ok(Guarded::SteppedDown { highest }) => Err(Over::SteppedDown { highest }),
            Err(reason) => {
                tracing::warn!(reason, "the store could not be tidied up");
                Ok(())
            }
        }
    }

    fn try_tidy(&mut self, record: &Record) -> Result<Guarded<()>, String> {
        if let Guarded::SteppedDown { highest } = self.guard.look().map_err(text)? {
            return Ok(Guarded::SteppedDown { highest });
        }
        // Whose objects are not known might lose them: rather remove nothing.
        let mut needed = self.needed_by_savepoints().map_err(text)?;
        needed.extend(self.needed_by_cuts(record)?);
        let over = |name: &str| {
            ObjectName::parse(name).is_some_and(|name| name.stamp.seq < record.next_cut)
        };
        for name in self.store.list_objects().map_err(text)? {
            if over(&name) && !needed.contains(&name) {
                self.store.remove_object(&name).map_err(text)?;
            }
        }
        self.store.remove_unfinished(&over).map_err(text)?;
        // One entry before the newest stays as well, should the newest be damaged one day.
        let oldest = record.retained.iter().map(|retained| retained.entry).min();
        let limit = oldest
            .unwrap_or(u64::MAX)
            .min(record.number.saturating_sub(1));
        if let Guarded::SteppedDown { highest } = self.guard.retire_below(limit).map_err(text)? {
            return Ok(Guarded::SteppedDown { highest });
        }
        if let Guarded::SteppedDown { highest } = self.prune().map_err(text)? {
            return Ok(Guarded::SteppedDown { highest });
        }
        if !self.swept {
            if let Guarded::SteppedDown { highest } = self.guard.sweep().map_err(text)? {
                return Ok(Guarded::SteppedDown { highest });
            }
            self.swept = true;
        }
        Ok(Guarded::Done(()))
    }
}

pub(super) fn parts_of(manifest: &Manifest) -> BTreeSet<String> {
    manifest.parts().map(|part| part.object.clone()).collect()
}

fn refused(name: &str, error: StoreError) -> CommandRefused {
    let name = name.to_owned();
    match error {
        StoreError::Missing { .. } => CommandRefused::NoSavepoint { name },
        StoreError::Exists { .. } => CommandRefused::NameTaken { name },
        error => CommandRefused::Store {
            reason: error.to_string(),
        },
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
