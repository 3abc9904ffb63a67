//! Cuts that are kept under a name.

use super::*;
use crate::coordinator::{CommandRefused, copy_savepoint, list_savepoints, read_savepoint};
use crate::store::verify;

async fn running() -> (CoordinatorHandle, Scripted, Arc<FailingStore<MemoryStore>>) {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let handle = start(Arc::clone(&store) as _);
    let mut worker = Scripted::join(&handle, Arc::clone(&store) as _).await;
    worker.reset().await;
    (handle, worker, store)
}

impl Scripted {
    /// A cut that somebody has asked for already.
    async fn asked_cut(&mut self) -> u64 {
        let stamp = self.drain().await;
        assert!(self.checkpoint(stamp).await);
        assert_eq!(self.next().await.order, Order::Resume);
        let notice = self.next().await;
        assert!(matches!(notice.order, Order::Checkpointed { .. }));
        stamp.seq
    }
}

async fn savepoint(handle: &CoordinatorHandle, worker: &mut Scripted, name: &str) -> u64 {
    let (taken, seq) = tokio::join!(handle.savepoint(name), worker.asked_cut());
    taken.unwrap();
    seq
}

#[actix::test]
async fn a_savepoint_outlives_later_cuts_and_the_region_goes_back_to_it() {
    let (handle, mut worker, store) = running().await;
    worker.cut(&handle).await;
    let seq = savepoint(&handle, &mut worker, "early").await;
    for _ in 0..6 {
        worker.cut(&handle).await;
    }
    let (before, oldest) = (handle.status().seq, handle.status().oldest_retained);
    assert!(oldest > seq, "the region itself keeps only later ones");
    let kept = read_savepoint(store.as_ref(), "early").unwrap();
    assert_eq!((kept.name.as_str(), kept.manifest.seq), ("early", seq));

    let (restored, went_back_to) = tokio::join!(handle.restore_savepoint("early"), worker.reset());
    restored.unwrap();
    assert_eq!(went_back_to, seq);
    let status = handle.status();
    assert!(status.seq >= before, "numbers never come back");
    assert_eq!((status.completed, status.oldest_retained), (seq, seq));

    // It is a cut as any other: a reset goes back to it, and cuts follow it.
    handle.reset(false, "by hand").await.unwrap();
    assert_eq!(worker.reset().await, seq);
    let (next, oldest) = worker.cut(&handle).await;
    assert!(next >= before);
    assert_eq!(oldest, seq);
}

#[actix::test]
async fn a_name_is_taken_once_and_what_was_forgotten_is_gone() {
    let (handle, mut worker, store) = running().await;
    let bad = handle.savepoint("a/b").await;
    assert!(
        matches!(bad, Err(CommandRefused::BadName { .. })),
        "{bad:?}"
    );
    savepoint(&handle, &mut worker, "one").await;
    let (again, _) = tokio::join!(handle.savepoint("one"), worker.asked_cut());
    let name = "one".to_owned();
    assert_eq!(again, Err(CommandRefused::NameTaken { name: name.clone() }));
    assert_eq!(list_savepoints(store.as_ref()).unwrap(), ["one"]);

    let object = &read_savepoint(store.as_ref(), "one")
        .unwrap()
        .manifest
        .objects[0];
    for _ in 0..4 {
        worker.cut(&handle).await;
    }
    verify(store.as_ref(), object).unwrap();
    handle.forget_savepoint("one").await.unwrap();
    handle.forget_savepoint("one").await.unwrap();
    let gone = handle.restore_savepoint("one").await;
    assert_eq!(gone, Err(CommandRefused::NoSavepoint { name }));
    for _ in 0..2 {
        worker.cut(&handle).await;
    }
    assert!(verify(store.as_ref(), object).is_err(), "nobody needs it");
}

#[actix::test]
async fn a_round_that_fails_keeps_the_wish_for_a_savepoint() {
    let (handle, mut worker, store) = running().await;
    let fail_once = async {
        let stamp = worker.drain().await;
        store.fail_writes(1);
        assert!(!worker.checkpoint(stamp).await);
        worker.reset().await;
        worker.asked_cut().await
    };
    let (taken, seq) = tokio::join!(handle.savepoint("late"), fail_once);
    taken.unwrap();
    let kept = read_savepoint(store.as_ref(), "late").unwrap();
    assert_eq!(kept.manifest.seq, seq);
}

#[actix::test]
async fn a_savepoint_that_the_store_does_not_take_is_an_error_and_the_region_goes_on() {
    let (handle, mut worker, store) = running().await;
    let (taken, _) = tokio::join!(handle.savepoint("full"), async {
        let stamp = worker.drain().await;
        let object = object_name(stamp, &instance());
        let written = store
            .write_object(&object, &mut |writer| writer.write_all(b"state"))
            .unwrap();
        // The state is written, the savepoint comes after the manifest.
        store.fail_writes(1);
        worker.write_done(stamp, object, written).await;
        assert_eq!(worker.next().await.order, Order::Resume);
        worker.next().await;
    });
    assert!(
        matches!(taken, Err(CommandRefused::Store { .. })),
        "{taken:?}"
    );
    worker.cut(&handle).await;
    savepoint(&handle, &mut worker, "full").await;
}

#[actix::test]
async fn what_the_sinks_cannot_take_back_is_not_gone_behind_by_a_savepoint() {
    let (handle, mut worker, _) = running().await;
    worker.can_take_back = false;
    let seq = savepoint(&handle, &mut worker, "early").await;
    worker.cut(&handle).await;
    let refused = handle.restore_savepoint("early").await;
    let committed = handle.status().completed;
    let savepoint = seq;
    assert_eq!(
        refused,
        Err(CommandRefused::CannotTakeBack {
            savepoint,
            committed
        })
    );
    assert_eq!(handle.status().state, RegionState::Processing);
}

#[actix::test]
async fn a_region_that_stops_with_a_savepoint_lives_on_in_another_store() {
    let (handle, mut worker, store) = running().await;
    worker.cut(&handle).await;
    let last = async {
        let stamp = worker.drain().await;
        assert!(worker.checkpoint(stamp).await);
        let notice = worker.next().await;
        let seq = stamp.seq;
        worker
            .say(notice.stamp, ProgressEvent::Committed { seq })
            .await;
        assert_eq!(worker.next().await.order, Order::End);
        seq
    };
    let (stopped, seq) = tokio::join!(handle.stop_with_savepoint("last"), last);
    stopped.unwrap();
    assert!(handle.reached(RegionState::Completed).await);

    let other: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    copy_savepoint(store.as_ref(), "last", other.as_ref()).unwrap();
    assert!(copy_savepoint(store.as_ref(), "last", other.as_ref()).is_err());
    let settings = CoordinatorSettings {
        restore_from: Some("last".to_owned()),
        ..settings()
    };
    let start = || {
        RegionCoordinator::start_local(settings.clone(), Arc::clone(&other), Hook::default())
            .unwrap()
    };
    let handle = start();
    let mut worker = Scripted::join(&handle, Arc::clone(&other)).await;
    assert_eq!(worker.reset().await, seq);
    let (next, _) = worker.cut(&handle).await;
    assert!(next > seq, "numbers go on growing in the copy");
    // Only a region that has never run begins with it.
    handle.reset(false, "by hand").await.unwrap();
    assert_eq!(worker.reset().await, next);
}

#[actix::test]
async fn a_region_that_is_to_begin_with_a_savepoint_that_is_not_there_fails_and_says_so() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    let settings = CoordinatorSettings {
        restore_from: Some("nowhere".to_owned()),
        ..settings()
    };
    let handle =
        RegionCoordinator::start_local(settings, Arc::clone(&store), Hook::default()).unwrap();
    let _worker = Scripted::join(&handle, store).await;
    assert!(handle.reached(RegionState::Failed).await);
    let reason = handle.status().reason.unwrap();
    assert!(reason.contains("nowhere"), "{reason}");
}
