//! An entry with its content read, for what needs its rows one by one.

use prost::Message as _;

use crate::entry::{Entry, EntryType, EventType};
use crate::error::CanalError;
use crate::protocol::generated::entry as wire;

/// An entry that carries rows or a statement.
pub(crate) struct Parsed {
    pub(crate) header: wire::Header,
    pub(crate) change: wire::RowChange,
    pub(crate) event_type: EventType,
    pub(crate) is_schema_change: bool,
}

impl Parsed {
    /// `None` for what carries neither: the begin and end of a transaction, heartbeats.
    pub(crate) fn of(entry: &Entry) -> Result<Option<Self>, CanalError> {
        if entry.entry_type() != EntryType::RowData {
            return Ok(None);
        }
        let malformed = |error: prost::DecodeError| {
            CanalError::Protocol(format!("the row change at {}: {error}", entry.position()))
        };
        let header = wire::Entry::decode(entry.raw().clone())
            .map_err(malformed)?
            .header
            .unwrap_or_default();
        let change = wire::RowChange::decode(entry.content().clone()).map_err(malformed)?;
        let event_type = EventType::from_wire(change.event_type);
        Ok(Some(Self {
            // Servers 1.1.5 and 1.1.6 do not mark every schema change as one.
            is_schema_change: change.is_ddl.unwrap_or(false) || event_type.is_schema_change(),
            header,
            change,
            event_type,
        }))
    }

    /// The rows; none for a statement.
    pub(crate) fn rows(&self) -> &[wire::RowData] {
        if self.is_schema_change || !self.event_type.has_rows() {
            return &[];
        }
        &self.change.row_datas
    }

    /// The image of a row that says where it is: before a delete, after anything else.
    #[cfg(feature = "mq")]
    pub(crate) fn image<'a>(&self, row: &'a wire::RowData) -> &'a [wire::Column] {
        match self.event_type {
            EventType::Delete => &row.before_columns,
            _ => &row.after_columns,
        }
    }

    /// The entry with these rows alone, as it is on the wire.
    #[cfg(feature = "mq")]
    pub(crate) fn with_rows(&self, rows: impl IntoIterator<Item = usize>) -> Vec<u8> {
        let all = &self.change.row_datas;
        let chosen = rows.into_iter().filter_map(|index| all.get(index)).cloned();
        let change = wire::RowChange {
            row_datas: chosen.collect(),
            props: self.change.props.clone(),
            sql: self.change.sql.clone(),
            ddl_schema_name: self.change.ddl_schema_name.clone(),
            ..self.change
        };
        let entry = wire::Entry {
            header: Some(self.header.clone()),
            entry_type: Some(wire::EntryType::RowData.into()),
            store_value: change.encode_to_vec().into(),
        };
        entry.encode_to_vec()
    }

    /// Table and place, for errors.
    pub(crate) fn place(&self) -> String {
        let wire::Header {
            schema_name,
            table_name,
            logfile_name,
            logfile_offset,
            ..
        } = &self.header;
        format!("{schema_name}.{table_name} at {logfile_name}:{logfile_offset}")
    }
}
