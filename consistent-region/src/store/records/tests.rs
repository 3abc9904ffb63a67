//! Chunks and heads: what is left, what is lost, what is mixed up, what fails.

use lockkeeper_fencing::guard::MemoryGuardStore;

use super::super::contract;
use super::super::verify;
use super::*;
use crate::manifest::ObjectRecord;

fn in_memory() -> (Arc<MemoryGuardStore>, RecordStore) {
    let objects = Arc::new(MemoryGuardStore::new());
    let log = Arc::new(MemoryGuardStore::new());
    let store = RecordStore::new("test", Arc::clone(&objects) as _, log);
    (objects, store.with_chunk_bytes(1024))
}

/// Three chunks.
fn write(store: &RecordStore, name: &str, byte: u8) -> ObjectRecord {
    let written = store.write_object(name, &mut |to| to.write_all(&[byte; 2500]));
    contract::record(name, written.unwrap())
}

#[test]
fn records_keep_the_contract_whatever_the_size_of_a_chunk() {
    for bytes in [1024, 1024 * 1024, 32 * 1024 * 1024] {
        contract::all(&in_memory().1.with_chunk_bytes(bytes));
    }
}

#[test]
fn content_that_fits_a_chunk_is_one_record() {
    let (objects, store) = in_memory();
    for (name, length) in [("1.1.0.a.0", 1023), ("1.1.0.a.1", 1024)] {
        store
            .write_object(name, &mut |to| to.write_all(&vec![1; length]))
            .unwrap();
    }
    assert_eq!(objects.list("").unwrap().len(), 2);
}

#[test]
fn what_is_removed_leaves_nothing() {
    let (objects, store) = in_memory();
    write(&store, "1.1.0.a.0", 1);
    assert_eq!(objects.list("").unwrap().len(), 5);
    store.remove_object("1.1.0.a.0").unwrap();
    assert_eq!(objects.list("").unwrap(), Vec::<String>::new());
}

/// As a stale listing or a mixed-up copy would show it.
#[test]
fn an_object_of_another_attempt_is_never_taken() {
    let (objects, store) = in_memory();
    let (first, second) = (write(&store, "1.1.0.a.0", 1), write(&store, "1.1.1.a.0", 2));
    assert!(verify(&store, &first).is_ok());
    let head = objects.read("object-1.1.1.a.0").unwrap().unwrap();
    objects.remove("object-1.1.0.a.0").unwrap();
    objects.create_if_absent("object-1.1.0.a.0", &head).unwrap();
    let error = verify(&store, &first).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(verify(&store, &second).is_ok());
}

#[test]
fn what_a_killed_writer_left_is_no_object_and_is_swept() {
    let (objects, store) = in_memory();
    let whole = write(&store, "1.1.0.whole.0", 1);
    write(&store, "1.1.0.half.0", 2);
    objects.remove("object-1.1.0.half.0").unwrap();
    assert_eq!(store.list_objects().unwrap(), ["1.1.0.whole.0"]);
    assert_eq!(store.remove_unfinished(&|_| false).unwrap(), 0);
    assert_eq!(store.remove_unfinished(&|_| true).unwrap(), 1);
    assert!(verify(&store, &whole).is_ok());
    // Head, begun record and three chunks.
    assert_eq!(objects.list("").unwrap().len(), 5);
}

/// Two writers of one name: the loser's chunks do not stay, and the winner's are whole.
#[test]
fn the_loser_of_a_name_leaves_nothing() {
    let (objects, store) = in_memory();
    let first = write(&store, "1.1.0.a.0", 1);
    let second = store.write_object("1.1.0.a.0", &mut |to| to.write_all(&[2; 2500]));
    assert!(
        matches!(second, Err(StoreError::Exists { .. })),
        "{second:?}"
    );
    assert!(verify(&store, &first).is_ok());
    assert_eq!(objects.list("").unwrap().len(), 5);
}

/// Fails one creation, then none.
#[derive(Debug)]
struct FailsOnce {
    inner: Arc<MemoryGuardStore>,
    fails: std::sync::Mutex<Option<&'static str>>,
}

impl GuardStore for FailsOnce {
    fn create_if_absent(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<lockkeeper_fencing::guard::Creation, GuardError> {
        let mut fails = self.fails.lock().unwrap();
        if let Some(prefix) = *fails
            && name.starts_with(prefix)
        {
            *fails = None;
            // As after a time-out: the record is there after all.
            self.inner.create_if_absent(name, bytes)?;
            return Err(GuardError::Unknown {
                name: name.to_owned(),
                source: io::ErrorKind::TimedOut.into(),
            });
        }
        self.inner.create_if_absent(name, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        self.inner.list(prefix)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        self.inner.read(name)
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        self.inner.remove(name)
    }
}

#[test]
fn a_failed_record_fails_the_object_whichever_it_is_and_whoever_looks() {
    for prefix in [BEGUN, CHUNK, HEAD] {
        for looks in [true, false] {
            let inner = Arc::new(MemoryGuardStore::new());
            let objects = Arc::new(FailsOnce {
                inner: Arc::clone(&inner),
                fails: std::sync::Mutex::new(Some(prefix)),
            });
            let log = Arc::new(MemoryGuardStore::new());
            let store = RecordStore::new("test", objects, log).with_chunk_bytes(1024);
            let mut write = |to: &mut dyn io::Write| {
                let written = to.write_all(&[1; 2500]);
                if looks { written } else { Ok(()) }
            };
            let failed = store.write_object("1.1.0.a.0", &mut write);
            assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
            assert_eq!(inner.list("").unwrap(), Vec::<String>::new());
            // The medium is well again: a whole new object is.
            assert!(store.write_object("1.1.0.a.0", &mut write).is_ok());
        }
    }
}
