//! What rows, statements and entries look like when they arrive.

use std::collections::BTreeMap;

use lockkeeper_canal::{ChangeKind, EntryType, EventType, Message};
use rust_decimal::Decimal;

use super::{Order, Subject, ids, inserted, next, until_inserted};

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
    // Of the table only: a server may deliver the statement of another test several times.
    let ours = messages
        .iter()
        .flat_map(Message::entries)
        .map(Result::unwrap)
        .filter(|entry| (entry.schema_name(), entry.table_name()) == subject.database.table());
    let mut counts = BTreeMap::new();
    ours.for_each(|entry| *counts.entry(entry.fingerprint()).or_insert(0) += 1);
    assert!(
        counts.len() >= 59 && counts.values().all(|count| *count == 1),
        "different changes look alike: {counts:?}"
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
