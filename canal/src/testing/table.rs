//! A scripted table: its columns, and what of their encoding is the same in every row.

use std::sync::Arc;

use super::wire::{put_bytes, put_number, put_signed};

/// A table whose rows a script inserts, updates and deletes.
///
/// Columns have MySQL's own type text, such as `bigint(20) unsigned`, `varchar(32)` or
/// `decimal(20,2)`; Canal's `sqlType` follows from it. Cheap to clone.
///
/// ```
/// use lockkeeper_canal::testing::Table;
///
/// let orders = Table::new("shop", "orders")
///     .key("id", "bigint(20)")
///     .column("customer", "varchar(32)")
///     .column("amount", "decimal(20,2)");
/// assert_eq!(orders.width(), 3);
/// ```
#[derive(Debug, Clone)]
pub struct Table {
    inner: Arc<Inner>,
}

#[derive(Debug, Clone)]
struct Inner {
    schema: String,
    name: String,
    columns: Vec<Column>,
}

/// One column, with the encoded fields that no row changes.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) kind: ColumnKind,
    /// Fields 1 to 4: index, sqlType, name, isKey.
    pub(crate) head: Vec<u8>,
    /// The same with the wider sqlType that Canal reports for an unsigned value beyond the signed
    /// range.
    pub(crate) wide_head: Vec<u8>,
    /// Field 10: mysqlType.
    pub(crate) tail: Vec<u8>,
}

impl Table {
    /// The table `schema.name`, without columns yet.
    pub fn new(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            inner: Arc::new(Inner {
                schema: schema.into(),
                name: name.into(),
                columns: Vec::new(),
            }),
        }
    }

    /// Adds a column of the primary key.
    #[must_use]
    pub fn key(self, name: &str, mysql_type: &str) -> Self {
        self.with(name, mysql_type, true)
    }

    /// Adds a column that is not in the primary key.
    #[must_use]
    pub fn column(self, name: &str, mysql_type: &str) -> Self {
        self.with(name, mysql_type, false)
    }

    fn with(mut self, name: &str, mysql_type: &str, key: bool) -> Self {
        let inner = Arc::make_mut(&mut self.inner);
        let column = Column::new(inner.columns.len(), name, mysql_type, key);
        inner.columns.push(column);
        self
    }

    /// The schema's name.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.inner.schema
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How many columns the table has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.inner.columns.len()
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.inner.columns
    }
}

impl Column {
    fn new(index: usize, name: &str, mysql_type: &str, key: bool) -> Self {
        let kind = ColumnKind::of(mysql_type);
        let head = |sql_type: i64| {
            let mut head = Vec::new();
            if index > 0 {
                put_number(&mut head, 1, u64::try_from(index).unwrap_or(u64::MAX));
            }
            put_signed(&mut head, 2, sql_type);
            put_bytes(&mut head, 3, name.as_bytes());
            if key {
                put_number(&mut head, 4, 1);
            }
            head
        };
        let mut tail = Vec::new();
        put_bytes(&mut tail, 10, mysql_type.as_bytes());
        Self {
            kind,
            head: head(kind.sql_type),
            wide_head: head(kind.wide_sql_type),
            tail,
        }
    }
}

/// What follows from a column's MySQL type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnKind {
    /// A number of `java.sql.Types`.
    sql_type: i64,
    /// What it becomes for an unsigned value above `signed_max`.
    wide_sql_type: i64,
    signed_max: Option<u64>,
    /// Bytes of a value in the binlog; `None` when they are the text's.
    binlog_width: Option<usize>,
}

impl ColumnKind {
    /// The table is Canal's `LogEventConvert`, as its clients see it.
    fn of(mysql_type: &str) -> Self {
        let lower = mysql_type.to_ascii_lowercase();
        let base = lower.split(['(', ' ']).next().unwrap_or_default();
        let plain = |sql_type, binlog_width| Self {
            sql_type,
            wide_sql_type: sql_type,
            signed_max: None,
            binlog_width,
        };
        let unsigned = lower.contains("unsigned");
        let integer = |sql_type, wider, bytes: u32| Self {
            sql_type,
            wide_sql_type: wider,
            signed_max: unsigned.then(|| (1_u64 << (8 * bytes - 1)) - 1),
            binlog_width: usize::try_from(bytes).ok(),
        };
        match base {
            "tinyint" => integer(-6, 5, 1),
            "smallint" => integer(5, 4, 2),
            "mediumint" => integer(4, 4, 3),
            "int" | "integer" => integer(4, -5, 4),
            "bigint" => integer(-5, 3, 8),
            "float" => plain(7, Some(4)),
            "double" => plain(8, Some(8)),
            "decimal" | "numeric" => plain(3, None),
            "bit" | "set" => plain(-7, Some(2)),
            "enum" => plain(4, Some(1)),
            "year" => plain(12, Some(1)),
            "date" => plain(91, Some(3)),
            "time" => plain(92, Some(3)),
            "datetime" | "timestamp" => plain(93, Some(5)),
            "char" | "uuid" | "inet6" => plain(1, None),
            "tinytext" | "text" | "mediumtext" | "longtext" => plain(2005, None),
            "tinyblob" | "blob" | "mediumblob" | "longblob" | "binary" | "varbinary"
            | "geometry" | "point" | "linestring" | "polygon" => plain(2004, None),
            _ => plain(12, None),
        }
    }

    /// Whether Canal reports the wider `sqlType` for this value.
    pub(crate) fn is_wide(self, text: &str) -> bool {
        self.signed_max
            .is_some_and(|max| text.parse::<u64>().is_ok_and(|value| value > max))
    }

    /// Roughly how many bytes the value takes in the binlog.
    pub(crate) fn binlog_width(self, text: &str) -> usize {
        self.binlog_width.unwrap_or(text.len() + 1)
    }
}
