//! A store whose medium fails when a test says so.

use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_fencing::guard::GuardStore;

use super::{CheckpointStore, Compression, StoreError, WriteObject, Written};

/// Wraps a store: writes fail or wait, or objects come back damaged, as ordered.
#[derive(Debug)]
pub struct FailingStore<S> {
    inner: S,
    failing_writes: AtomicUsize,
    damaged: Mutex<Vec<String>>,
    stale: Mutex<Vec<(String, String)>>,
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    on: bool,
    waiting: usize,
}

impl<S: CheckpointStore> FailingStore<S> {
    /// Fails nothing yet.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            failing_writes: AtomicUsize::new(0),
            damaged: Mutex::default(),
            stale: Mutex::default(),
            held: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The next `count` writes of objects fail half-way with "no space left on device".
    pub fn fail_writes(&self, count: usize) {
        self.failing_writes.store(count, Ordering::SeqCst);
    }

    /// Writes of objects wait from now on, as on a slow disk, until they are
    /// [released](Self::release_writes).
    pub fn hold_writes(&self) {
        self.held().on = true;
    }

    /// The writes that wait go on.
    pub fn release_writes(&self) {
        self.held().on = false;
        self.changed.notify_all();
    }

    /// Blocks until a write waits; `false` when none has come within `limit`.
    pub fn wait_for_held_writes(&self, limit: Duration) -> bool {
        let none = |held: &mut Held| held.waiting == 0;
        let waited = self.changed.wait_timeout_while(self.held(), limit, none);
        let (_held, result) = waited.unwrap_or_else(PoisonError::into_inner);
        !result.timed_out()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while_held(&self) {
        let mut held = self.held();
        if !held.on {
            return;
        }
        held.waiting += 1;
        self.changed.notify_all();
        let waited = self.changed.wait_while(held, |held| held.on);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    /// From now on the last byte of `name` is read as another.
    pub fn damage(&self, name: &str) {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.push(name.to_owned());
    }

    /// From now on reads of `name` give what lies under `older`, as from a copy that is out of date.
    pub fn read_stale(&self, name: &str, older: &str) {
        let mut stale = self.stale.lock().unwrap_or_else(PoisonError::into_inner);
        stale.push((name.to_owned(), older.to_owned()));
    }

    /// Under which name `name` is read.
    fn read_as(&self, name: &str) -> String {
        let stale = self.stale.lock().unwrap_or_else(PoisonError::into_inner);
        let found = stale.iter().find(|(newer, _)| newer == name);
        found.map_or(name, |(_, older)| older).to_owned()
    }

    /// The store below.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn is_damaged(&self, name: &str) -> bool {
        let damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.iter().any(|one| one == name)
    }
}

impl<S: CheckpointStore> CheckpointStore for FailingStore<S> {
    fn write_object(&self, name: &str, write: WriteObject<'_>) -> Result<Written, StoreError> {
        self.wait_while_held();
        let take_one = |left: usize| left.checked_sub(1);
        let ordering = Ordering::SeqCst;
        let fails = self
            .failing_writes
            .fetch_update(ordering, ordering, take_one)
            .is_ok();
        self.inner.write_object(name, &mut |writer| {
            write(writer)?;
            if fails {
                Err(rustix::io::Errno::NOSPC.into())
            } else {
                Ok(())
            }
        })
    }

    fn read_object(&self, name: &str) -> Result<Box<dyn Read + Send>, StoreError> {
        let mut reader = self.inner.read_object(&self.read_as(name))?;
        if !self.is_damaged(name) {
            return Ok(reader);
        }
        let mut bytes = Vec::new();
        reader
            .read_to_end(&mut bytes)
            .map_err(|source| StoreError::Io {
                location: self.location(),
                name: name.to_owned(),
                source,
            })?;
        if let Some(last) = bytes.last_mut() {
            *last ^= 0x55;
        }
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn list_objects(&self) -> Result<Vec<String>, StoreError> {
        self.inner.list_objects()
    }

    fn remove_object(&self, name: &str) -> Result<(), StoreError> {
        self.inner.remove_object(name)
    }

    fn remove_unfinished(&self, of: &dyn Fn(&str) -> bool) -> Result<usize, StoreError> {
        self.inner.remove_unfinished(of)
    }

    fn guard_store(&self) -> Result<Arc<dyn GuardStore>, StoreError> {
        self.inner.guard_store()
    }

    fn compression(&self) -> Compression {
        self.inner.compression()
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryStore;
    use super::*;

    #[test]
    fn it_keeps_the_contract_while_nothing_fails() {
        super::super::contract::all(&FailingStore::new(MemoryStore::new()));
    }

    #[test]
    fn ordered_failures_come_and_pass() {
        let store = FailingStore::new(MemoryStore::new());
        store.fail_writes(1);
        assert!(store.write_object("1.1.0.a.0", &mut |_| Ok(())).is_err());
        assert!(store.write_object("1.1.0.a.0", &mut |_| Ok(())).is_ok());
    }
}
