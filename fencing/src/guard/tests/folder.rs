//! The guard on a real folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::guard::{Creation, EpochGuard, FileGuardStore, GuardError, GuardStore, Guarded};

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

#[test]
fn two_leaders_racing_on_a_folder_never_publish_one_number_twice() {
    let folder = tempfile::tempdir().unwrap();
    let epochs = AtomicU64::new(0);
    let published = Mutex::new(BTreeMap::new());
    let lead = || {
        let store: Arc<dyn GuardStore> = Arc::new(open(&folder));
        while published.lock().unwrap().len() < 60 {
            let epoch = epochs.fetch_add(1, Ordering::SeqCst) + 1;
            let Guarded::Done(mut guard) = EpochGuard::enter(store.clone(), epoch).unwrap() else {
                continue;
            };
            for _ in 0..4 {
                let next = guard.newest().map_or(0, |manifest| manifest.sequence) + 1;
                let Guarded::Done(manifest) = guard.publish(next, b"x").unwrap() else {
                    break;
                };
                let twice = published
                    .lock()
                    .unwrap()
                    .insert(manifest.sequence, manifest.epoch);
                assert_eq!(twice, None, "{manifest} was published before");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(lead);
        scope.spawn(lead);
    });
    let store: Arc<dyn GuardStore> = Arc::new(open(&folder));
    let last = epochs.into_inner() + 1;
    let entering = EpochGuard::announce(store, last).unwrap().done().unwrap();
    let chain: BTreeMap<u64, u64> = entering
        .chain()
        .manifests()
        .map(|manifest| (manifest.sequence, manifest.epoch))
        .collect();
    for (sequence, epoch) in published.into_inner().unwrap() {
        assert_eq!(
            chain.get(&sequence),
            Some(&epoch),
            "{sequence} is in no later chain"
        );
    }
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
