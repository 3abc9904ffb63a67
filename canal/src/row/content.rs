//! The content of a row change, read in place: where each column's texts are in the bytes that came,
//! and nothing copied.
//!
//! It takes and refuses what prost's decoder of the same messages does, as a test says, but makes no
//! object of a row or a column. All but the value is the same in every row: what a column was like is
//! a [`Shape`], which cells share, and the bytes around a value are compared with those of a row
//! before instead of being read again ([`Templates`]).

#[cfg(any(test, feature = "_fuzzing"))]
mod beside_prost;
mod reader;
mod stretch;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

use super::mysql_type::Family;
use crate::protocol::generated::entry::EntryType;
#[cfg(any(test, feature = "_fuzzing"))]
pub(crate) use beside_prost::compare_with_prost;
use reader::{Malformed, Reader};
pub(super) use stretch::Stretch;
use template::Templates;

/// Bytes of the content, from one place to another.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// A column of one image of a row: its value, and which of the shapes it has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cell {
    value: Span,
    shape: u32,
}

/// What is said of a column besides its value.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    name: Span,
    /// The name, if it is UTF-8: seen once, and not with every row.
    text: Option<Box<str>>,
    mysql_type: Span,
    pub(super) index: i32,
    pub(super) sql_type: i32,
    pub(super) is_key: bool,
    pub(super) updated: bool,
    pub(super) is_null: bool,
    pub(super) family: Family,
}

/// Of a column of which nothing is said.
static NOTHING: Shape = Shape {
    name: Span { start: 0, end: 0 },
    text: None,
    mysql_type: Span { start: 0, end: 0 },
    index: 0,
    sql_type: 0,
    is_key: false,
    updated: false,
    is_null: false,
    family: Family::Text,
};

/// The columns of a row's two images, as ends in the lists of all.
#[derive(Debug, Clone, Copy, Default)]
struct RowEnds {
    before: u32,
    after: u32,
}

/// A row change. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Content {
    bytes: Bytes,
    parts: Arc<Parts>,
}

#[derive(Default)]
struct Parts {
    event_type: Option<i32>,
    is_ddl: bool,
    sql: Span,
    ddl_schema_name: Span,
    props: Vec<(Span, Span)>,
    rows: Vec<RowEnds>,
    shapes: Vec<Shape>,
    before: Vec<Cell>,
    after: Vec<Cell>,
}

/// The columns of an image, with what they point into.
#[derive(Clone, Copy)]
pub(super) struct Image<'a> {
    bytes: &'a [u8],
    shapes: &'a [Shape],
    cells: &'a [Cell],
}

/// One column of an image.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    bytes: &'a [u8],
    value: Span,
    pub(super) shape: &'a Shape,
}

impl Content {
    /// Reads it.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut parts = Parts::default();
        parts.read(Reader::new(&bytes)?)?;
        Ok(Self {
            bytes,
            parts: Arc::new(parts),
        })
    }

    pub(super) fn event_type(&self) -> Option<i32> {
        self.parts.event_type
    }

    pub(super) fn is_ddl(&self) -> bool {
        self.parts.is_ddl
    }

    pub(super) fn sql(&self) -> &str {
        self.text(self.parts.sql)
    }

    pub(super) fn ddl_schema_name(&self) -> &str {
        self.text(self.parts.ddl_schema_name)
    }

    pub(super) fn property(&self, key: &str) -> Option<&str> {
        let mut props = self.parts.props.iter();
        let found = props.find(|(name, _)| self.text(*name) == key);
        found.map(|(_, value)| self.text(*value))
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.parts.rows.len()
    }

    /// A row's image before and after; nothing for a row that is not there.
    #[inline]
    pub(super) fn row(&self, index: usize) -> (Image<'_>, Image<'_>) {
        let parts = &*self.parts;
        let ends = parts.rows.get(index).copied();
        let last = index.checked_sub(1);
        let starts = last.and_then(|last| parts.rows.get(last).copied());
        let starts = starts.unwrap_or_default();
        let ends = ends.unwrap_or(starts);
        let image = |cells, start, end| Image {
            bytes: &self.bytes,
            shapes: &parts.shapes,
            cells: part(cells, Span { start, end }),
        };
        (
            image(&parts.before, starts.before, ends.before),
            image(&parts.after, starts.after, ends.after),
        )
    }

    /// What was seen to be UTF-8.
    fn text(&self, span: Span) -> &str {
        std::str::from_utf8(part(&self.bytes, span)).unwrap_or_default()
    }
}

impl<'a> Image<'a> {
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    pub(super) fn columns(self) -> impl ExactSizeIterator<Item = View<'a>> {
        let Self {
            bytes,
            shapes,
            cells,
        } = self;
        cells.iter().map(move |cell| View {
            bytes,
            value: cell.value,
            shape: at(shapes, cell.shape).unwrap_or(&NOTHING),
        })
    }
}

impl<'a> View<'a> {
    pub(super) fn name(&self) -> &'a [u8] {
        part(self.bytes, self.shape.name)
    }

    /// The name; `None` if it is not UTF-8.
    pub(super) fn name_text(&self) -> Option<&'a str> {
        self.shape.text.as_deref()
    }

    #[inline]
    pub(super) fn value(&self) -> &'a [u8] {
        part(self.bytes, self.value)
    }

    pub(super) fn mysql_type(&self) -> &'a [u8] {
        part(self.bytes, self.shape.mysql_type)
    }
}

impl Parts {
    fn read(&mut self, mut reader: Reader<'_>) -> Result<(), Malformed> {
        let mut templates = [Templates::default(), Templates::default()];
        while let Some((tag, kind)) = reader.field()? {
            match tag {
                1 => drop(reader.number(kind)?),
                2 => self.event_type = Some(reader.int32(kind)?),
                10 => self.is_ddl = reader.boolean(kind)?,
                11 => self.sql = reader.text(kind)?,
                12 => {
                    let row = reader.message(kind)?;
                    let length = row.rest().len();
                    self.row(row, &mut templates)?;
                    if self.rows.len() == 1 {
                        self.make_room(length, reader.rest().len());
                    }
                }
                13 => self.props.push(reader.message(kind)?.pair()?),
                14 => self.ddl_schema_name = reader.text(kind)?,
                _ => reader.skip(tag, kind)?,
            }
        }
        Ok(())
    }

    fn row(
        &mut self,
        mut reader: Reader<'_>,
        [before, after]: &mut [Templates; 2],
    ) -> Result<(), Malformed> {
        before.begin_row();
        after.begin_row();
        while let Some((tag, kind)) = reader.field()? {
            match tag {
                1 => {
                    let cell = before.cell(reader.message(kind)?, &mut self.shapes)?;
                    self.before.push(cell);
                }
                2 => {
                    let cell = after.cell(reader.message(kind)?, &mut self.shapes)?;
                    self.after.push(cell);
                }
                3 => drop(reader.message(kind)?.pair()?),
                _ => reader.skip(tag, kind)?,
            }
        }
        self.rows.push(RowEnds {
            before: reader::place(self.before.len()),
            after: reader::place(self.after.len()),
        });
        Ok(())
    }

    /// After the first row: for as many as it, as fit into the rest. A column has at least two bytes.
    fn make_room(&mut self, length: usize, left: usize) {
        let rows = left / length.saturating_add(2);
        self.rows.reserve(rows);
        self.before.reserve(rows * self.before.len());
        self.after.reserve(rows * self.after.len());
    }
}

/// How many rows there are in an entry's bytes, by their fields alone; none if they are no entry.
pub(crate) fn rows_in(raw: &[u8]) -> usize {
    counted(raw).unwrap_or(0)
}

fn counted(raw: &[u8]) -> Result<usize, Malformed> {
    let mut reader = Reader::new(raw)?;
    let mut kind_of_entry = i32::from(EntryType::RowData);
    // Of a field that comes several times the last one counts, and only that has to be readable.
    let mut content = None;
    while let Some((tag, kind)) = reader.field()? {
        match tag {
            2 => kind_of_entry = reader.int32(kind)?,
            3 => content = Some(reader.message(kind)?),
            _ => reader.skip(tag, kind)?,
        }
    }
    let mut rows = 0;
    if let Some(mut change) = content.filter(|_| kind_of_entry == i32::from(EntryType::RowData)) {
        while let Some((tag, kind)) = change.field()? {
            rows += usize::from(tag == 12);
            change.skip(tag, kind)?;
        }
    }
    Ok(rows)
}

/// From one place to another; nothing where there is none.
#[inline]
fn part<T>(all: &[T], span: Span) -> &[T] {
    let range = usize::try_from(span.start).ok();
    let range = range.zip(usize::try_from(span.end).ok());
    let part = range.and_then(|(start, end)| all.get(start..end));
    part.unwrap_or_default()
}

fn at<T>(all: &[T], place: u32) -> Option<&T> {
    usize::try_from(place).ok().and_then(|place| all.get(place))
}
