//! Kinds that are absent or unknown, and what makes a fingerprint.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;

use super::*;

fn destination() -> Arc<str> {
    Arc::from("example")
}

fn row(table_id: i64, journal: &str, offset: i64, sql: &str) -> Entry {
    let change = wire::RowChange {
        table_id,
        sql: sql.to_owned(),
        ..wire::RowChange::default()
    };
    let entry = wire::Entry {
        header: Some(wire::Header {
            logfile_name: journal.to_owned(),
            logfile_offset: offset,
            schema_name: "shop".to_owned(),
            table_name: "orders".to_owned(),
            event_type: Some(wire::EventType::Insert.into()),
            ..wire::Header::default()
        }),
        entry_type: Some(wire::EntryType::RowData.into()),
        store_value: Bytes::from(change.encode_to_vec()),
    };
    Entry::decode(destination(), Bytes::from(entry.encode_to_vec())).unwrap()
}

fn end(id: &str) -> Entry {
    let end = wire::TransactionEnd {
        transaction_id: id.to_owned(),
        ..Default::default()
    };
    let entry = wire::Entry {
        header: None,
        entry_type: Some(wire::EntryType::TransactionEnd.into()),
        store_value: Bytes::from(end.encode_to_vec()),
    };
    Entry::decode(destination(), Bytes::from(entry.encode_to_vec())).unwrap()
}

#[test]
fn absent_entry_type_is_row_data_and_absent_event_type_is_update() {
    let entry = Entry::decode(destination(), Bytes::new()).unwrap();
    assert_eq!(entry.entry_type(), EntryType::RowData);
    assert_eq!(entry.event_type(), Some(EventType::Update));
}

#[test]
fn the_end_of_a_transaction_has_no_event_type() {
    assert_eq!(end("57").event_type(), None);
}

#[test]
fn unknown_numbers_are_kept() {
    let entry = wire::Entry {
        entry_type: Some(77),
        ..Default::default()
    };
    let entry = Entry::decode(destination(), Bytes::from(entry.encode_to_vec())).unwrap();
    assert_eq!(entry.entry_type(), EntryType::Unknown(77));
    assert_eq!(EventType::from_wire(Some(99)), EventType::Unknown(99));
}

#[test]
fn a_transaction_without_a_number_is_no_anchor() {
    assert_eq!(
        end("57").transaction_end_id().unwrap().as_deref(),
        Some("57")
    );
    assert_eq!(end("0").transaction_end_id().unwrap(), None);
    assert_eq!(end("").transaction_end_id().unwrap(), None);
    assert_eq!(row(1, "a", 1, "x").transaction_end_id().unwrap(), None);
}

#[test]
fn a_fingerprint_leaves_out_place_and_table_id() {
    let here = row(1, "binlog.000001", 4, "x").fingerprint();
    assert_eq!(here, row(9, "binlog.000002", 99, "x").fingerprint());
    assert_ne!(here, row(1, "binlog.000001", 4, "y").fingerprint());
    assert_ne!(end("57").fingerprint(), end("58").fingerprint());
}

#[test]
fn fingerprints_are_stable_over_releases() {
    assert_eq!(
        row(1, "a", 1, "x").fingerprint().to_string(),
        "56eb2ee2581d7356494dc72dd42e12e6"
    );
    assert_eq!(
        end("57").fingerprint().to_string(),
        "44127a2593e7eebb3b1c0edc9c742f26"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_an_entry_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(entry) = Entry::decode(destination(), Bytes::from(bytes)) {
            let _ = entry.fingerprint();
            let _ = entry.row_change();
            let _ = entry.transaction_end_id();
        }
    }

    #[test]
    fn any_content_has_a_fingerprint(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let entry = wire::Entry { store_value: Bytes::from(bytes), ..Default::default() };
        let entry = Entry::decode(destination(), Bytes::from(entry.encode_to_vec())).unwrap();
        prop_assert_eq!(entry.fingerprint(), entry.fingerprint());
        let _ = entry.row_change();
    }
}
