//! The guard on a real folder.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::guard::{Creation, EpochGuard, FileGuardStore, GuardError, GuardStore};

fn open(folder: &tempfile::TempDir) -> FileGuardStore {
    FileGuardStore::open(folder.path().join("above").join("guard")).unwrap()
}

#[test]
fn a_record_appears_once_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = (open(&folder), open(&folder));
    assert_eq!(
        store.create_if_absent("fence-1", b"mine").unwrap(),
        Creation::Created
    );
    assert_eq!(
        other.create_if_absent("fence-1", b"other").unwrap(),
        Creation::AlreadyExists
    );
    assert_eq!(other.read("fence-1").unwrap().unwrap(), b"mine");
    assert_eq!(
        other.list("").unwrap(),
        ["fence-1"],
        "no temporary file is left or shown"
    );
    assert_eq!(other.list("base-").unwrap(), Vec::<String>::new());
    store.remove("fence-1").unwrap();
    store.remove("fence-1").unwrap();
    assert_eq!(other.read("fence-1").unwrap(), None);
    assert!(matches!(
        store.read("../x"),
        Err(GuardError::InvalidName { .. })
    ));
}

static FOLDER_SYNC_FAILS: AtomicBool = AtomicBool::new(false);

fn faulty_sync(file: &File) -> io::Result<()> {
    if file.metadata()?.is_dir() && FOLDER_SYNC_FAILS.swap(false, Ordering::SeqCst) {
        return Err(io::Error::from_raw_os_error(5));
    }
    file.sync_all()
}

#[test]
fn a_failed_sync_of_the_folder_is_never_followed_by_a_success() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileGuardStore::open_with(folder.path().to_owned(), faulty_sync).unwrap());
    let mut guard = EpochGuard::enter(store.clone(), 1).unwrap().done().unwrap();
    FOLDER_SYNC_FAILS.store(true, Ordering::SeqCst);
    let error = guard.publish(1, b"").unwrap_err();
    assert!(matches!(error, GuardError::Unknown { .. }), "{error}");
    assert!(matches!(guard.publish(2, b""), Err(GuardError::Spent)));
    // The sync would succeed now, but may have forgotten what it lost.
    assert!(matches!(store.list(""), Err(GuardError::Spent)));
    assert!(matches!(
        store.create_if_absent("x", b""),
        Err(GuardError::Spent)
    ));
}

fn full_disk(_: &File) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::StorageFull))
}

#[test]
fn a_record_that_could_not_be_synced_never_gets_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let full = FileGuardStore::open_with(folder.path().to_owned(), full_disk).unwrap();
    let error = full.create_if_absent("fence-1", b"x").unwrap_err();
    assert!(
        matches!(error, GuardError::NotWritten { .. }) && error.is_retryable(),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
