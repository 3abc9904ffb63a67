//! Entries, and the rows in them.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::entry::{Entry, EntryType};
use crate::protocol::generated::entry as wire;
use crate::row::{RowChange, compare_with_prost, rows_in};

/// Where they come from.
pub(super) const DESTINATION: &str = "example";

/// An entry, from its header on.
///
/// # Panics
/// See [`row`].
pub fn entry(bytes: &[u8]) {
    let raw = Bytes::copy_from_slice(bytes);
    let rows = rows_in(bytes);
    let Ok(entry) = Entry::decode(DESTINATION.into(), raw) else {
        return;
    };
    if let Ok(Some(change)) = entry.row_change() {
        assert!(
            change.len() <= rows,
            "{} rows, {rows} were counted",
            change.len()
        );
    }
    read(&entry);
}

/// The content of a row change: read as prost reads it, or refused as by prost; and every column as
/// every type is a value or an error.
///
/// # Panics
/// When not.
pub fn row(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    compare_with_prost(&bytes);
    let around = wire::Entry {
        header: Some(wire::Header::default()),
        entry_type: Some(EntryType::RowData.number()),
        store_value: bytes,
    };
    let raw = Bytes::from(around.encode_to_vec());
    let entry = Entry::decode(DESTINATION.into(), raw).expect("what was encoded can be decoded");
    read(&entry);
}

/// All that can be asked of an entry.
pub(super) fn read(entry: &Entry) {
    assert_eq!(entry.fingerprint(), entry.fingerprint());
    let _ = (entry.transaction_end_id(), format!("{entry:?}"));
    compare_with_prost(entry.content());
    let Ok(Some(change)) = entry.row_change() else {
        return;
    };
    let _ = format!("{change:?} {:?}", change.sql());
    for raw in change.raw_rows() {
        let _ = format!("{raw:?}");
    }
    values::<bool>(&change);
    values::<i8>(&change);
    values::<i64>(&change);
    values::<u8>(&change);
    values::<u64>(&change);
    values::<i128>(&change);
    values::<f32>(&change);
    values::<f64>(&change);
    values::<char>(&change);
    values::<String>(&change);
    values::<Option<Vec<u8>>>(&change);
    values::<serde_json::Value>(&change);
    values::<Name>(&change);
    values::<IgnoredAny>(&change);
}

/// An enum's names, as a type.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Small,
    Large,
}

fn values<'de, T: Deserialize<'de>>(change: &'de RowChange) {
    for row in change.rows::<BTreeMap<String, T>>() {
        match row {
            Ok(row) => drop((row.changed().count(), row.before, row.after)),
            Err(error) => drop(error.to_string()),
        }
    }
}
