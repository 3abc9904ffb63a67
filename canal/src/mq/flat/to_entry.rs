//! Flat messages as entries, so that a reader of the queue has the rows of a reader of the server.

use bytes::Bytes;
use prost::Message as _;

use super::map::{Ordered, Text};
use super::{FlatMessage, from_entry};
use crate::entry::EventType;
use crate::protocol::generated::entry as wire;

impl FlatMessage {
    /// The entry that this message stands for, as it is on the wire. `place` becomes its position:
    /// the flat form does not carry the binlog's.
    pub(crate) fn to_entry(&self, place: (&str, i64)) -> Result<Bytes, String> {
        let event_type = from_entry::event_type(&self.event_type)
            .ok_or_else(|| format!("no flat message: the type `{}` is unknown", self.event_type))?;
        let row_datas = match event_type.has_rows() && !self.is_ddl {
            true => self.row_datas(event_type)?,
            false => Vec::new(),
        };
        let change = wire::RowChange {
            event_type: Some(number(event_type)),
            is_ddl: Some(self.is_ddl),
            sql: self.sql.clone(),
            row_datas,
            ddl_schema_name: if self.is_ddl {
                self.database.clone()
            } else {
                String::new()
            },
            ..wire::RowChange::default()
        };
        let header = wire::Header {
            version: Some(1),
            logfile_name: place.0.to_owned(),
            logfile_offset: place.1,
            serveren_code: "UTF-8".to_owned(),
            execute_time: self.es,
            source_type: Some(wire::SourceType::Mysql.into()),
            schema_name: self.database.clone(),
            table_name: self.table.clone(),
            event_type: Some(number(event_type)),
            gtid: self.gtid.clone(),
            ..wire::Header::default()
        };
        let entry = wire::Entry {
            header: Some(header),
            entry_type: Some(wire::EntryType::RowData.into()),
            store_value: change.encode_to_vec().into(),
        };
        Ok(entry.encode_to_vec().into())
    }

    fn row_datas(&self, event_type: EventType) -> Result<Vec<wire::RowData>, String> {
        let data = self.data.as_deref().unwrap_or_default();
        let old = self.old.as_deref().unwrap_or_default();
        if event_type == EventType::Update && !old.is_empty() && old.len() != data.len() {
            return Err(format!(
                "no flat message: `old` has {} rows and `data` {}, so nobody knows whose they are",
                old.len(),
                data.len()
            ));
        }
        let rows = data.iter().enumerate().map(|(index, row)| {
            let old = old.get(index);
            let mut result = wire::RowData::default();
            match event_type {
                EventType::Delete => {
                    result.before_columns = self.columns(row, |_, _| Image::Same(false))
                }
                EventType::Update => {
                    result.before_columns = self.columns(row, |name, at| {
                        let was = old.and_then(|old| old.get(name, at));
                        was.map_or(Image::Same(false), Image::Was)
                    });
                    result.after_columns = self.columns(row, |name, at| {
                        Image::Same(old.is_some_and(|old| old.get(name, at).is_some()))
                    });
                }
                _ => result.after_columns = self.columns(row, |_, _| Image::Same(true)),
            }
            result
        });
        Ok(rows.collect())
    }

    fn columns<'a>(
        &self,
        row: &'a Ordered<Text>,
        image: impl Fn(&str, usize) -> Image<'a>,
    ) -> Vec<wire::Column> {
        let keys = self.pk_names.as_deref().unwrap_or_default();
        let columns = row.0.iter().enumerate().map(|(index, (name, now))| {
            let (text, updated) = match image(name, index) {
                Image::Same(updated) => (now, updated),
                Image::Was(text) => (text, false),
            };
            let mysql_type = self
                .mysql_type
                .as_ref()
                .and_then(|types| types.get(name, index));
            let sql_type = self
                .sql_type
                .as_ref()
                .and_then(|types| types.get(name, index));
            wire::Column {
                index: i32::try_from(index).unwrap_or(i32::MAX),
                sql_type: sql_type.copied().unwrap_or_default(),
                name: name.clone().into(),
                is_key: keys.contains(name),
                updated,
                is_null: Some(text.0.is_none()),
                value: text.0.clone().unwrap_or_default().into(),
                mysql_type: mysql_type.cloned().unwrap_or_default().into(),
                ..wire::Column::default()
            }
        });
        columns.collect()
    }
}

/// A column's value in one image of the row.
enum Image<'a> {
    /// What `data` says; whether it is marked as updated.
    Same(bool),
    /// What `old` says.
    Was(&'a Text),
}

fn number(event_type: EventType) -> i32 {
    let known = match event_type {
        EventType::Insert => wire::EventType::Insert,
        EventType::Update => wire::EventType::Update,
        EventType::Delete => wire::EventType::Delete,
        EventType::Create => wire::EventType::Create,
        EventType::Alter => wire::EventType::Alter,
        EventType::Erase => wire::EventType::Erase,
        EventType::Query => wire::EventType::Query,
        EventType::Truncate => wire::EventType::Truncate,
        EventType::Rename => wire::EventType::Rename,
        EventType::CreateIndex => wire::EventType::CreateIndex,
        EventType::DropIndex => wire::EventType::DropIndex,
        EventType::Gtid => wire::EventType::Gtid,
        EventType::XaCommit => wire::EventType::XaCommit,
        EventType::XaRollback => wire::EventType::XaRollback,
        EventType::MasterHeartbeat => wire::EventType::MasterHeartbeat,
        EventType::Unknown(number) => return number,
    };
    known.into()
}
