//! What rounds that came to nothing leave in the store.

use super::*;

/// Alternately with a reset and without, always after the state was written (P8).
#[actix::test]
async fn p8_after_100_aborted_rounds_the_store_holds_no_more_than_the_kept_cuts_and_one() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    let settings = CoordinatorSettings {
        max_consecutive_reset_attempts: 1_000,
        tolerable_failed_cuts: 1,
        reset_backoff: Duration::ZERO,
        ..settings()
    };
    let retained = settings.retained;
    let handle =
        RegionCoordinator::start_local(settings, Arc::clone(&store), Hook::default()).unwrap();
    let mut worker = Scripted::join(&handle, Arc::clone(&store)).await;
    worker.reset().await;
    for _ in 0..retained {
        worker.cut(&handle).await;
    }
    for round in 0..100 {
        handle.cut().await.unwrap();
        let stamp = worker.drain().await;
        let object = object_name(stamp, &instance());
        store
            .write_object(&object, &mut |writer| writer.write_all(b"in vain"))
            .unwrap();
        let prepared = ProgressEvent::BlockingCheckpointDone;
        worker.say(stamp, prepared).await;
        assert_eq!(worker.next().await.order, Order::Resume);
        let failed = ProgressEvent::CutFailed {
            instance: instance(),
            reason: format!("round {round}"),
        };
        worker.say(stamp, failed).await;
        if round % 2 == 0 {
            let seq = stamp.seq;
            assert_eq!(worker.next().await.order, Order::Abandoned { seq });
        } else {
            worker.reset().await;
        }
    }
    // Whatever was to be removed is removed before this cut is in the log.
    worker.cut(&handle).await;
    let rounds: std::collections::BTreeSet<String> = store
        .list_objects()
        .unwrap()
        .iter()
        .map(|name| name.split('.').next().unwrap_or_default().to_owned())
        .collect();
    assert!(rounds.len() <= retained + 1, "{rounds:?}");
    assert_eq!(handle.status().attempt, 51, "the start, and every second");
}
