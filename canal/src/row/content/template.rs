//! Cells that are read by comparing them with those of rows before.

use super::reader::{Malformed, Reader, place};
use super::{Cell, Shape, Span, at, part};
use crate::row::mysql_type::Family;

/// A table has at most so many columns; what else comes is read without comparing.
const COLUMNS: usize = 4096;

/// How a column's cells were encoded, for each place in a row. Two each: a value and NULL, or an
/// update's changed and unchanged columns, come in turns.
#[derive(Default)]
pub(super) struct Templates {
    columns: Vec<[Option<Template>; 2]>,
    next: usize,
}

/// One cell's encoding: what comes before its value, the value's key included, and what comes behind.
/// A cell with the same bytes around another value says the same of its column.
#[derive(Clone, Copy)]
struct Template {
    before: Span,
    behind: Span,
    has_value: bool,
    shape: u32,
}

impl Templates {
    pub(super) fn begin_row(&mut self) {
        self.next = 0;
    }

    /// The next cell of the row.
    #[inline]
    pub(super) fn cell(
        &mut self,
        reader: Reader<'_>,
        shapes: &mut Vec<Shape>,
    ) -> Result<Cell, Malformed> {
        let column = self.next;
        self.next += 1;
        for template in self.columns.get(column).into_iter().flatten().flatten() {
            if let Some(cell) = template.cell(reader) {
                return Ok(cell);
            }
        }
        let (cell, template) = read(reader, shapes)?;
        if let Some(template) = template {
            self.remember(column, template);
        }
        Ok(cell)
    }

    fn remember(&mut self, column: usize, template: Template) {
        if column >= COLUMNS {
            return;
        }
        if self.columns.len() <= column {
            self.columns.resize(column + 1, [None, None]);
        }
        if let Some(known) = self.columns.get_mut(column) {
            let free = known.iter().position(Option::is_none);
            known[free.unwrap_or(1)] = Some(template);
        }
    }
}

impl Template {
    /// The cell, if its encoding is this one's.
    #[inline]
    fn cell(&self, reader: Reader<'_>) -> Option<Cell> {
        let whole = reader.whole();
        let rest = reader.rest().strip_prefix(part(whole, self.before))?;
        if !self.has_value {
            let shape = self.shape;
            return rest.is_empty().then_some(Cell {
                value: Span::default(),
                shape,
            });
        }
        let mut rest = rest;
        let length = prost::encoding::decode_varint(&mut rest).ok()?;
        let behind = rest.get(usize::try_from(length).ok()?..)?;
        if behind != part(whole, self.behind) {
            return None;
        }
        let end = whole.len() - behind.len();
        Some(Cell {
            value: Span {
                start: place(whole.len() - rest.len()),
                end: place(end),
            },
            shape: self.shape,
        })
    }
}

/// Reads a cell field by field, and how others are to be recognised, if its encoding is a usual one.
fn read(
    mut reader: Reader<'_>,
    shapes: &mut Vec<Shape>,
) -> Result<(Cell, Option<Template>), Malformed> {
    let begin = reader.place();
    let mut shape = super::NOTHING.clone();
    let (mut value, mut values) = (Span::default(), 0_usize);
    let mut before = Span::default();
    while let Some((tag, kind)) = reader.field()? {
        match tag {
            1 => shape.index = reader.int32(kind)?,
            2 => shape.sql_type = reader.int32(kind)?,
            3 => shape.name = reader.bytes(kind)?,
            4 => shape.is_key = reader.boolean(kind)?,
            5 => shape.updated = reader.boolean(kind)?,
            6 => shape.is_null = reader.boolean(kind)?,
            7 => drop(reader.message(kind)?.pair()?),
            8 => {
                before = Span {
                    start: begin,
                    end: reader.place(),
                };
                value = reader.bytes(kind)?;
                values += 1;
            }
            9 => drop(reader.int32(kind)?),
            10 => shape.mysql_type = reader.bytes(kind)?,
            _ => reader.skip(tag, kind)?,
        }
    }
    let name = std::str::from_utf8(part(reader.whole(), shape.name));
    shape.text = name.ok().map(Box::from);
    let mysql_type = std::str::from_utf8(part(reader.whole(), shape.mysql_type));
    shape.family = Family::of(mysql_type.unwrap_or_default(), shape.sql_type);
    let number = place(shapes.len());
    shapes.push(shape);
    let end = reader.place();
    let template = match values {
        0 => Some(Template {
            before: Span { start: begin, end },
            behind: Span::default(),
            has_value: false,
            shape: number,
        }),
        1 => Some(Template {
            before,
            behind: Span {
                start: value.end,
                end,
            },
            has_value: true,
            shape: number,
        }),
        // The last one counts: no server writes it so.
        _ => None,
    };
    debug_assert!(at(shapes, number).is_some());
    let cell = Cell {
        value,
        shape: number,
    };
    Ok((cell, template))
}
