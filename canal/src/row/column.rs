//! Columns as they came.

use std::borrow::Cow;
use std::fmt;

use super::content::{Cell, Image};

/// The columns of one image of a row.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    image: Image<'a>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(image: Image<'a>) -> Self {
        Self { image }
    }

    /// The column of this name.
    pub fn get(&self, name: &str) -> Option<Column<'a>> {
        self.iter()
            .find(|column| column.name_bytes() == name.as_bytes())
    }

    /// All columns, in the table's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Column<'a>> + use<'a> {
        let Image { bytes, cells } = self.image;
        cells.iter().map(move |cell| Column { bytes, cell })
    }

    /// Number of columns; fewer than the table has with a minimal row image.
    pub fn len(&self) -> usize {
        self.image.cells.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.image.cells.is_empty()
    }
}

impl fmt::Debug for Columns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One column's value with what the server says about it.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    bytes: &'a [u8],
    cell: &'a Cell,
}

impl<'a> Column<'a> {
    /// The name. Bytes that are not UTF-8, which no server sends, are shown as `�`.
    pub fn name(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.name_bytes())
    }

    /// The value as the server wrote it; `None` for NULL and for text that is not UTF-8. Bytes of
    /// a blob stand here as characters up to U+00FF.
    pub fn text(&self) -> Option<&'a str> {
        if self.is_null() {
            None
        } else {
            std::str::from_utf8(self.value_bytes()).ok()
        }
    }

    /// Whether the value is NULL.
    pub fn is_null(&self) -> bool {
        self.cell.is_null
    }

    /// Whether the column is part of the primary key.
    pub fn is_key(&self) -> bool {
        self.cell.is_key
    }

    /// Whether an insert or update set it; never on the image before.
    pub fn updated(&self) -> bool {
        self.cell.updated
    }

    /// MySQL's type, such as `int(11) unsigned`.
    pub fn mysql_type(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.mysql_type_bytes())
    }

    /// The number of `java.sql.Types`. It changes from row to row in unsigned columns.
    pub fn sql_type(&self) -> i32 {
        self.cell.sql_type
    }

    /// The place in the table, from 0.
    pub fn index(&self) -> i32 {
        self.cell.index
    }

    pub(super) fn name_bytes(&self) -> &'a [u8] {
        self.cell.name(self.bytes)
    }

    pub(super) fn value_bytes(&self) -> &'a [u8] {
        self.cell.value(self.bytes)
    }

    pub(super) fn mysql_type_bytes(&self) -> &'a [u8] {
        self.cell.mysql_type(self.bytes)
    }
}

impl fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} = {:?}",
            self.name(),
            self.mysql_type(),
            self.text()
        )
    }
}
