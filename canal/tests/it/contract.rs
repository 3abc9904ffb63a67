//! What a Canal server and this client do together: written once, run against every server. A
//! server is given as a [`Subject`]: an address, a destination of its own, a way to make rows.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use actix::prelude::*;
use lockkeeper_canal::{
    Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, CanalError,
    ChangeKind, ClientIdentity, CommittedTransaction, ConnectorEnd, ConnectorState, EntryType,
    EventType, Filter, GetStatus, Message, SimpleCanalConnector, Stop,
};
use rust_decimal::Decimal;
use serde::Deserialize;
use tokio::sync::mpsc;

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(60);

/// Makes rows in one table with the columns `id`, `customer`, `amount` and `placed`.
pub(crate) trait Database {
    /// The table, as `(schema, table)`.
    fn table(&self) -> (&str, &str);

    /// One transaction, one statement that inserts these ids with [`Order::of`]'s values.
    fn insert(&self, ids: RangeInclusive<u64>);

    /// One transaction, one statement that adds 1 to the amounts of these ids.
    fn update(&self, ids: RangeInclusive<u64>);

    /// One transaction, one statement that deletes these ids.
    fn delete(&self, ids: RangeInclusive<u64>);

    /// ALTER TABLE that adds a nullable column.
    fn add_column(&self, name: &str);
}

/// A server to be tested.
pub(crate) struct Subject {
    pub(crate) address: String,
    pub(crate) destination: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: Box<dyn Database>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) customer: String,
    pub(crate) amount: Decimal,
    pub(crate) placed: String,
}

impl Order {
    /// The row that is inserted under `id`.
    pub(crate) fn of(id: u64) -> Self {
        Self {
            id,
            customer: format!("customer {} 🚀", id % 7),
            amount: Decimal::new(i64::try_from(id).unwrap() * 100 + 25, 2),
            placed: "2024-02-29 12:34:56".to_owned(),
        }
    }
}

/// Every contract, by name: see [`contracts`].
macro_rules! contracts {
    ($($name:ident),* $(,)?) => {
        /// Makes a test of every contract: `contracts!(run)` with
        /// `fn run(contract: impl AsyncFnOnce(&Subject))`.
        macro_rules! every_contract {
            ($run:path) => {
                $(
                    #[test]
                    fn $name() {
                        $run(stringify!($name), async |subject| $crate::contract::$name(subject).await);
                    }
                )*
            };
        }
        pub(crate) use every_contract;
    };
}

contracts! {
    rows_come_once_and_in_order,
    a_row_has_its_values_its_images_and_its_place,
    unacknowledged_batches_come_again_after_a_reconnect,
    a_rollback_gives_back_every_outstanding_batch,
    an_ack_covers_all_batches_up_to_its_own,
    an_ack_of_another_epoch_is_refused_here,
    entries_that_come_again_have_equal_fingerprints,
    a_second_client_that_takes_a_batch_is_noticed_and_nothing_is_lost,
    a_second_client_that_rolls_back_is_noticed_and_nothing_is_lost,
    a_wrong_password_is_a_typed_error,
    an_unknown_destination_is_a_typed_error,
    a_get_without_a_subscription_is_refused,
    unsubscribe_then_subscribe_goes_on,
    an_empty_destination_answers_at_once,
    a_schema_change_is_no_row,
    silence_beyond_the_servers_limit_closes_and_keep_alive_does_not,
    dropping_a_fetch_loses_nothing,
    the_actor_delivers_each_row_soon_and_acknowledges_it,
    the_actor_pushes_whole_transactions_however_batches_are_cut,
}

impl Subject {
    fn builder(&self) -> CanalConnectorBuilder {
        CanalConnectorBuilder::new(ClientIdentity::new(&self.destination))
            .address(&self.address)
            .credentials(&self.user, &*self.password)
    }

    pub(crate) fn filter(&self) -> Filter {
        let (schema, table) = self.database.table();
        Filter::table(schema, table)
    }

    pub(crate) async fn connected(&self) -> SimpleCanalConnector {
        let mut connector = self.builder().build().unwrap();
        connector.connect().await.unwrap();
        connector
    }

    async fn subscribed(&self) -> SimpleCanalConnector {
        let mut connector = self.connected().await;
        connector.subscribe(&self.filter()).await.unwrap();
        connector
    }
}

/// What has come of the table: id, kind and count.
#[derive(Debug, Default)]
struct Seen {
    inserted: Vec<u64>,
}

fn inserted(subject: &Subject, message: &Message) -> Vec<u64> {
    let mut ids = Vec::new();
    for entry in message.entries() {
        let entry = entry.unwrap();
        if (entry.schema_name(), entry.table_name()) != subject.database.table() {
            continue;
        }
        let Some(change) = entry.row_change().unwrap() else {
            continue;
        };
        if change.event_type() != EventType::Insert {
            continue;
        }
        ids.extend(
            change
                .rows::<Order>()
                .map(|row| row.unwrap().after.unwrap().id),
        );
    }
    ids
}

/// The next batch; waits for one.
pub(crate) async fn next(connector: &mut SimpleCanalConnector, fetch_size: u32) -> Message {
    let until = Instant::now() + HANG;
    loop {
        if let Some(message) = connector.get_without_ack(fetch_size, None).await.unwrap() {
            return message;
        }
        assert!(Instant::now() < until, "no batch came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Batches until `id` has been inserted.
async fn until_inserted(
    subject: &Subject,
    connector: &mut SimpleCanalConnector,
    fetch_size: u32,
    id: u64,
) -> (Vec<Message>, Seen) {
    let (mut messages, mut seen) = (Vec::new(), Seen::default());
    while !seen.inserted.contains(&id) {
        let message = next(connector, fetch_size).await;
        seen.inserted.extend(inserted(subject, &message));
        messages.push(message);
    }
    (messages, seen)
}

fn ids(range: RangeInclusive<u64>) -> Vec<u64> {
    range.collect()
}

pub(crate) async fn rows_come_once_and_in_order(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    for start in (1..=400).step_by(100) {
        subject.database.insert(start..=start + 99);
    }
    let mut seen = Vec::new();
    while seen.len() < 400 {
        let message = next(&mut connector, 4).await;
        seen.extend(inserted(subject, &message));
        connector.ack(message.id()).await.unwrap();
    }
    connector.confirm_acks().await.unwrap();
    assert_eq!(seen, ids(1..=400));
    // Servers below 1.1.4 are asked by a GET, which may have brought a further batch.
    assert_eq!(connector.unconfirmed_acks(), 0);
    connector.disconnect().await;
    let mut connector = subject.subscribed().await;
    subject.database.insert(401..=401);
    let (_, seen) = until_inserted(subject, &mut connector, 100, 401).await;
    assert_eq!(seen.inserted, [401], "what was acknowledged came again");
}

pub(crate) async fn a_row_has_its_values_its_images_and_its_place(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    subject.database.insert(1..=2);
    subject.database.update(2..=2);
    subject.database.delete(1..=1);
    let mut kinds = Vec::new();
    let mut ends = 0;
    while kinds.len() < 3 || ends < 3 {
        let message = next(&mut connector, 100).await;
        for entry in message.entries() {
            let entry = entry.unwrap();
            if entry.transaction_end_id().unwrap().is_some() {
                ends += 1;
            }
            if (entry.schema_name(), entry.table_name()) != subject.database.table() {
                continue;
            }
            let Some(change) = entry.row_change().unwrap() else {
                continue;
            };
            if change.kind() != ChangeKind::Rows {
                continue;
            }
            assert_eq!(entry.entry_type(), EntryType::RowData);
            assert!(!entry.position().journal.is_empty() && entry.position().offset > 0);
            assert!(entry.execute_time() > 1_500_000_000_000);
            let rows: Vec<_> = change.rows::<Order>().map(Result::unwrap).collect();
            let updated = Order {
                amount: Order::of(2).amount + Decimal::ONE,
                ..Order::of(2)
            };
            match change.event_type() {
                EventType::Insert => {
                    let after: Vec<_> = rows.iter().map(|row| row.after.clone().unwrap()).collect();
                    assert_eq!(after, [Order::of(1), Order::of(2)]);
                    assert!(rows.iter().all(|row| row.before.is_none()));
                }
                EventType::Update => {
                    assert_eq!(rows[0].before, Some(Order::of(2)));
                    assert_eq!(rows[0].after, Some(updated));
                    let changed: Vec<_> =
                        rows[0].changed().map(|c| c.name().into_owned()).collect();
                    assert_eq!(changed, ["amount"]);
                    assert!(rows[0].raw.after().get("id").unwrap().is_key());
                }
                EventType::Delete => {
                    assert_eq!(rows[0].before, Some(Order::of(1)));
                    assert_eq!(rows[0].after, None);
                }
                other => panic!("{other:?}"),
            }
            kinds.push(change.event_type());
        }
        connector.ack(message.id()).await.unwrap();
    }
    assert_eq!(
        kinds,
        [EventType::Insert, EventType::Update, EventType::Delete]
    );
}

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

pub(crate) async fn entries_that_come_again_have_equal_fingerprints(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    for id in 1..=30 {
        subject.database.insert(id..=id);
        subject.database.update(id..=id);
    }
    let fingerprints = |messages: &[Message]| {
        let entries = messages.iter().flat_map(Message::entries);
        entries
            .map(|entry| entry.unwrap().fingerprint())
            .collect::<Vec<_>>()
    };
    let (messages, _) = until_inserted(subject, &mut connector, 2, 30).await;
    let first = fingerprints(&messages);
    connector.disconnect().await;
    let mut connector = subject.subscribed().await;
    let (messages, _) = until_inserted(subject, &mut connector, 3, 30).await;
    let second = fingerprints(&messages);
    let both = first.len().min(second.len());
    assert!(both >= 59);
    assert_eq!(first[..both], second[..both]);
    let mut counts = BTreeMap::new();
    second
        .iter()
        .for_each(|fingerprint| *counts.entry(fingerprint).or_insert(0) += 1);
    assert!(
        counts.values().all(|count| *count == 1),
        "different changes look alike"
    );
}

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
    assert!(
        connector
            .get_without_ack(2_097_151, None)
            .await
            .unwrap()
            .is_none()
    );
}

pub(crate) async fn a_schema_change_is_no_row(subject: &Subject) {
    let mut connector = subject.subscribed().await;
    subject.database.insert(1..=1);
    subject.database.add_column("note");
    subject.database.insert(2..=2);
    let (messages, seen) = until_inserted(subject, &mut connector, 1000, 2).await;
    assert_eq!(seen.inserted, [1, 2]);
    let changes = messages
        .iter()
        .flat_map(Message::entries)
        .filter_map(|entry| {
            let entry = entry.unwrap();
            let ours = (entry.schema_name(), entry.table_name()) == subject.database.table();
            entry.row_change().unwrap().filter(|_| ours)
        });
    let kinds: Vec<_> = changes
        .map(|change| (change.kind(), change.len()))
        .collect();
    // A server sometimes delivers a statement several times in a row.
    assert!(kinds.contains(&(ChangeKind::SchemaChange, 0)), "{kinds:?}");
    let rows = kinds
        .iter()
        .filter(|kind| **kind == (ChangeKind::Rows, 1))
        .count();
    assert_eq!(rows, 2, "{kinds:?}");
}

pub(crate) async fn silence_beyond_the_servers_limit_closes_and_keep_alive_does_not(
    subject: &Subject,
) {
    let limit = Duration::from_millis(1500);
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

/// Reports the ids that were inserted.
struct Reporter {
    table: (String, String),
    ids: mpsc::UnboundedSender<u64>,
}

impl Actor for Reporter {
    type Context = Context<Self>;
}

impl Handler<Batch> for Reporter {
    type Result = BatchResult;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> BatchResult {
        for entry in batch.message.entries() {
            let entry = entry?;
            if (entry.schema_name(), entry.table_name()) != (&*self.table.0, &*self.table.1) {
                continue;
            }
            let Some(change) = entry.row_change()? else {
                continue;
            };
            for row in change.rows::<Order>() {
                if let Some(order) = row?.after {
                    self.ids.send(order.id)?;
                }
            }
        }
        Ok(())
    }
}

pub(crate) async fn the_actor_delivers_each_row_soon_and_acknowledges_it(subject: &Subject) {
    let (ids, mut seen) = mpsc::unbounded_channel();
    let (schema, table) = subject.database.table();
    let reporter = Reporter {
        table: (schema.to_owned(), table.to_owned()),
        ids,
    }
    .start();
    let settings = CanalConnectorSettings::default().with_filter(subject.filter());
    let simple = subject.builder().build().unwrap();
    let connector = CanalConnector::new(simple, settings, reporter.recipient())
        .unwrap()
        .start();
    let until = Instant::now() + HANG;
    loop {
        let status = connector.send(GetStatus).await.unwrap();
        if status.state == ConnectorState::Streaming && status.caught_up {
            break;
        }
        assert!(Instant::now() < until, "{status:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for id in 1..=5 {
        subject.database.insert(id..=id);
        let got = tokio::time::timeout(HANG, seen.recv()).await.unwrap();
        assert_eq!(got, Some(id));
    }
    assert_eq!(connector.send(Stop).await.unwrap(), ConnectorEnd::Stopped);
    let mut connector = subject.subscribed().await;
    subject.database.insert(6..=6);
    let (_, seen) = until_inserted(subject, &mut connector, 1000, 6).await;
    assert_eq!(seen.inserted, [6], "what was handled came again");
}

/// Refuses the first transaction that it gets.
struct Ledger {
    table: (String, String),
    refused: bool,
    transactions: mpsc::UnboundedSender<Vec<u64>>,
}

impl Actor for Ledger {
    type Context = Context<Self>;
}

impl Handler<CommittedTransaction> for Ledger {
    type Result = BatchResult;

    fn handle(&mut self, transaction: CommittedTransaction, _: &mut Self::Context) -> BatchResult {
        let mut ids = Vec::new();
        for entry in transaction.entries() {
            if (entry.schema_name(), entry.table_name()) != (&*self.table.0, &*self.table.1) {
                continue;
            }
            if let Some(change) = entry.row_change()?
                && change.event_type() == EventType::Insert
            {
                for row in change.rows::<Order>() {
                    ids.extend(row?.after.map(|order| order.id));
                }
            }
        }
        if !ids.is_empty() {
            self.transactions.send(ids)?;
            if !std::mem::replace(&mut self.refused, true) {
                return Err("the first one is refused".into());
            }
        }
        Ok(())
    }
}

pub(crate) async fn the_actor_pushes_whole_transactions_however_batches_are_cut(subject: &Subject) {
    let (transactions, mut seen) = mpsc::unbounded_channel();
    let (schema, table) = subject.database.table();
    let ledger = Ledger {
        table: (schema.to_owned(), table.to_owned()),
        refused: false,
        transactions,
    }
    .start();
    // Of the smallest batches: a statement's rows come in several entries, an entry is a batch.
    let settings = CanalConnectorSettings::default()
        .with_filter(subject.filter())
        .with_fetch_size(1)
        .with_window(2)
        .with_back_off(Duration::from_millis(5), Duration::from_millis(50));
    let simple = subject.builder().build().unwrap();
    let connector = CanalConnector::transactions(simple, settings, ledger.recipient())
        .unwrap()
        .start();
    let until = Instant::now() + HANG;
    while !connector.send(GetStatus).await.unwrap().caught_up {
        assert!(Instant::now() < until, "it does not subscribe");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    subject.database.insert(1..=500);
    subject.database.insert(501..=900);
    subject.database.insert(901..=901);
    let mut last = Vec::new();
    // What was behind the refused one may have come before it comes again.
    let mut count = 0;
    while count < 4 || last != [901] {
        last = tokio::time::timeout(HANG, seen.recv())
            .await
            .unwrap()
            .unwrap();
        count += 1;
        let whole = [ids(1..=500), ids(501..=900), ids(901..=901)];
        assert!(
            whole.contains(&last),
            "{} rows of {:?}",
            last.len(),
            last.first()
        );
        assert!(count < 20, "it comes again and again");
    }
    assert_eq!(connector.send(Stop).await.unwrap(), ConnectorEnd::Stopped);
    let mut connector = subject.subscribed().await;
    subject.database.insert(902..=902);
    let (_, seen) = until_inserted(subject, &mut connector, 1000, 902).await;
    assert_eq!(seen.inserted, [902], "what was handled came again");
}
