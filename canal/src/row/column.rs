//! Columns as they came.

use std::borrow::Cow;
use std::fmt;

use super::content::{Image, Stretch, View};
use super::mysql_type::Family;

/// The columns of one image of a row.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    image: Image<'a>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(image: Image<'a>) -> Self {
        Self { image }
    }

    /// Whether all its values are UTF-8, looked at once.
    pub(super) fn stretch(&self) -> Stretch<'a> {
        self.image.stretch()
    }

    /// The column of this name.
    pub fn get(&self, name: &str) -> Option<Column<'a>> {
        self.iter()
            .find(|column| column.name_bytes() == name.as_bytes())
    }

    /// All columns, in the table's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Column<'a>> + use<'a> {
        self.image.columns().map(|view| Column { view })
    }

    /// Number of columns; fewer than the table has with a minimal row image.
    pub fn len(&self) -> usize {
        self.image.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.image.len() == 0
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
    view: View<'a>,
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
        self.view.shape.is_null
    }

    /// Whether the column is part of the primary key.
    pub fn is_key(&self) -> bool {
        self.view.shape.is_key
    }

    /// Whether an insert or update set it; never on the image before.
    pub fn updated(&self) -> bool {
        self.view.shape.updated
    }

    /// MySQL's type, such as `int(11) unsigned`.
    pub fn mysql_type(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.mysql_type_bytes())
    }

    /// The number of `java.sql.Types`. It changes from row to row in unsigned columns.
    pub fn sql_type(&self) -> i32 {
        self.view.shape.sql_type
    }

    /// The place in the table, from 0.
    pub fn index(&self) -> i32 {
        self.view.shape.index
    }

    /// The name; `None` if it is not UTF-8.
    pub(super) fn name_text(&self) -> Option<&'a str> {
        self.view.name_text()
    }

    pub(super) fn name_bytes(&self) -> &'a [u8] {
        self.view.name()
    }

    /// The value, if it is UTF-8; `stretch` is its row's.
    #[inline]
    pub(super) fn value_text(&self, stretch: Stretch<'a>) -> Option<&'a str> {
        self.view.text(stretch)
    }

    #[inline]
    pub(super) fn value_bytes(&self) -> &'a [u8] {
        self.view.value()
    }

    /// How its text is read.
    pub(super) fn family(&self) -> Family {
        self.view.shape.family
    }

    pub(super) fn mysql_type_bytes(&self) -> &'a [u8] {
        self.view.mysql_type()
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
