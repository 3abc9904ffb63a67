//! What was acknowledged to a source is never gone behind, whatever can't be read.

use super::*;

#[actix::test]
async fn a_cut_older_than_what_was_acknowledged_is_refused_with_both_cuts() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let start = || {
        let mut settings = CoordinatorSettings {
            lease: SHORT_LEASE,
            lease_margin: Duration::from_millis(10),
            ..settings()
        };
        settings.shape.instances[0].acknowledges = true;
        let store: Arc<dyn CheckpointStore> = Arc::clone(&store) as _;
        RegionCoordinator::start_local(settings, store, Hook::default()).unwrap()
    };
    let handle = start();
    let mut worker = Scripted::join(&handle, Arc::clone(&store) as _).await;
    worker.reset().await;
    worker.cut(&handle).await;
    let (before, _) = worker.cut(&handle).await;
    handle.stop().await.unwrap();
    // With its commit, sources acknowledge all that this cut covers.
    let last = worker.drain().await;
    worker.checkpoint(last).await;
    let notice = worker.next().await;
    let committed = ProgressEvent::Committed { seq: last.seq };
    worker.say(notice.stamp, committed).await;
    assert!(handle.reached(RegionState::Completed).await);
    handle.halt().await;

    for name in store.list_objects().unwrap() {
        if name.starts_with(&format!("{}.", last.seq)) {
            store.damage(&name);
        }
    }
    let handle = start();
    let _worker = Scripted::join(&handle, Arc::clone(&store) as _).await;
    assert!(handle.reached(RegionState::Failed).await);
    let reason = handle.status().reason.unwrap();
    for part in [
        format!("cut {} can't be read", last.seq),
        format!("cut {before} is older than cut {}", last.seq),
        "acknowledged to a source".to_owned(),
    ] {
        assert!(reason.contains(&part), "{reason}");
    }
}
