//! A second client of the same id: it is noticed, and nothing is lost.

use std::time::{Duration, Instant};

use lockkeeper_canal::{CanalError, SimpleCanalConnector};

use super::{HANG, Subject, ids, next, until_inserted};

/// What is left of the epoch comes as errors until the connector gives up; then everything that
/// was not acknowledged comes again.
async fn recovers(subject: &Subject, mut connector: SimpleCanalConnector, error: &CanalError) {
    assert!(error.ends_connection() && error.is_retryable(), "{error}");
    assert!(!connector.check_valid());
    assert_eq!(
        connector.get_without_ack(1, None).await.unwrap_err(),
        CanalError::NotConnected
    );
    connector.connect().await.unwrap();
    connector.subscribe(&subject.filter()).await.unwrap();
    let (messages, seen) = until_inserted(subject, &mut connector, 1000, 30).await;
    assert_eq!(seen.inserted, ids(1..=30));
    connector.ack(messages.last().unwrap().id()).await.unwrap();
    connector.confirm_acks().await.unwrap();
}

/// The error with which the connector notices; batches may come before it.
async fn error_of(connector: &mut SimpleCanalConnector) -> CanalError {
    let until = Instant::now() + HANG;
    loop {
        match connector.get_without_ack(1, None).await {
            Err(error) => return error,
            Ok(Some(_)) => {}
            Ok(None) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
        assert!(Instant::now() < until, "the thief was not noticed");
    }
}

pub(crate) async fn a_second_client_that_takes_a_batch_is_noticed_and_nothing_is_lost(
    subject: &Subject,
) {
    let mut connector = subject.subscribed().await;
    for id in 1..=30 {
        subject.database.insert(id..=id);
    }
    let first = next(&mut connector, 1).await;
    // It subscribes, which rolls back, fetches, and keeps what it has.
    let mut thief = subject.subscribed().await;
    next(&mut thief, 1).await;
    next(&mut thief, 1).await;
    let error = error_of(&mut connector).await;
    assert!(matches!(error, CanalError::EpochEnded { .. }), "{error}");
    assert!(connector.ack(first.id()).await.is_err());
    recovers(subject, connector, &error).await;
}

pub(crate) async fn a_second_client_that_rolls_back_is_noticed_and_nothing_is_lost(
    subject: &Subject,
) {
    let mut connector = subject.subscribed().await;
    for id in 1..=30 {
        subject.database.insert(id..=id);
    }
    let first = next(&mut connector, 1).await;
    let mut thief = subject.subscribed().await;
    thief.disconnect().await;
    // Without a further batch only the ack can tell.
    connector.ack(first.id()).await.unwrap();
    let error = connector.confirm_acks().await.unwrap_err();
    let noticed = matches!(&error, CanalError::UnknownBatch { batch, .. } if *batch == first.id());
    assert!(noticed, "{error}");
    recovers(subject, connector, &error).await;
}
