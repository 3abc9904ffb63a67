//! A table that is changed by dice, its binlog's entries, and handlers that follow it. For tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::entries::{self, is_snapshot};
use super::key::{Key, KeyColumn, KeyKind, KeyValue};
use crate::entry::Entry;
use crate::protocol::generated::entry as wire;
use crate::row::ChangeKind;

/// Ids and values.
pub(super) type Rows = BTreeMap<u64, u64>;

pub(super) fn columns(id: u64, value: u64) -> Vec<wire::Column> {
    let column = |index, name: &'static str, text: String, key| wire::Column {
        index,
        name: name.into(),
        is_key: key,
        value: text.into(),
        mysql_type: "bigint(20) unsigned".into(),
        ..wire::Column::default()
    };
    vec![
        column(0, "id", id.to_string(), true),
        column(1, "value", value.to_string(), false),
    ]
}

pub(super) fn header(schema: &str, table: &str) -> wire::Header {
    wire::Header {
        schema_name: schema.to_owned(),
        table_name: table.to_owned(),
        ..wire::Header::default()
    }
}

/// A change: the row before and after.
pub(super) type Change = (Option<(u64, u64)>, Option<(u64, u64)>);

pub(super) fn change(made: Change) -> Bytes {
    change_at(&header("shop", "orders"), made)
}

/// The entry of a change with this header.
pub(super) fn change_at(header: &wire::Header, (before, after): Change) -> Bytes {
    let kind = match (before, after) {
        (None, _) => wire::EventType::Insert,
        (_, None) => wire::EventType::Delete,
        _ => wire::EventType::Update,
    };
    let image = |row: Option<(u64, u64)>| row.map_or(Vec::new(), |(id, value)| columns(id, value));
    let row = wire::RowData {
        before_columns: image(before),
        after_columns: image(after),
        ..wire::RowData::default()
    };
    entries::entry(header, kind, vec![row])
}

pub(super) fn decoded(raw: &Bytes) -> Entry {
    Entry::decode(Arc::from("example"), raw.clone()).unwrap()
}

pub(super) fn key() -> Vec<KeyColumn> {
    vec![KeyColumn {
        name: "id".to_owned(),
        kind: KeyKind::Unsigned,
    }]
}

pub(super) fn id_of(key: &Key) -> u64 {
    match key.0[0] {
        KeyValue::Unsigned(id) => id,
        _ => unreachable!("the key is unsigned"),
    }
}

/// The changes in an entry; whether they were read.
pub(super) fn changes(raw: &Bytes) -> (bool, Vec<Change>) {
    let entry = decoded(raw);
    let Some(change) = entry.row_change().unwrap() else {
        return (false, Vec::new());
    };
    if change.kind() != ChangeKind::Rows {
        return (false, Vec::new());
    }
    let row = |columns: crate::Columns<'_>| {
        let number = |name| columns.get(name)?.text()?.parse().ok();
        Some((number("id")?, number("value")?))
    };
    let rows = change
        .raw_rows()
        .map(|raw| (row(raw.before()), row(raw.after())));
    (is_snapshot(&entry), rows.collect())
}

/// What a handler has.
#[derive(Debug, Clone, Default)]
pub(super) struct Handler {
    pub(super) rows: Rows,
}

impl Handler {
    /// Takes what comes and lets nothing pass that does not fit what it has.
    pub(super) fn strictly(&mut self, raw: &Bytes) {
        for (before, after) in changes(raw).1 {
            if let Some((id, value)) = before {
                assert_eq!(self.rows.remove(&id), Some(value), "row {id} before");
            }
            if let Some((id, value)) = after {
                assert_eq!(self.rows.insert(id, value), None, "row {id} is new");
            }
        }
    }

    /// Writes what comes over what it has, as a handler does to whom things may come twice.
    pub(super) fn over(&mut self, raw: &Bytes) {
        for (before, after) in changes(raw).1 {
            if let Some((id, _)) = before {
                self.rows.remove(&id);
            }
            if let Some((id, value)) = after {
                self.rows.insert(id, value);
            }
        }
    }
}

/// Changes the table as the dice say.
pub(super) fn mutate(rows: &mut Rows, dice: u64) -> Option<Change> {
    let keys: Vec<u64> = rows.keys().copied().collect();
    let pick = |at: u64| {
        keys.get(usize::try_from(at).unwrap() % keys.len().max(1))
            .copied()
    };
    let value = dice / 7;
    Some(match (dice % 5, pick(dice / 5)) {
        (0 | 1, _) | (_, None) => {
            let id = dice / 5 % 60;
            match rows.insert(id, value) {
                None => (None, Some((id, value))),
                Some(old) => (Some((id, old)), Some((id, value))),
            }
        }
        (2, Some(id)) => {
            let old = rows.insert(id, value).unwrap();
            (Some((id, old)), Some((id, value)))
        }
        (3, Some(id)) => (Some((id, rows.remove(&id).unwrap())), None),
        (_, Some(id)) => {
            // The key itself changes.
            let to = dice / 11 % 60;
            if rows.contains_key(&to) {
                return None;
            }
            let old = rows.remove(&id).unwrap();
            rows.insert(to, value);
            (Some((id, old)), Some((to, value)))
        }
    })
}
