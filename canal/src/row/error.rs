//! A row that does not fit.

use std::fmt;

use crate::entry::{Entry, Position};

/// Characters of a value that are kept.
const KEPT: usize = 200;

/// A row that does not fit the type it was to become: where it is and what does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError(Box<Detail>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Detail {
    destination: String,
    position: Position,
    schema: String,
    table: String,
    row: usize,
    column: Option<String>,
    mysql_type: String,
    text: Option<String>,
    reason: String,
}

impl RowError {
    /// The destination it came from.
    pub fn destination(&self) -> &str {
        &self.0.destination
    }

    /// Where the database wrote it.
    pub fn position(&self) -> &Position {
        &self.0.position
    }

    /// Schema of the table.
    pub fn schema_name(&self) -> &str {
        &self.0.schema
    }

    /// The table.
    pub fn table_name(&self) -> &str {
        &self.0.table
    }

    /// Which row of the change, from 0.
    pub fn row(&self) -> usize {
        self.0.row
    }

    /// The column; `None` if it is the row that does not fit, such as by a column too few.
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// The value's text, its first 200 characters; `None` for NULL.
    pub fn text(&self) -> Option<&str> {
        self.0.text.as_deref()
    }

    /// What was wanted and why the value is none.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(Box::new(Detail {
            reason: reason.into(),
            ..Detail::default()
        }))
    }

    /// Adds the column, unless an inner one is named already.
    pub(super) fn in_column(mut self, column: super::Column<'_>) -> Self {
        if self.0.column.is_none() {
            self.0.column = Some(column.name().into_owned());
            self.0.mysql_type = column.mysql_type().into_owned();
            self.0.text = column.text().map(|text| text.chars().take(KEPT).collect());
        }
        self
    }

    /// Adds the place.
    pub(super) fn in_row(mut self, entry: &Entry, row: usize) -> Self {
        self.0.destination = entry.destination().to_owned();
        self.0.position = entry.position();
        self.0.schema = entry.schema_name().to_owned();
        self.0.table = entry.table_name().to_owned();
        self.0.row = row;
        self
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Detail {
            destination,
            position,
            schema,
            table,
            row,
            ..
        } = &*self.0;
        write!(
            f,
            "row {row} of {schema}.{table} at {position} of destination `{destination}`: "
        )?;
        if let Some(column) = &self.0.column {
            write!(f, "column `{column}` ({}) ", self.0.mysql_type)?;
            match &self.0.text {
                Some(text) => write!(f, "with the text {text:?}: ")?,
                None => write!(f, "which is NULL: ")?,
            }
        }
        f.write_str(&self.0.reason)
    }
}

impl std::error::Error for RowError {}

impl serde::de::Error for RowError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
}
