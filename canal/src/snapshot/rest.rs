//! What is left of a change when the handler must not get all of it.

use bytes::Bytes;

use super::entries;
use super::error::SnapshotError;
use super::key::Key;
use super::state::TableState;
use crate::entry::{Entry, EventType};
use crate::parsed::Parsed;
use crate::protocol::generated::entry as wire;

/// A row's change, as an entry has it.
pub(super) type Rest = (wire::EventType, wire::RowData);

/// The key of a row's image; `None` if there is no image.
pub(super) fn key(
    table: &TableState,
    parsed: &Parsed,
    columns: &[wire::Column],
) -> Result<Option<Key>, SnapshotError> {
    if columns.is_empty() {
        return Ok(None);
    }
    match Key::of(&table.key, columns) {
        Some(key) => Ok(Some(key)),
        None => Err(SnapshotError::RowImage {
            table: format!("{}.{}", table.schema, table.table),
            position: parsed.place(),
        }),
    }
}

/// What the handler gets of a row's change: whether it gets changes of the row as it was, and as it
/// is; `None` where there is no such image. An update that moves a row between those of which it
/// gets changes and the others becomes a delete or an insert.
pub(super) fn of_row(row: &wire::RowData, was: Option<bool>, is: Option<bool>) -> Option<Rest> {
    let (kind, before, after) = match (was, is) {
        (Some(true), Some(true)) => (wire::EventType::Update, true, true),
        (Some(true), _) => (wire::EventType::Delete, true, false),
        (_, Some(true)) => (wire::EventType::Insert, false, true),
        _ => return None,
    };
    let image = |wanted: bool, columns: &[wire::Column]| match wanted {
        true => columns.to_vec(),
        false => Vec::new(),
    };
    let rest = wire::RowData {
        before_columns: image(before, &row.before_columns),
        after_columns: image(after, &row.after_columns),
        props: row.props.clone(),
    };
    Some((kind, rest))
}

/// The entries with what is left of an entry's rows: itself if that is all of them.
pub(super) fn entries(entry: &Entry, parsed: &Parsed, left: Vec<Rest>) -> Vec<Bytes> {
    let whole = left.len() == parsed.rows().len();
    if whole && left.iter().all(|(kind, _)| *kind == kind_of(parsed)) {
        return vec![entry.raw().clone()];
    }
    let groups = left.chunk_by(|a, b| a.0 == b.0);
    let entries = groups.map(|group| {
        let rows = group.iter().map(|(_, row)| row.clone()).collect();
        entries::entry(&parsed.header, group[0].0, rows)
    });
    entries.collect()
}

fn kind_of(parsed: &Parsed) -> wire::EventType {
    match parsed.event_type {
        EventType::Insert => wire::EventType::Insert,
        EventType::Delete => wire::EventType::Delete,
        _ => wire::EventType::Update,
    }
}
