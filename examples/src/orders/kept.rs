//! Where a job's checkpoints lie, and that they are still there when it goes on: an empty store in place of
//! one that was lost would count what Canal still has, and miss what it has forgotten.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use lockkeeper_consistent_region::store::CheckpointStore;
use lockkeeper_fencing::guard::highest_fence;

use super::job::Job;

impl Job {
    /// There once a coordinator of the job has led, which leaves something in the store.
    fn has_run(&self) -> PathBuf {
        self.data.join("has-run")
    }

    /// Makes the store of a job that begins.
    ///
    /// # Errors
    /// When the folder can't be made, or the Redis not be reached.
    pub fn make_store(&self) -> anyhow::Result<()> {
        self.settings
            .store
            .open(&self.store_folder())?
            .guard_store()?;
        Ok(())
    }

    /// Remembers that the store is not empty any more.
    ///
    /// # Errors
    /// When that can't be written.
    pub fn remember_that_it_ran(&self) -> std::io::Result<()> {
        std::fs::write(self.has_run(), "")
    }

    /// Opens the store of a job that has begun.
    ///
    /// # Errors
    /// When it is gone, or was emptied after the job had run, or can't be reached.
    pub fn open_store(&self) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        let folder = self.store_folder();
        let advice = || {
            format!(
                "the checkpoints of the job in {} are lost, and with them what Canal was told to forget: \
                 put them back, or begin anew with an empty --data and an empty table",
                self.data.display()
            )
        };
        let store = self
            .settings
            .store
            .open_existing(&folder)
            .with_context(advice)?;
        let is_empty = highest_fence(&*store.guard_store()?)? == 0;
        ensure!(
            !(is_empty && self.has_run().exists()),
            "{} is empty: {}",
            store.location(),
            advice()
        );
        Ok(store)
    }
}
