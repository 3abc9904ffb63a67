//! What a user of the guard sees.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::guard::{
    Creation, EpochGuard, GuardError, GuardStore, Guarded, LeftOut, ManifestId, MemoryGuardStore,
    Unusable, highest_fence, read_newest,
};

fn id(sequence: u64, epoch: u64) -> ManifestId {
    ManifestId { sequence, epoch }
}

fn memory() -> Arc<dyn GuardStore> {
    Arc::new(MemoryGuardStore::new())
}

fn enter(store: &Arc<dyn GuardStore>, epoch: u64) -> EpochGuard {
    EpochGuard::enter(store.clone(), epoch)
        .unwrap()
        .done()
        .unwrap()
}

#[test]
fn an_epoch_leads_once_and_a_lower_one_never_again() {
    let store = memory();
    enter(&store, 5);
    for epoch in [5, 4] {
        let entered = EpochGuard::enter(store.clone(), epoch).unwrap();
        assert!(
            matches!(entered, Guarded::SteppedDown { highest: 5 }),
            "{epoch}"
        );
    }
    assert_eq!(highest_fence(store.as_ref()).unwrap(), 5);
    assert!(matches!(
        EpochGuard::enter(store, 0),
        Err(GuardError::EpochZero)
    ));
}

#[test]
fn a_deposed_leader_publishes_retires_and_sweeps_nothing() {
    let store = memory();
    let mut old = enter(&store, 1);
    assert!(old.publish(1, b"one").unwrap().is_done());
    assert!(old.publish(2, b"two").unwrap().is_done());
    let mut new = enter(&store, 2);
    assert_eq!(
        old.publish(3, b"late").unwrap(),
        Guarded::SteppedDown { highest: 2 }
    );
    assert_eq!(
        old.retire_below(2).unwrap(),
        Guarded::SteppedDown { highest: 2 }
    );
    assert_eq!(old.sweep().unwrap(), Guarded::SteppedDown { highest: 2 });
    assert_eq!(new.newest(), Some(id(2, 1)));
    assert_eq!(new.publish(3, b"three").unwrap(), Guarded::Done(id(3, 2)));
    assert_eq!(new.sweep().unwrap(), Guarded::Done(vec![id(3, 1)]));
    assert_eq!(
        new.retire_below(9).unwrap(),
        Guarded::Done(vec![id(1, 1), id(2, 1)])
    );
    assert_eq!(
        read_newest(store.as_ref()).unwrap(),
        Some((id(3, 2), b"three".to_vec()))
    );
}

#[test]
fn sequences_only_grow() {
    let store = memory();
    let mut guard = enter(&store, 1);
    assert!(guard.publish(7, b"").unwrap().is_done());
    for sequence in [0, 6, 7] {
        let error = guard.publish(sequence, b"").unwrap_err();
        assert!(matches!(
            error,
            GuardError::SequenceNotAbove { newest: 7, .. }
        ));
    }
    assert!(guard.publish(9, b"").unwrap().is_done());
}

#[test]
fn falling_back_is_a_base_that_names_what_it_leaves_out() {
    let store = memory();
    let mut first = enter(&store, 1);
    for sequence in 1..=3 {
        assert!(
            first
                .publish(sequence, &[u8::try_from(sequence).unwrap()])
                .unwrap()
                .is_done()
        );
    }
    let tries = AtomicUsize::new(0);
    let entering = EpochGuard::announce(store.clone(), 2)
        .unwrap()
        .done()
        .unwrap();
    let second = entering.continue_from_usable(2, |_, bytes| {
        if bytes != [3] {
            return Ok(());
        }
        tries.fetch_add(1, Ordering::SeqCst);
        Err(Unusable("checksum".to_owned()))
    });
    let mut second = second.unwrap().done().unwrap();
    assert_eq!(tries.into_inner(), 3, "read again before it is given up");
    let left_out = LeftOut {
        manifest: id(3, 1),
        reason: "checksum".to_owned(),
    };
    assert_eq!(second.base().left_out, [left_out]);
    assert_eq!(second.newest(), Some(id(2, 1)));
    // The number is used again, and every later leader takes this one.
    assert!(second.publish(3, b"again").unwrap().is_done());
    assert_eq!(enter(&store, 3).newest(), Some(id(3, 2)));
}

#[test]
fn a_base_that_lost_its_own_manifest_does_not_pass_it_over_silently() {
    let store = memory();
    let mut first = enter(&store, 1);
    assert!(first.publish(1, b"").unwrap().is_done());
    assert!(first.publish(2, b"").unwrap().is_done());
    enter(&store, 2);
    store.remove("manifest-2.1").unwrap();
    let entering = EpochGuard::announce(store, 3).unwrap().done().unwrap();
    let guard = entering
        .continue_from_usable(0, |_, _| Ok(()))
        .unwrap()
        .done()
        .unwrap();
    assert_eq!(guard.base().left_out[0].manifest, id(2, 1));
    assert_eq!(guard.newest(), Some(id(1, 1)));
}

#[test]
fn falling_back_below_the_floor_is_refused() {
    let store = memory();
    let mut first = enter(&store, 1);
    for sequence in 1..=3 {
        assert!(first.publish(sequence, b"").unwrap().is_done());
    }
    let entering = EpochGuard::announce(store, 2).unwrap().done().unwrap();
    let refused = entering.continue_from_usable(3, |_, _| Err(Unusable("torn".to_owned())));
    let Err(GuardError::FallBackRefused {
        newest,
        floor: 3,
        reason,
    }) = refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!(newest, Some(id(3, 1)));
    assert!(reason.contains("torn"), "{reason}");
}

#[test]
fn a_damaged_base_is_told_and_not_guessed() {
    let store = memory();
    let mut first = enter(&store, 1);
    assert!(first.publish(1, b"").unwrap().is_done());
    store.remove("base-1").unwrap();
    assert_eq!(
        store.create_if_absent("base-1", b"{}\n").unwrap(),
        Creation::Created
    );
    let error = EpochGuard::enter(store, 2).unwrap_err();
    assert!(
        matches!(&error, GuardError::Corrupt { name, .. } if name == "base-1"),
        "{error}"
    );
}

#[test]
fn a_reader_waits_while_a_leader_chooses() {
    let store = memory();
    assert!(read_newest(store.as_ref()).unwrap().is_none());
    let mut first = enter(&store, 1);
    assert!(first.publish(1, b"x").unwrap().is_done());
    let entering = EpochGuard::announce(store.clone(), 2)
        .unwrap()
        .done()
        .unwrap();
    let error = read_newest(store.as_ref()).unwrap_err();
    assert!(matches!(error, GuardError::Unsettled { fence: 2 }) && error.is_retryable());
    assert!(entering.continue_from_newest().unwrap().is_done());
    assert_eq!(read_newest(store.as_ref()).unwrap().unwrap().0, id(1, 1));
}

/// Fails one kind of access on demand.
#[derive(Debug, Default)]
struct Faulty {
    inner: MemoryGuardStore,
    failing_creates: AtomicUsize,
    failing_lists: AtomicUsize,
}

impl Faulty {
    fn fails(counter: &AtomicUsize) -> bool {
        counter
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            })
            .is_ok()
    }
}

impl GuardStore for Faulty {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        if Self::fails(&self.failing_creates) {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            return Err(GuardError::NotWritten {
                name: name.to_owned(),
                source,
            });
        }
        self.inner.create_if_absent(name, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        if Self::fails(&self.failing_lists) {
            let source = io::Error::from(io::ErrorKind::TimedOut);
            return Err(GuardError::Unavailable {
                what: prefix.to_owned(),
                source,
            });
        }
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
fn a_full_disk_fails_one_publication_and_the_next_succeeds() {
    let store = Arc::new(Faulty::default());
    let mut guard = EpochGuard::enter(store.clone(), 1).unwrap().done().unwrap();
    store.failing_creates.store(1, Ordering::SeqCst);
    let error = guard.publish(1, b"").unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(guard.publish(1, b"").unwrap().is_done());
}

#[test]
fn a_publication_whose_second_look_failed_is_unknown_and_ends_the_guard() {
    let store = Arc::new(Faulty::default());
    let mut guard = EpochGuard::enter(store.clone(), 1).unwrap().done().unwrap();
    store.failing_lists.store(1, Ordering::SeqCst);
    let error = guard.publish(1, b"").unwrap_err();
    assert!(
        matches!(error, GuardError::Unknown { .. }) && !error.is_retryable(),
        "{error}"
    );
    assert!(matches!(guard.publish(2, b""), Err(GuardError::Spent)));
    assert!(matches!(guard.sweep(), Err(GuardError::Spent)));
}
