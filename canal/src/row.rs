//! Rows and statements: the contents of [`EntryType::RowData`](crate::EntryType::RowData).

mod column;
mod content;
mod deserializer;
mod error;
mod integer;
mod mysql_type;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;

use serde::Deserialize;

pub use column::{Column, Columns};
pub use error::RowError;

#[cfg(feature = "_fuzzing")]
pub(crate) use content::compare_with_prost;
pub(crate) use content::{Content, rows_in};

use crate::entry::{Entry, EventType};

/// The content of one rows event or statement.
///
/// ```no_run
/// # use lockkeeper_canal::{Message, RowError};
/// #[derive(serde::Deserialize)]
/// struct Order { id: u64, customer: String, amount: rust_decimal::Decimal }
///
/// # fn look(message: &Message) -> Result<(), Box<dyn std::error::Error>> {
/// for entry in message.entries() {
///     let Some(change) = entry?.row_change()? else { continue };
///     for row in change.rows::<Order>() {
///         let row = row?;
///         if let Some(order) = row.after {
///             println!("order {} of {} is now {}", order.id, order.customer, order.amount);
///         }
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RowChange {
    entry: Entry,
    content: Content,
}

/// What a [`RowChange`] brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// Rows that were inserted, updated or deleted.
    Rows,
    /// A statement that changes a schema: CREATE, ALTER, DROP, TRUNCATE, RENAME of tables,
    /// indexes and databases.
    SchemaChange,
    /// Any other statement. In a binlog of statement format this is the *text* of changes to rows;
    /// the rows themselves never come, so a table written in that format cannot be followed.
    Statement,
    /// Neither rows nor a statement, such as the end of an XA transaction.
    Other,
}

impl RowChange {
    pub(crate) fn new(entry: Entry, content: Content) -> Self {
        Self { entry, content }
    }

    /// The entry it was in: destination, position, schema and table.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The kind of change in the server's words. [`kind`](Self::kind) says what it means.
    pub fn event_type(&self) -> EventType {
        EventType::from_wire(self.content.event_type())
    }

    /// What it brings. Servers 1.1.5 and 1.1.6 do not mark every schema change as one, and mark
    /// CREATE DATABASE as a query: both the type and the mark are looked at.
    pub fn kind(&self) -> ChangeKind {
        let event_type = self.event_type();
        if self.content.is_ddl() || event_type.is_schema_change() {
            ChangeKind::SchemaChange
        } else if event_type.has_rows() && self.content.len() > 0 {
            ChangeKind::Rows
        } else if !self.content.sql().is_empty() {
            ChangeKind::Statement
        } else {
            ChangeKind::Other
        }
    }

    /// The statement's text; empty for rows.
    pub fn sql(&self) -> &str {
        self.content.sql()
    }

    /// The database that was current when a statement ran.
    pub fn ddl_schema_name(&self) -> &str {
        self.content.ddl_schema_name()
    }

    /// A property, such as those of XA transactions.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.content.property(key)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self.kind() {
            ChangeKind::Rows => self.content.len(),
            _ => 0,
        }
    }

    /// Whether there are no rows, as in every statement.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows as they came: every column as text.
    pub fn raw_rows(&self) -> impl ExactSizeIterator<Item = RawRow<'_>> {
        (0..self.len()).map(|index| RawRow::of(&self.content, index))
    }

    /// The rows, decoded by serde: a struct's fields are filled from the columns of the same name.
    /// Statements have none.
    ///
    /// | column | as |
    /// |---|---|
    /// | integers, `bit`, `year` | every integer type that can hold the value; unsigned columns by their MySQL type |
    /// | `tinyint(1)`, `bit(1)` | also `bool`, if 0 or 1 |
    /// | `float`, `double` | `f32`, `f64` |
    /// | `decimal` | text: `String`, or a decimal type that reads text |
    /// | dates and times | text as MySQL writes it, zero dates included |
    /// | `enum` | its index as integer, its name as `String` or as a Rust enum; a name with `?` is a [`RowError`], because servers lose characters of four bytes in names |
    /// | `set` | its bits as integer, its names with commas as `String` |
    /// | `blob`, `varbinary`, geometry | bytes: `Vec<u8>`; geometry is the number of its reference system (4 bytes, little endian) and well-known binary |
    /// | `binary(n)` | n bytes: the zeros at the end, which the binlog leaves out, are there |
    /// | MariaDB's `uuid`, `inet6`, `inet4` | bytes, or a [`RowError`] when the server has destroyed some of them; prefer `binary` |
    /// | `json`, characters | `String` |
    /// | `NULL` | `Option` only |
    ///
    /// A column that is missing, as with a minimal row image, leaves an `Option` empty.
    ///
    /// # Errors
    /// Each item is a [`RowError`] when that row does not fit `T`; the others can still be read.
    pub fn rows<'de, T: Deserialize<'de>>(
        &'de self,
    ) -> impl ExactSizeIterator<Item = Result<Row<'de, T>, RowError>> {
        (0..self.len()).map(move |index| {
            let raw = RawRow::of(&self.content, index);
            let image = |columns: Columns<'de>| {
                let image = (!columns.is_empty())
                    .then(|| T::deserialize(deserializer::RowDeserializer::new(columns)));
                image
                    .transpose()
                    .map_err(|error: RowError| error.in_row(&self.entry, index))
            };
            let (before, after) = self.content.row(index);
            Ok(Row {
                before: image(Columns::new(before))?,
                after: image(Columns::new(after))?,
                raw,
            })
        })
    }
}

impl fmt::Debug for RowChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowChange")
            .field("entry", &self.entry)
            .field("event_type", &self.event_type())
            .field("kind", &self.kind())
            .field("rows", &self.len())
            .finish()
    }
}

/// One row, decoded. An insert has only `after`, a delete only `before`, an update both.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Row<'a, T> {
    /// The row as it was.
    pub before: Option<T>,
    /// The row as it is.
    pub after: Option<T>,
    /// The same row as it came.
    pub raw: RawRow<'a>,
}

impl<'a, T> Row<'a, T> {
    /// The columns that an insert or update has set. The server marks them only on the row as it
    /// is, so a delete has none.
    pub fn changed(&self) -> impl Iterator<Item = Column<'a>> + use<'a, T> {
        self.raw.after().iter().filter(Column::updated)
    }
}

/// One row as it came.
#[derive(Clone, Copy)]
pub struct RawRow<'a> {
    content: &'a Content,
    index: usize,
}

impl<'a> RawRow<'a> {
    fn of(content: &'a Content, index: usize) -> Self {
        Self { content, index }
    }

    /// The columns as they were; empty for an insert.
    pub fn before(&self) -> Columns<'a> {
        Columns::new(self.content.row(self.index).0)
    }

    /// The columns as they are; empty for a delete.
    pub fn after(&self) -> Columns<'a> {
        Columns::new(self.content.row(self.index).1)
    }
}

impl fmt::Debug for RawRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRow")
            .field("before", &self.before())
            .field("after", &self.after())
            .finish()
    }
}
