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
        let before = part(whole, self.before);
        let (begin, mut rest) = reader.rest().split_at_checked(before.len())?;
        if !same(begin, before) {
            return None;
        }
        if !self.has_value {
            let shape = self.shape;
            return rest.is_empty().then_some(Cell {
                value: Span::default(),
                shape,
            });
        }
        let length = match rest.split_first() {
            // Most are below 128.
            Some((&length @ 0..0x80, behind)) => {
                rest = behind;
                u64::from(length)
            }
            _ => prost::encoding::decode_varint(&mut rest).ok()?,
        };
        let behind = rest.get(usize::try_from(length).ok()?..)?;
        if !same(behind, part(whole, self.behind)) {
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

/// Whether these are the same bytes. What is around a value has some twenty of them: to call the system's
/// comparison takes longer than to compare their first and last, which overlap.
#[inline]
fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        0..8 => one == other,
        8..=16 => ends::<8>(one) == ends::<8>(other),
        17..=32 => ends::<16>(one) == ends::<16>(other),
        _ => one == other,
    }
}

/// The first and the last bytes.
#[inline]
fn ends<const N: usize>(bytes: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (bytes.first_chunk(), bytes.last_chunk())
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

#[cfg(test)]
mod tests {
    use super::same;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_same_bytes_and_no_others_are_the_same(
            one in proptest::collection::vec(any::<u8>(), 0..50),
            change in any::<(prop::sample::Index, u8)>(),
        ) {
            prop_assert!(same(&one, &one.clone()));
            let mut other = one.clone();
            let (at, bits) = change;
            if !other.is_empty() {
                let at = at.index(other.len());
                other[at] ^= bits;
            }
            prop_assert_eq!(same(&one, &other), one == other);
            other.push(0);
            prop_assert!(!same(&one, &other));
        }
    }
}
