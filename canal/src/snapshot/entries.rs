//! Entries that are made here: rows that were read, and what is left of an update.

use bytes::Bytes;
use prost::Message as _;

use crate::entry::Entry;
use crate::protocol::generated::entry as wire;

/// The property that marks rows that were read.
const SNAPSHOT: &str = "snapshot";

/// Bytes of rows that one entry has at most, but for a row that is larger.
const ENTRY_BYTES: usize = 256 << 10;

/// Whether an entry's rows were read from the table, and are no change: they are its rows of
/// before.
pub fn is_snapshot(entry: &Entry) -> bool {
    entry.property(SNAPSHOT) == Some("true")
}

/// Where and when rows were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReadAt {
    /// The binlog's file and offset at the read, if the database tells.
    pub(super) journal: String,
    pub(super) offset: i64,
    pub(super) server_id: i64,
    /// Milliseconds since 1970.
    pub(super) time: i64,
}

/// Rows that were read, as inserts.
pub(super) fn inserts(
    schema: &str,
    table: &str,
    at: &ReadAt,
    rows: impl IntoIterator<Item = Vec<wire::Column>>,
) -> Vec<Bytes> {
    let header = wire::Header {
        version: Some(1),
        logfile_name: at.journal.clone(),
        logfile_offset: at.offset,
        server_id: at.server_id,
        serveren_code: "UTF-8".to_owned(),
        execute_time: at.time,
        source_type: Some(wire::SourceType::Mysql.into()),
        schema_name: schema.to_owned(),
        table_name: table.to_owned(),
        event_type: Some(wire::EventType::Insert.into()),
        props: vec![wire::Pair {
            key: SNAPSHOT.to_owned(),
            value: "true".to_owned(),
        }],
        ..wire::Header::default()
    };
    let (mut entries, mut open, mut bytes) = (Vec::new(), Vec::new(), 0);
    for mut columns in rows {
        for column in &mut columns {
            column.updated = true;
        }
        let row = wire::RowData {
            after_columns: columns,
            ..wire::RowData::default()
        };
        bytes += row.encoded_len();
        if bytes > ENTRY_BYTES && !open.is_empty() {
            entries.push(entry(
                &header,
                wire::EventType::Insert,
                std::mem::take(&mut open),
            ));
            bytes = row.encoded_len();
        }
        open.push(row);
    }
    if !open.is_empty() {
        entries.push(entry(&header, wire::EventType::Insert, open));
    }
    entries
}

/// An entry with these rows.
pub(super) fn entry(
    header: &wire::Header,
    event_type: wire::EventType,
    rows: Vec<wire::RowData>,
) -> Bytes {
    let change = wire::RowChange {
        event_type: Some(event_type.into()),
        is_ddl: Some(false),
        row_datas: rows,
        ..wire::RowChange::default()
    };
    let header = wire::Header {
        event_type: Some(event_type.into()),
        ..header.clone()
    };
    let entry = wire::Entry {
        header: Some(header),
        entry_type: Some(wire::EntryType::RowData.into()),
        store_value: change.encode_to_vec().into(),
    };
    entry.encode_to_vec().into()
}
