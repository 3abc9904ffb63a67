//! What is written, in types of our own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A statement with its values, as it will be executed when its cut is complete.
///
/// Statements that would end the transaction (DDL, `COMMIT`, `LOCK TABLES`) must not be among them:
/// they would make a part of a cut visible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    pub(super) sql: String,
    pub(super) values: Vec<SqlValue>,
}

impl Statement {
    /// A statement with a `?` for each value. Never put values into the text: it would be an
    /// injection, and each text is prepared once and kept by the server.
    #[must_use]
    pub fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            values: Vec::new(),
        }
    }

    /// Adds the value of the next `?`.
    #[must_use]
    pub fn bind(mut self, value: impl Into<SqlValue>) -> Self {
        self.values.push(value.into());
        self
    }

    /// About how many bytes it takes when it is staged.
    pub(super) fn size(&self) -> usize {
        let values = self.values.iter().map(SqlValue::size).sum::<usize>();
        self.sql.len() + values
    }
}

/// A value of a statement. Decimals, dates and times are text: the server converts without loss.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SqlValue {
    /// `NULL`.
    Null,
    /// A signed integer.
    Integer(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Double(f64),
    /// Text, also for decimals, dates, times and JSON.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl SqlValue {
    fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + 8,
            Self::Bytes(bytes) => bytes.len() + 8,
            _ => 16,
        }
    }
}

impl fmt::Debug for SqlValue {
    /// Bytes by their length: rows do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident,)*) => {$(
        impl From<$type> for SqlValue {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    i64 => Integer,
    i32 => Integer,
    i16 => Integer,
    i8 => Integer,
    bool => Integer,
    u64 => Unsigned,
    u32 => Unsigned,
    u16 => Unsigned,
    u8 => Unsigned,
    f64 => Double,
    f32 => Double,
    &str => Text,
    String => Text,
    Vec<u8> => Bytes,
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
