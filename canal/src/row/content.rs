//! The content of a row change, read in place: where each column's texts are in the bytes that came,
//! and nothing copied.
//!
//! It takes and refuses what prost's decoder of the same messages does, as a test says, but makes
//! no object of a row or a column: two lists for the whole change, of 36 bytes a column, whatever
//! bytes come.

mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

use reader::{Malformed, Reader};

use crate::protocol::generated::entry::EntryType;

/// Bytes of the content, from one place to another.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// One column of one image.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cell {
    name: Span,
    value: Span,
    mysql_type: Span,
    pub(super) index: i32,
    pub(super) sql_type: i32,
    pub(super) is_key: bool,
    pub(super) updated: bool,
    pub(super) is_null: bool,
}

/// The columns of a row's two images, as ends in the lists of all.
#[derive(Debug, Clone, Copy)]
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
    before: Vec<Cell>,
    after: Vec<Cell>,
}

/// The columns of an image, with the bytes that they point into.
#[derive(Clone, Copy)]
pub(super) struct Image<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) cells: &'a [Cell],
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
    pub(super) fn row(&self, index: usize) -> (Image<'_>, Image<'_>) {
        let Parts {
            rows,
            before,
            after,
            ..
        } = &*self.parts;
        let ends = rows.get(index).copied();
        let starts = index
            .checked_sub(1)
            .and_then(|last| rows.get(last).copied());
        let zero = RowEnds {
            before: 0,
            after: 0,
        };
        let starts = starts.unwrap_or(zero);
        let ends = ends.unwrap_or(starts);
        let image = |cells, start, end| Image {
            bytes: &self.bytes,
            cells: part(cells, start, end),
        };
        (
            image(before, starts.before, ends.before),
            image(after, starts.after, ends.after),
        )
    }

    /// What was seen to be UTF-8.
    fn text(&self, span: Span) -> &str {
        std::str::from_utf8(part(&self.bytes, span.start, span.end)).unwrap_or_default()
    }
}

impl Cell {
    pub(super) fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        part(bytes, self.name.start, self.name.end)
    }

    pub(super) fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        part(bytes, self.value.start, self.value.end)
    }

    pub(super) fn mysql_type<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        part(bytes, self.mysql_type.start, self.mysql_type.end)
    }
}

impl Parts {
    fn read(&mut self, mut reader: Reader<'_>) -> Result<(), Malformed> {
        while let Some((tag, kind)) = reader.field()? {
            match tag {
                1 => drop(reader.number(kind)?),
                2 => self.event_type = Some(reader.int32(kind)?),
                10 => self.is_ddl = reader.boolean(kind)?,
                11 => self.sql = reader.text(kind)?,
                12 => {
                    let row = reader.message(kind)?;
                    self.row(row)?;
                }
                13 => self.props.push(reader.message(kind)?.pair()?),
                14 => self.ddl_schema_name = reader.text(kind)?,
                _ => reader.skip(tag, kind)?,
            }
        }
        Ok(())
    }

    fn row(&mut self, mut reader: Reader<'_>) -> Result<(), Malformed> {
        while let Some((tag, kind)) = reader.field()? {
            match tag {
                1 => self.before.push(cell(reader.message(kind)?)?),
                2 => self.after.push(cell(reader.message(kind)?)?),
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
}

fn cell(mut reader: Reader<'_>) -> Result<Cell, Malformed> {
    let mut cell = Cell::default();
    while let Some((tag, kind)) = reader.field()? {
        match tag {
            1 => cell.index = reader.int32(kind)?,
            2 => cell.sql_type = reader.int32(kind)?,
            3 => cell.name = reader.bytes(kind)?,
            4 => cell.is_key = reader.boolean(kind)?,
            5 => cell.updated = reader.boolean(kind)?,
            6 => cell.is_null = reader.boolean(kind)?,
            7 => drop(reader.message(kind)?.pair()?),
            8 => cell.value = reader.bytes(kind)?,
            9 => drop(reader.int32(kind)?),
            10 => cell.mysql_type = reader.bytes(kind)?,
            _ => reader.skip(tag, kind)?,
        }
    }
    Ok(cell)
}

/// How many rows there are in an entry's bytes, by their fields alone; none if they are no entry.
pub(crate) fn rows_in(raw: &[u8]) -> usize {
    counted(raw).unwrap_or(0)
}

fn counted(raw: &[u8]) -> Result<usize, Malformed> {
    let (mut reader, mut rows) = (Reader::new(raw)?, 0);
    let mut kind_of_entry = i32::from(EntryType::RowData);
    while let Some((tag, kind)) = reader.field()? {
        match tag {
            2 => kind_of_entry = reader.int32(kind)?,
            3 => {
                let mut change = reader.message(kind)?;
                rows = 0;
                while let Some((tag, kind)) = change.field()? {
                    rows += usize::from(tag == 12);
                    change.skip(tag, kind)?;
                }
            }
            _ => reader.skip(tag, kind)?,
        }
    }
    Ok(match kind_of_entry == i32::from(EntryType::RowData) {
        true => rows,
        false => 0,
    })
}

/// From one place to another; nothing where there is none.
fn part<T>(all: &[T], start: u32, end: u32) -> &[T] {
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let part = range.and_then(|(start, end)| all.get(start..end));
    part.unwrap_or_default()
}
