//! Transactions that batches cut, halves that never end, and the limit.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::protocol::generated::entry as wire;

fn raw(entry_type: i32, event_type: i32, content: Vec<u8>) -> Bytes {
    let header = wire::Header {
        event_type: Some(event_type),
        ..Default::default()
    };
    let entry = wire::Entry {
        header: Some(header),
        entry_type: Some(entry_type),
        store_value: content.into(),
    };
    entry.encode_to_vec().into()
}

fn row() -> Bytes {
    raw(2, 1, wire::RowChange::default().encode_to_vec())
}

fn begin() -> Bytes {
    raw(1, 2, Vec::new())
}

fn end(id: &str) -> Bytes {
    let end = wire::TransactionEnd {
        transaction_id: id.to_owned(),
        ..Default::default()
    };
    raw(3, 2, end.encode_to_vec())
}

fn schema_change() -> Bytes {
    raw(2, 5, wire::RowChange::default().encode_to_vec())
}

fn message(epoch: u64, id: i64, entries: Vec<Bytes>) -> Message {
    Message::new(BatchId::new(epoch, id), Arc::from("example"), entries)
}

fn summary(transactions: &[CommittedTransaction]) -> Vec<(Option<&str>, usize)> {
    transactions
        .iter()
        .map(|transaction| (transaction.id(), transaction.entries().len()))
        .collect()
}

#[test]
fn a_transaction_that_is_cut_by_batches_is_put_together() {
    let mut assembler = TransactionAssembler::new(1 << 20);
    let first = message(1, 1, vec![begin(), row(), end("7"), row()]);
    let ended = assembler.push(&first).unwrap();
    assert_eq!(summary(&ended), [(Some("7"), 1)]);
    assert_eq!(assembler.open_since(), Some(BatchId::new(1, 1)));
    assert!(
        assembler
            .push(&message(1, 2, vec![row()]))
            .unwrap()
            .is_empty()
    );
    let ended = assembler
        .push(&message(1, 3, vec![row(), end("8")]))
        .unwrap();
    assert_eq!(summary(&ended), [(Some("8"), 3)]);
    assert_eq!(ended[0].first_batch().id(), 1);
    assert_eq!(ended[0].last_batch().id(), 3);
    assert_eq!(assembler.open_since(), None);
}

#[test]
fn a_half_that_a_reconnect_cuts_off_is_never_reported() {
    let mut assembler = TransactionAssembler::new(1 << 20);
    assembler.push(&message(1, 1, vec![row(), row()])).unwrap();
    let ended = assembler
        .push(&message(2, 1, vec![row(), end("7")]))
        .unwrap();
    assert_eq!(
        summary(&ended),
        [(Some("7"), 1)],
        "only what came in this epoch"
    );
}

#[test]
fn a_beginning_drops_what_has_no_end() {
    let mut assembler = TransactionAssembler::new(1 << 20);
    let batch = message(1, 1, vec![row(), begin(), row(), row(), end("9")]);
    assert_eq!(summary(&assembler.push(&batch).unwrap()), [(Some("9"), 2)]);
}

#[test]
fn a_schema_change_is_a_transaction_by_itself_and_stray_ends_are_none() {
    let mut assembler = TransactionAssembler::new(1 << 20);
    let batch = message(1, 1, vec![end("1"), end("2"), schema_change(), end("3")]);
    assert_eq!(summary(&assembler.push(&batch).unwrap()), [(None, 1)]);
}

#[test]
fn a_transaction_beyond_the_limit_is_an_error() {
    let mut assembler = TransactionAssembler::new(row().len() * 2);
    let error = assembler
        .push(&message(1, 1, vec![row(), row(), row()]))
        .unwrap_err();
    assert!(
        matches!(error, CanalError::TransactionTooLarge { .. }),
        "{error}"
    );
    assert!(!error.is_retryable());
}

proptest! {
    /// However a server cuts: the same transactions come.
    #[test]
    fn cuts_change_nothing(
        sizes in proptest::collection::vec(1_usize..6, 1..20),
        cuts in proptest::collection::vec(1_usize..7, 1..60),
    ) {
        let mut entries = Vec::new();
        for (id, size) in sizes.iter().enumerate() {
            entries.extend(std::iter::repeat_with(row).take(*size));
            entries.push(end(&id.to_string()));
        }
        let mut assembler = TransactionAssembler::new(1 << 20);
        let (mut seen, mut id, mut cuts) = (Vec::new(), 0, cuts.into_iter().cycle());
        while !entries.is_empty() {
            let cut = cuts.next().unwrap_or(1).min(entries.len());
            let rest = entries.split_off(cut);
            id += 1;
            let ended = assembler.push(&message(1, id, mem::replace(&mut entries, rest))).unwrap();
            for transaction in ended {
                prop_assert!(transaction.first_batch() <= transaction.last_batch());
                prop_assert_eq!(transaction.last_batch().id(), id);
                seen.push(transaction.entries().len());
            }
        }
        prop_assert_eq!(seen, sizes);
    }
}
