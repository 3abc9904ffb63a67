//! Batches: what an acknowledgement covers, what comes again.

use std::time::{Duration, Instant};

use lockkeeper_canal::{CanalError, ClientIdentity, Filter, Message};

use super::{HANG, Subject, ids, inserted, next, until_inserted};

pub(crate) async fn unacknowledged_batches_come_again_after_a_reconnect(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    subject.database.insert(1..=50);
    let (_, first) = until_inserted(subject, &mut connector, 1000, 50).await;
    connector.disconnect().await;
    assert!(!connector.check_valid());
    connector.connect().await.unwrap();
    assert!(!connector.check_valid());
    connector.subscribe(&subject.filter()).await.unwrap();
    assert!(connector.check_valid());
    let (messages, second) = until_inserted(subject, &mut connector, 1000, 50).await;
    assert_eq!(first.inserted, ids(1..=50));
    assert_eq!(second.inserted, ids(1..=50));
    connector.ack(messages.last().unwrap().id()).await.unwrap();
    connector.confirm_acks().await.unwrap();
}

pub(crate) async fn a_rollback_gives_back_every_outstanding_batch(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    for id in 1..=40 {
        subject.database.insert(id..=id);
    }
    let (messages, first) = until_inserted(subject, &mut connector, 1, 40).await;
    assert!(messages.len() > 2, "one batch is too few for this test");
    assert_eq!(connector.outstanding_batches(), messages.len());
    // The first is acknowledged, so a rollback to the third would give back the second too.
    connector.ack(messages[0].id()).await.unwrap();
    let error = connector.rollback_to(messages[2].id()).await.unwrap_err();
    let (batch, before) = (messages[2].id(), messages[1].id());
    assert_eq!(
        error,
        CanalError::EarlierBatchesOutstanding {
            batch,
            first: before
        }
    );
    connector.rollback_to(messages[1].id()).await.unwrap();
    assert_eq!(connector.outstanding_batches(), 0);
    let (_, second) = until_inserted(subject, &mut connector, 1000, 40).await;
    let kept = inserted(subject, &messages[0]);
    assert_eq!(first.inserted, ids(1..=40));
    assert_eq!(
        kept.into_iter().chain(second.inserted).collect::<Vec<_>>(),
        ids(1..=40)
    );
    connector.rollback().await.unwrap();
    let (messages, third) = until_inserted(subject, &mut connector, 1000, 40).await;
    assert!(first.inserted.ends_with(&third.inserted));
    connector.ack(messages.last().unwrap().id()).await.unwrap();
    connector.confirm_acks().await.unwrap();
}

pub(crate) async fn an_ack_covers_all_batches_up_to_its_own(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    for id in 1..=40 {
        subject.database.insert(id..=id);
    }
    let (messages, _) = until_inserted(subject, &mut connector, 1, 40).await;
    assert!(messages.len() > 2, "one batch is too few for this test");
    connector.ack(messages.last().unwrap().id()).await.unwrap();
    assert_eq!(connector.unconfirmed_acks(), messages.len());
    connector.confirm_acks().await.unwrap();
    assert_eq!(connector.last_confirmed(), messages.last().map(Message::id));
    // Servers below 1.1.4 are asked by a GET, which may have brought a further batch.
    assert_eq!(connector.unconfirmed_acks(), 0);
    let error = connector.ack(messages[0].id()).await.unwrap_err();
    assert!(matches!(error, CanalError::UnknownBatch { .. }), "{error}");
    assert!(
        connector.check_valid(),
        "what is refused here must not end the connection"
    );
    subject.database.insert(41..=41);
    connector.disconnect().await;
    let mut connector = subject.subscribed().await;
    let (_, seen) = until_inserted(subject, &mut connector, 1000, 41).await;
    assert_eq!(seen.inserted, [41]);
}

pub(crate) async fn an_ack_of_another_epoch_is_refused_here(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    subject.database.insert(1..=1);
    let (messages, _) = until_inserted(subject, &mut connector, 1000, 1).await;
    let old = messages.last().unwrap().id();
    connector.disconnect().await;
    connector.connect().await.unwrap();
    connector.subscribe(&subject.filter()).await.unwrap();
    assert!(connector.epoch() > old.epoch());
    let error = connector.ack(old).await.unwrap_err();
    assert!(
        matches!(error, CanalError::StaleBatch { batch, .. } if batch == old),
        "{error}"
    );
    let (messages, seen) = until_inserted(subject, &mut connector, 1000, 1).await;
    assert_eq!(seen.inserted, [1]);
    connector.ack(messages.last().unwrap().id()).await.unwrap();
    connector.confirm_acks().await.unwrap();
}

pub(crate) async fn dropping_a_fetch_loses_nothing(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    while let Some(message) = connector.get_without_ack(1000, None).await.unwrap() {
        connector.ack(message.id()).await.unwrap();
    }
    let mut seen = Vec::new();
    for id in 1..=40 {
        subject.database.insert(id..=id);
        // Polled once: the request is sent and its answer comes later.
        let mut fetch = Box::pin(connector.get_without_ack(1, None));
        tokio::select! { biased;
            message = &mut fetch => {
                if let Some(message) = message.unwrap() {
                    seen.extend(inserted(subject, &message));
                }
            }
            () = std::future::ready(()) => {}
        }
    }
    while !seen.contains(&40) {
        let message = next(&mut connector, 1000).await;
        seen.extend(inserted(subject, &message));
    }
    assert_eq!(seen, ids(1..=40));
}

pub(crate) async fn get_acknowledges_what_it_gives(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    subject.database.insert(1..=5);
    let (mut seen, until) = (Vec::new(), Instant::now() + HANG);
    while seen != ids(1..=5) {
        assert!(Instant::now() < until, "{seen:?}");
        match connector.get(1000, None).await.unwrap() {
            Some(message) => seen.extend(inserted(subject, &message)),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    assert_eq!(connector.outstanding_batches(), 0);
    connector.confirm_acks().await.unwrap();
    connector.disconnect().await;
    let mut connector = subject.subscribed().await;
    subject.database.insert(6..=6);
    let (_, seen) = until_inserted(subject, &mut connector, 1000, 6).await;
    assert_eq!(seen.inserted, [6], "what was got came again");
}

pub(crate) async fn a_new_client_id_begins_with_the_oldest_entry(subject: &Subject) {
    // Sets the filter, so that the server keeps the rows.
    let mut connector = subject.subscribed().await;
    subject.database.insert(1..=3);
    let (messages, _) = until_inserted(subject, &mut connector, 1000, 3).await;
    connector.ack(messages.last().unwrap().id()).await.unwrap();
    connector.confirm_acks().await.unwrap();
    connector.disconnect().await;
    subject.database.insert(4..=6);
    let identity = ClientIdentity::new(&subject.destination);
    let identity = identity.with_client_id(1002).unwrap();
    let mut other = subject.builder_for(identity).build().unwrap();
    other.connect().await.unwrap();
    other.subscribe(&Filter::keep()).await.unwrap();
    let (messages, seen) = until_inserted(subject, &mut other, 1000, 6).await;
    assert_eq!(
        seen.inserted,
        [4, 5, 6],
        "from before its subscription, and all there is"
    );
    other.ack(messages.last().unwrap().id()).await.unwrap();
    other.confirm_acks().await.unwrap();
    // Or the server would keep everything for it.
    other.unsubscribe().await.unwrap();
}
