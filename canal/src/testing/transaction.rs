//! Scripted transactions: a builder whose rows are encoded as they are added.

mod image;
#[cfg(test)]
mod tests;

use self::image::{Images, RowBuffer};
use super::table::Table;
use super::value::Value;
use bytes::Bytes;

/// Bytes of row images after which MariaDB starts another rows event
/// (`binlog_row_event_max_size`), and Canal another entry.
const ROWS_EVENT_SIZE: usize = 8_192;

/// Canal's numbers of the event types that a script makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    Insert = 1,
    Update = 2,
    Delete = 3,
    Create = 4,
    Alter = 5,
    Erase = 6,
    Query = 7,
    Truncate = 8,
    Rename = 9,
    CreateIndex = 10,
    DropIndex = 11,
}

impl EventType {
    pub(crate) fn number(self) -> u64 {
        self as u64
    }

    /// The type of a DDL statement by its first words, as Canal classifies it.
    fn of_ddl(sql: &str) -> Self {
        let mut words = sql.split_ascii_whitespace().map(str::to_ascii_uppercase);
        let first = words.next().unwrap_or_default();
        let second = words
            .find(|word| !matches!(word.as_str(), "UNIQUE" | "TEMPORARY" | "OR" | "REPLACE"))
            .unwrap_or_default();
        match (first.as_str(), second.as_str()) {
            ("CREATE", "TABLE") => Self::Create,
            ("CREATE", "INDEX") => Self::CreateIndex,
            ("DROP", "TABLE") => Self::Erase,
            ("DROP", "INDEX") => Self::DropIndex,
            ("ALTER", "TABLE") => Self::Alter,
            ("TRUNCATE", _) => Self::Truncate,
            ("RENAME", "TABLE") => Self::Rename,
            _ => Self::Query,
        }
    }
}

/// One entry's worth of a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// Rows of one statement, encoded as the `rowDatas` of a `RowChange`.
    Rows {
        table: Table,
        event_type: EventType,
        rows: Vec<u8>,
        count: u64,
        binlog_size: usize,
    },
    /// A statement's text, with no rows.
    Statement {
        schema: String,
        table: String,
        event_type: EventType,
        sql: String,
        is_ddl: bool,
    },
    /// A whole entry, as it is.
    Raw(Bytes),
}

impl Event {
    fn size(&self) -> usize {
        let body = match self {
            Self::Rows { rows, .. } => rows.len(),
            Self::Statement { sql, .. } => sql.len(),
            Self::Raw(entry) => entry.len(),
        };
        size_of::<Self>() + body
    }
}

/// One transaction of the scripted database.
///
/// Its entries come as the real server makes them of a MariaDB: one ROWDATA for each statement, or
/// several for a statement whose rows exceed about 8 KiB in the binlog, then a TRANSACTIONEND with the
/// transaction's id; a TRANSACTIONBEGIN only [on demand](Transaction::with_begin), as MariaDB has none.
///
/// ```
/// use lockkeeper_canal::testing::{Table, Transaction, Value};
///
/// let orders = Table::new("shop", "orders")
///     .key("id", "bigint(20)")
///     .column("customer", "varchar(32)");
/// let transaction = Transaction::new(57)
///     .insert(&orders, ["1", "anna"])
///     .update(&orders, ["1", "anna"], ["1", "berta"])
///     .delete(&orders, [Value::from(1), Value::Null]);
/// assert_eq!(transaction.rows(), 3);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    pub(crate) events: Vec<Event>,
    /// `None`: no TRANSACTIONEND.
    pub(crate) xid: Option<u64>,
    pub(crate) begin_thread: Option<i64>,
    pub(crate) execute_time: Option<u64>,
    pub(crate) server_id: Option<u64>,
    pub(crate) position: Option<(String, u64)>,
    pub(crate) error: Option<InvalidTransaction>,
    rows: u64,
    buffer: RowBuffer,
}

/// A row of a script that does not fit its table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a row of {table} has {values} values, but the table has {columns} columns: name each column in the script's Table"
)]
#[non_exhaustive]
pub struct InvalidTransaction {
    /// `schema.table`.
    pub table: String,
    /// Columns of the table.
    pub columns: usize,
    /// Values of the row.
    pub values: usize,
}

/// Why a transaction could not be committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A row does not fit its table.
    #[error(transparent)]
    Invalid(#[from] InvalidTransaction),
    /// Clients do not get and acknowledge what was committed before.
    #[error(
        "{queued} bytes of committed transactions wait for room in the store, the limit is {limit}: \
         let clients acknowledge, or script a RowSource, which is asked only when there is room"
    )]
    QueueFull {
        /// Bytes that wait.
        queued: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl Transaction {
    /// A transaction that ends with `xid`; 0 is what MyISAM tables give.
    #[must_use]
    pub fn new(xid: u64) -> Self {
        Self {
            xid: Some(xid),
            ..Self::default()
        }
    }

    /// A DDL statement: one entry and no TRANSACTIONEND.
    ///
    /// The event type follows from the first words (CREATE TABLE, ALTER TABLE, DROP TABLE, TRUNCATE,
    /// RENAME TABLE, CREATE INDEX, DROP INDEX); anything else is QUERY.
    #[must_use]
    pub fn ddl(schema: &str, table: &str, sql: &str) -> Self {
        let statement = Event::Statement {
            schema: schema.to_owned(),
            table: table.to_owned(),
            event_type: EventType::of_ddl(sql),
            sql: sql.to_owned(),
            is_ddl: true,
        };
        Self {
            events: vec![statement],
            ..Self::default()
        }
    }

    /// Adds an INSERT of one row. Fewer values than columns leave the rest out.
    #[must_use]
    pub fn insert<'v, R>(self, table: &Table, row: R) -> Self
    where
        R: IntoIterator,
        R::Item: Into<Value<'v>>,
    {
        self.insert_rows(table, [row])
    }

    /// Adds one INSERT statement of several rows.
    #[must_use]
    pub fn insert_rows<'v, R>(mut self, table: &Table, rows: impl IntoIterator<Item = R>) -> Self
    where
        R: IntoIterator,
        R::Item: Into<Value<'v>>,
    {
        for row in rows {
            self.add(table, EventType::Insert, |images| images.after(row));
        }
        self.cut(table, EventType::Insert);
        self
    }

    /// Adds an UPDATE of one row.
    #[must_use]
    pub fn update<'v, B, A>(self, table: &Table, before: B, after: A) -> Self
    where
        B: IntoIterator,
        B::Item: Into<Value<'v>>,
        A: IntoIterator,
        A::Item: Into<Value<'v>>,
    {
        self.update_rows(table, [(before, after)])
    }

    /// Adds one UPDATE statement of several rows, each as (before, after).
    #[must_use]
    pub fn update_rows<'v, B, A>(
        mut self,
        table: &Table,
        rows: impl IntoIterator<Item = (B, A)>,
    ) -> Self
    where
        B: IntoIterator,
        B::Item: Into<Value<'v>>,
        A: IntoIterator,
        A::Item: Into<Value<'v>>,
    {
        for (before, after) in rows {
            self.add(table, EventType::Update, |images| {
                images.both(before, after)
            });
        }
        self.cut(table, EventType::Update);
        self
    }

    /// Adds a DELETE of one row.
    #[must_use]
    pub fn delete<'v, R>(self, table: &Table, row: R) -> Self
    where
        R: IntoIterator,
        R::Item: Into<Value<'v>>,
    {
        self.delete_rows(table, [row])
    }

    /// Adds one DELETE statement of several rows.
    #[must_use]
    pub fn delete_rows<'v, R>(mut self, table: &Table, rows: impl IntoIterator<Item = R>) -> Self
    where
        R: IntoIterator,
        R::Item: Into<Value<'v>>,
    {
        for row in rows {
            self.add(table, EventType::Delete, |images| images.before(row));
        }
        self.cut(table, EventType::Delete);
        self
    }

    /// Adds a statement's text as an entry of type QUERY without rows, as
    /// `binlog_annotate_row_events` and statement-based binlogs give.
    #[must_use]
    pub fn query(mut self, schema: &str, sql: &str) -> Self {
        self.events.push(Event::Statement {
            schema: schema.to_owned(),
            table: String::new(),
            event_type: EventType::Query,
            sql: sql.to_owned(),
            is_ddl: false,
        });
        self
    }

    /// Adds a serialized `Entry` as it is: another kind of entry, or garbage.
    #[must_use]
    pub fn raw_entry(mut self, entry: impl Into<Bytes>) -> Self {
        self.events.push(Event::Raw(entry.into()));
        self
    }

    /// Starts with a TRANSACTIONBEGIN that names `thread_id`, as MySQL does.
    #[must_use]
    pub fn with_begin(mut self, thread_id: i64) -> Self {
        self.begin_thread = Some(thread_id);
        self
    }

    /// Commit time in milliseconds since 1970, cut to whole seconds like MySQL's. Default: the time at
    /// which the server takes the transaction from the script.
    #[must_use]
    pub fn at(mut self, milliseconds: u64) -> Self {
        self.execute_time = Some(milliseconds);
        self
    }

    /// The database's server id from this transaction on. Default 1.
    #[must_use]
    pub fn from_server(mut self, server_id: u64) -> Self {
        self.server_id = Some(server_id);
        self
    }

    /// Moves the position before this transaction, as a rotation of the binlog does. By default
    /// positions go on where the transaction before ended.
    #[must_use]
    pub fn at_position(mut self, journal: impl Into<String>, offset: u64) -> Self {
        self.position = Some((journal.into(), offset));
        self
    }

    /// Rows in it, counting an update once.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes that it takes in memory, roughly.
    pub(crate) fn size(&self) -> usize {
        self.events.iter().map(Event::size).sum()
    }

    fn add(
        &mut self,
        table: &Table,
        event_type: EventType,
        encode: impl FnOnce(Images<'_>) -> Result<(), usize>,
    ) {
        if let Err(values) = encode(self.buffer.row(table)) {
            self.error.get_or_insert(InvalidTransaction {
                table: format!("{}.{}", table.schema(), table.name()),
                columns: table.width(),
                values,
            });
            return;
        }
        self.rows += 1;
        if self.buffer.binlog_size() >= ROWS_EVENT_SIZE {
            self.cut(table, event_type);
        }
    }

    /// Makes an entry of the rows that were added since the last cut.
    fn cut(&mut self, table: &Table, event_type: EventType) {
        if let Some((rows, count, binlog_size)) = self.buffer.take() {
            self.events.push(Event::Rows {
                table: table.clone(),
                event_type,
                rows,
                count,
                binlog_size,
            });
        }
    }
}
