//! Requests one by one: what is refused, and how; what silence does.

use std::time::{Duration, Instant};

use lockkeeper_canal::{CanalConnectorBuilder, CanalError, ClientIdentity, Filter};

use super::{HANG, Subject, inserted, until_inserted};

pub(crate) async fn a_wrong_password_is_a_typed_error(subject: &Subject) {
    if subject.password.is_empty() {
        return;
    }
    let builder = subject.builder().credentials(&subject.user, "wrong");
    let mut connector = builder.build().unwrap();
    let error = connector.connect().await.unwrap_err();
    assert!(
        matches!(&error, CanalError::AuthFailed { user, .. } if *user == subject.user),
        "{error}"
    );
    assert!(!error.is_retryable());
    let error = connector.subscribe(&Filter::keep()).await.unwrap_err();
    assert_eq!(error, CanalError::NotConnected);
    // the next good call is answered
    subject.subscribed().await.confirm_acks().await.unwrap();
}

pub(crate) async fn an_unknown_destination_is_a_typed_error(subject: &Subject) {
    let identity = ClientIdentity::new("no_such_destination");
    let mut connector = CanalConnectorBuilder::new(identity)
        .address(&subject.address)
        .credentials(&subject.user, &*subject.password)
        .build()
        .unwrap();
    connector.connect().await.unwrap();
    let error = connector.subscribe(&Filter::keep()).await.unwrap_err();
    assert!(
        matches!(&error, CanalError::NotRunningHere { destination, .. } if destination == "no_such_destination"),
        "{error}"
    );
    assert!(!connector.check_valid());
    subject.subscribed().await.confirm_acks().await.unwrap();
}

pub(crate) async fn a_get_without_a_subscription_is_refused(subject: &Subject) {
    let mut connector = subject.connected().await;
    let error = connector.get_without_ack(1, None).await.unwrap_err();
    assert!(matches!(error, CanalError::NotSubscribed { .. }), "{error}");
    connector.subscribe(&subject.filter()).await.unwrap();
    connector.confirm_acks().await.unwrap();
}

pub(crate) async fn unsubscribe_then_subscribe_goes_on(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    connector.unsubscribe().await.unwrap();
    assert!(!connector.check_valid());
    let error = connector.get_without_ack(1, None).await.unwrap_err();
    assert!(matches!(error, CanalError::NotSubscribed { .. }), "{error}");
    connector.subscribe(&subject.filter()).await.unwrap();
    subject.database.insert(1..=1);
    let (messages, _) = until_inserted(subject, &mut connector, 1000, 1).await;
    connector.ack(messages.last().unwrap().id()).await.unwrap();
    connector.confirm_acks().await.unwrap();
}

pub(crate) async fn an_empty_destination_answers_at_once(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    let waited = Duration::from_millis(200);
    let until = Instant::now() + HANG;
    loop {
        // Statements such as CREATE DATABASE pass every filter: there may be some of other tests.
        while let Some(message) = connector.get_without_ack(1000, None).await.unwrap() {
            connector.ack(message.id()).await.unwrap();
        }
        let start = Instant::now();
        if connector
            .get_without_ack(1000, Some(waited))
            .await
            .unwrap()
            .is_none()
        {
            assert!(
                start.elapsed() >= waited,
                "a GET with a time-out waits for it"
            );
            break;
        }
        assert!(
            Instant::now() < until,
            "the destination does not become empty"
        );
    }
    for (fetch_size, timeout) in [(0, None), (2_097_152, None), (1, Some(Duration::ZERO))] {
        let error = connector
            .get_without_ack(fetch_size, timeout)
            .await
            .unwrap_err();
        assert!(matches!(error, CanalError::InvalidArgument(_)), "{error}");
    }
    // Nothing of the table; a statement of another test may have come meanwhile.
    let largest = connector.get_without_ack(2_097_151, None).await.unwrap();
    let rows = largest.map(|message| inserted(subject, &message));
    assert_eq!(rows.unwrap_or_default(), Vec::<u64>::new());
}

pub(crate) async fn silence_beyond_the_servers_limit_closes_and_keep_alive_does_not(
    subject: &Subject,
) {
    // Two thirds of it are what a busy machine may lose.
    let limit = Duration::from_secs(6);
    let impatient = || {
        let builder = subject
            .builder()
            .net_read_timeout(limit)
            .net_write_timeout(limit);
        builder.request_timeout(limit / 2).build().unwrap()
    };
    let mut kept = impatient();
    kept.connect().await.unwrap();
    kept.subscribe(&subject.filter()).await.unwrap();
    for _ in 0..6 {
        tokio::time::sleep(limit / 3).await;
        kept.confirm_acks().await.unwrap();
    }
    assert!(kept.check_valid());
    let until = Instant::now() + HANG;
    while kept.check_valid() {
        assert!(Instant::now() < until, "the server did not close");
        tokio::time::sleep(limit / 10).await;
    }
    assert_eq!(
        kept.confirm_acks().await.unwrap_err(),
        CanalError::NotConnected
    );
}
