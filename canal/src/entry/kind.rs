//! Kinds of entries and of changes, open for numbers that later servers may bring.

use crate::protocol::generated::entry as wire;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryType {
    /// A transaction begins. MariaDB's entries never have it.
    TransactionBegin,
    /// Rows or a statement.
    RowData,
    /// A transaction ends.
    TransactionEnd,
    /// The database's heartbeat; servers keep it for themselves.
    Heartbeat,
    /// A GTID; servers keep it for themselves.
    GtidLog,
    /// A number this client does not know.
    Unknown(i32),
}

impl EntryType {
    pub(crate) fn from_wire(number: Option<i32>) -> Self {
        let Some(number) = number else {
            return Self::RowData;
        };
        match wire::EntryType::try_from(number) {
            Ok(wire::EntryType::TransactionBegin) => Self::TransactionBegin,
            Ok(wire::EntryType::RowData) => Self::RowData,
            Ok(wire::EntryType::TransactionEnd) => Self::TransactionEnd,
            Ok(wire::EntryType::Heartbeat) => Self::Heartbeat,
            Ok(wire::EntryType::GtidLog) => Self::GtidLog,
            Ok(wire::EntryType::EntryCompatibleProto2) | Err(_) => Self::Unknown(number),
        }
    }

    /// The number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Self::TransactionBegin => wire::EntryType::TransactionBegin.into(),
            Self::RowData => wire::EntryType::RowData.into(),
            Self::TransactionEnd => wire::EntryType::TransactionEnd.into(),
            Self::Heartbeat => wire::EntryType::Heartbeat.into(),
            Self::GtidLog => wire::EntryType::GtidLog.into(),
            Self::Unknown(number) => number,
        }
    }
}

/// What a rows event or statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// Rows that are new.
    Insert,
    /// Rows that changed.
    Update,
    /// Rows that are gone.
    Delete,
    /// CREATE TABLE.
    Create,
    /// ALTER TABLE.
    Alter,
    /// DROP TABLE.
    Erase,
    /// Another statement: CREATE DATABASE, or the text of a change in statement format.
    Query,
    /// TRUNCATE TABLE.
    Truncate,
    /// RENAME TABLE.
    Rename,
    /// CREATE INDEX.
    CreateIndex,
    /// DROP INDEX.
    DropIndex,
    /// A GTID.
    Gtid,
    /// XA COMMIT.
    XaCommit,
    /// XA ROLLBACK.
    XaRollback,
    /// The database's heartbeat.
    MasterHeartbeat,
    /// A number this client does not know.
    Unknown(i32),
}

impl EventType {
    pub(crate) fn from_wire(number: Option<i32>) -> Self {
        let Some(number) = number else {
            return Self::Update;
        };
        match wire::EventType::try_from(number) {
            Ok(wire::EventType::Insert) => Self::Insert,
            Ok(wire::EventType::Update) => Self::Update,
            Ok(wire::EventType::Delete) => Self::Delete,
            Ok(wire::EventType::Create) => Self::Create,
            Ok(wire::EventType::Alter) => Self::Alter,
            Ok(wire::EventType::Erase) => Self::Erase,
            Ok(wire::EventType::Query) => Self::Query,
            Ok(wire::EventType::Truncate) => Self::Truncate,
            Ok(wire::EventType::Rename) => Self::Rename,
            Ok(wire::EventType::CreateIndex) => Self::CreateIndex,
            Ok(wire::EventType::DropIndex) => Self::DropIndex,
            Ok(wire::EventType::Gtid) => Self::Gtid,
            Ok(wire::EventType::XaCommit) => Self::XaCommit,
            Ok(wire::EventType::XaRollback) => Self::XaRollback,
            Ok(wire::EventType::MasterHeartbeat) => Self::MasterHeartbeat,
            Ok(wire::EventType::EventCompatibleProto2) | Err(_) => Self::Unknown(number),
        }
    }

    /// Whether rows come with it: insert, update, delete.
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Delete)
    }

    /// Whether it changes a schema.
    pub fn is_schema_change(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Alter
                | Self::Erase
                | Self::Truncate
                | Self::Rename
                | Self::CreateIndex
                | Self::DropIndex
        )
    }
}
