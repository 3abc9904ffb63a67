//! Entries: what a batch is made of. One entry is the begin or end of a transaction, a rows event
//! with any number of rows, or a statement.

mod fingerprint;
mod kind;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;

pub use fingerprint::EntryFingerprint;
pub use kind::{EntryType, EventType};

use crate::error::CanalError;
use crate::protocol::generated::entry as wire;
use crate::row::{Content, RowChange};

/// One entry: its header is decoded, its content is not.
///
/// MariaDB's entries have no [`EntryType::TransactionBegin`]; with servers that leave out empty
/// transactions an end can come without rows. Consecutive entries may be equal: the server
/// sometimes delivers the last entries before a break several times.
#[derive(Clone)]
pub struct Entry {
    destination: Arc<str>,
    raw: Bytes,
    /// Shared with the changes that are read from the entry.
    header: Arc<wire::Header>,
    entry_type: EntryType,
    content: Bytes,
}

impl Entry {
    /// Reads an entry of `destination` from its bytes on the wire
    /// ([`Message::raw_entries`](crate::Message::raw_entries)).
    ///
    /// # Errors
    /// [`CanalError::Protocol`] when the bytes are not an entry.
    pub fn decode(destination: Arc<str>, raw: Bytes) -> Result<Self, CanalError> {
        let entry = wire::Entry::decode(raw.clone()).map_err(|error| {
            CanalError::Protocol(format!(
                "an entry of `{destination}` cannot be decoded: {error}"
            ))
        })?;
        let entry_type = EntryType::from_wire(entry.entry_type);
        let header = Arc::new(entry.header.unwrap_or_default());
        Ok(Self {
            destination,
            raw,
            header,
            entry_type,
            content: entry.store_value,
        })
    }

    /// The destination it comes from.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// The bytes on the wire.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// What the entry is. Look at this before [`event_type`](Self::event_type).
    pub fn entry_type(&self) -> EntryType {
        self.entry_type
    }

    /// The kind of change, if the entry is [`EntryType::RowData`]; `None` on the begin or end of a
    /// transaction, where the header's field means nothing.
    pub fn event_type(&self) -> Option<EventType> {
        (self.entry_type == EntryType::RowData)
            .then(|| EventType::from_wire(self.header.event_type))
    }

    /// Schema of the table; may be empty on statements.
    pub fn schema_name(&self) -> &str {
        &self.header.schema_name
    }

    /// The table; may be empty on statements, or the first of several.
    pub fn table_name(&self) -> &str {
        &self.header.table_name
    }

    /// Where the database wrote it. For starting and for display: a position does not identify an
    /// entry, because positions repeat and go back after a quick rotation of the binlog.
    pub fn position(&self) -> Position {
        Position {
            journal: self.header.logfile_name.clone(),
            offset: self.header.logfile_offset,
            server_id: self.header.server_id,
            execute_time: self.header.execute_time,
        }
    }

    /// The database server that wrote it.
    pub fn server_id(&self) -> i64 {
        self.header.server_id
    }

    /// When the database executed it: milliseconds since 1970, in whole seconds.
    pub fn execute_time(&self) -> i64 {
        self.header.execute_time
    }

    /// The set of executed GTIDs, where the server sends it; else empty.
    pub fn gtid(&self) -> &str {
        &self.header.gtid
    }

    /// A property of the header, such as `rowsCount` or `curtGtid`.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.header
            .props
            .iter()
            .find(|pair| pair.key == key)
            .map(|pair| pair.value.as_str())
    }

    /// The content's bytes.
    pub fn content(&self) -> &Bytes {
        &self.content
    }

    /// The rows or the statement; `None` if the entry is not [`EntryType::RowData`].
    ///
    /// # Errors
    /// [`CanalError::Protocol`], with the place, when the content is not a row change.
    pub fn row_change(&self) -> Result<Option<RowChange>, CanalError> {
        if self.entry_type != EntryType::RowData {
            return Ok(None);
        }
        let content = Content::decode(self.content.clone())
            .map_err(|error| self.malformed("row change", &error))?;
        Ok(Some(RowChange::new(self.clone(), content)))
    }

    /// The database's number of the transaction that ends here. `None` if the entry is no
    /// [`EntryType::TransactionEnd`], or has no number: tables without transactions, statements.
    ///
    /// # Errors
    /// [`CanalError::Protocol`], with the place, when the content is not a transaction's end.
    pub fn transaction_end_id(&self) -> Result<Option<String>, CanalError> {
        if self.entry_type != EntryType::TransactionEnd {
            return Ok(None);
        }
        let end = wire::TransactionEnd::decode(self.content.clone())
            .map_err(|error| self.malformed("transaction end", &error))?;
        let id = end.transaction_id;
        Ok((!id.is_empty() && id != "0").then_some(id))
    }

    /// What the entry is, for recognising it when it comes again. See [`EntryFingerprint`].
    pub fn fingerprint(&self) -> EntryFingerprint {
        EntryFingerprint::of(self)
    }

    fn malformed(&self, what: &str, error: &dyn fmt::Display) -> CanalError {
        CanalError::Protocol(format!(
            "the {what} at {} of `{}` cannot be decoded: {error}",
            self.position(),
            self.destination
        ))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("destination", &self.destination)
            .field("entry_type", &self.entry_type)
            .field("event_type", &self.event_type())
            .field("schema", &self.schema_name())
            .field("table", &self.table_name())
            .field("position", &format_args!("{}", self.position()))
            .field("content_bytes", &self.content.len())
            .finish()
    }
}

/// A place in a binlog, as an entry's header gives it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// The binlog file's name.
    pub journal: String,
    /// Bytes from the file's begin.
    pub offset: i64,
    /// The database server's id.
    pub server_id: i64,
    /// Milliseconds since 1970, in whole seconds.
    pub execute_time: i64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.journal, self.offset)
    }
}
