//! Rows and statements as flat messages.

use super::FlatMessage;
use super::map::{Ordered, Text};
use crate::entry::EventType;
use crate::mq::MqError;
use crate::parsed::Parsed;
use crate::protocol::generated::entry as wire;

/// What every message made from one entry has in common.
pub(crate) struct Parts<'a> {
    parsed: &'a Parsed,
    head: FlatMessage,
}

impl<'a> Parts<'a> {
    /// For an entry of batch `id`, made at `ts` (milliseconds since 1970).
    pub(crate) fn new(parsed: &'a Parsed, id: i64, ts: i64) -> Result<Self, MqError> {
        let mut head = FlatMessage {
            database: parsed.header.schema_name.clone(),
            es: parsed.header.execute_time,
            gtid: parsed.header.gtid.clone(),
            id,
            is_ddl: parsed.is_schema_change,
            sql: parsed.change.sql.clone(),
            table: parsed.header.table_name.clone(),
            ts,
            event_type: name(parsed.event_type).to_owned(),
            ..FlatMessage::default()
        };
        if let Some(first) = parsed.rows().first() {
            let columns = parsed.image(first);
            let mut keys = Vec::new();
            let (mut mysql_type, mut sql_type) = (Vec::new(), Vec::new());
            for column in columns {
                let column_name = utf8(parsed, column, &column.name)?;
                if column.is_key {
                    keys.push(column_name.clone());
                }
                let type_name = utf8(parsed, column, &column.mysql_type)?;
                mysql_type.push((column_name.clone(), type_name));
                sql_type.push((column_name, column.sql_type));
            }
            head.pk_names = (!keys.is_empty()).then_some(keys);
            head.mysql_type = Some(Ordered(mysql_type));
            head.sql_type = Some(Ordered(sql_type));
        }
        Ok(Self { parsed, head })
    }

    /// The message with these rows of the entry.
    pub(crate) fn with_rows(
        &self,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<FlatMessage, MqError> {
        let mut message = self.head.clone();
        let all = self.parsed.rows();
        if all.is_empty() {
            return Ok(message);
        }
        let (mut data, mut old) = (Vec::new(), Vec::new());
        for row in rows.into_iter().filter_map(|index| all.get(index)) {
            data.push(self.texts(self.parsed.image(row).iter())?);
            if self.parsed.event_type == EventType::Update {
                old.push(self.texts(changed(row))?);
            }
        }
        message.data = Some(data);
        message.old = (!old.is_empty()).then_some(old);
        Ok(message)
    }

    fn texts<'c>(
        &self,
        columns: impl Iterator<Item = &'c wire::Column>,
    ) -> Result<Ordered<Text>, MqError> {
        let texts = columns.map(|column| {
            let text = match column.is_null {
                Some(true) => None,
                _ => Some(utf8(self.parsed, column, &column.value)?),
            };
            Ok((utf8(self.parsed, column, &column.name)?, Text(text)))
        });
        texts.collect::<Result<_, MqError>>().map(Ordered)
    }
}

/// What the columns were that an update has changed. The server marks them on the image after.
fn changed(row: &wire::RowData) -> impl Iterator<Item = &wire::Column> {
    row.before_columns.iter().filter(|before| {
        row.after_columns
            .iter()
            .any(|after| after.updated && after.name == before.name)
    })
}

fn utf8(parsed: &Parsed, column: &wire::Column, bytes: &[u8]) -> Result<String, MqError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        MqError::BadEntry(format!(
            "{} has text that is not UTF-8 in column `{}`",
            parsed.place(),
            String::from_utf8_lossy(&column.name)
        ))
    })
}

/// Canal's word for a kind of change.
pub(super) fn name(event_type: EventType) -> &'static str {
    match event_type {
        EventType::Insert => "INSERT",
        EventType::Update => "UPDATE",
        EventType::Delete => "DELETE",
        EventType::Create => "CREATE",
        EventType::Alter => "ALTER",
        EventType::Erase => "ERASE",
        EventType::Truncate => "TRUNCATE",
        EventType::Rename => "RENAME",
        EventType::CreateIndex => "CINDEX",
        EventType::DropIndex => "DINDEX",
        EventType::Gtid => "GTID",
        EventType::XaCommit => "XACOMMIT",
        EventType::XaRollback => "XAROLLBACK",
        EventType::MasterHeartbeat => "MHEARTBEAT",
        // What a later server may bring is a statement to a reader.
        EventType::Query | EventType::Unknown(_) => "QUERY",
    }
}

/// The kind of change behind Canal's word.
pub(super) fn event_type(name: &str) -> Option<EventType> {
    const ALL: [EventType; 15] = [
        EventType::Insert,
        EventType::Update,
        EventType::Delete,
        EventType::Create,
        EventType::Alter,
        EventType::Erase,
        EventType::Query,
        EventType::Truncate,
        EventType::Rename,
        EventType::CreateIndex,
        EventType::DropIndex,
        EventType::Gtid,
        EventType::XaCommit,
        EventType::XaRollback,
        EventType::MasterHeartbeat,
    ];
    ALL.into_iter().find(|kind| self::name(*kind) == name)
}
