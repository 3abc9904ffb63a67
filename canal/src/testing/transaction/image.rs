//! Row images: the `RowData` of a `RowChange`, encoded value by value.

use std::fmt::Write;

use super::super::table::{Column, Table};
use super::super::value::Value;
use super::super::wire::{put_bytes, put_length, put_number, varint_length};

/// Field of `RowChange`.
const ROW_DATAS: u32 = 12;
/// Fields of `RowData`.
const BEFORE: u32 = 1;
const AFTER: u32 = 2;
/// Fields of `Column`.
const UPDATED: u32 = 5;
const IS_NULL: u32 = 6;
const VALUE: u32 = 8;

/// The encoded rows of the entry that is being filled.
#[derive(Debug, Clone, Default)]
pub(super) struct RowBuffer {
    rows: Vec<u8>,
    count: u64,
    binlog_size: usize,
    /// Reused for each row: its length comes first, and is known last.
    row: Vec<u8>,
    number: String,
}

impl RowBuffer {
    pub(super) fn row<'b>(&'b mut self, table: &'b Table) -> Images<'b> {
        self.row.clear();
        Images {
            buffer: self,
            table,
        }
    }

    pub(super) fn binlog_size(&self) -> usize {
        self.binlog_size
    }

    /// The rows since the last call with their number and size in the binlog, unless there are none.
    pub(super) fn take(&mut self) -> Option<(Vec<u8>, u64, usize)> {
        if self.count == 0 {
            return None;
        }
        Some((
            std::mem::take(&mut self.rows),
            std::mem::take(&mut self.count),
            std::mem::take(&mut self.binlog_size),
        ))
    }
}

/// The images of one row; an error is the number of values that did not fit.
pub(super) struct Images<'b> {
    buffer: &'b mut RowBuffer,
    table: &'b Table,
}

impl Images<'_> {
    pub(super) fn before<'v, R>(mut self, row: R) -> Result<(), usize>
    where
        R: IntoIterator,
        R::Item: Into<Value<'v>>,
    {
        self.image(BEFORE, row, |_, _| false)?;
        self.finish();
        Ok(())
    }

    pub(super) fn after<'v, R>(mut self, row: R) -> Result<(), usize>
    where
        R: IntoIterator,
        R::Item: Into<Value<'v>>,
    {
        self.image(AFTER, row, |_, _| true)?;
        self.finish();
        Ok(())
    }

    /// Canal marks as updated what differs, in the after image only.
    pub(super) fn both<'v, B, A>(mut self, before: B, after: A) -> Result<(), usize>
    where
        B: IntoIterator,
        B::Item: Into<Value<'v>>,
        A: IntoIterator,
        A::Item: Into<Value<'v>>,
    {
        let before: Vec<Value<'v>> = before.into_iter().map(Into::into).collect();
        self.image(BEFORE, before.iter().cloned(), |_, _| false)?;
        self.image(AFTER, after, |index, value| {
            before.get(index) != Some(value)
        })?;
        self.finish();
        Ok(())
    }

    fn image<'v, R>(
        &mut self,
        field: u32,
        row: R,
        updated: impl Fn(usize, &Value<'v>) -> bool,
    ) -> Result<(), usize>
    where
        R: IntoIterator,
        R::Item: Into<Value<'v>>,
    {
        let columns = self.table.columns();
        let mut row = row.into_iter();
        let mut taken = 0;
        for (index, column) in columns.iter().enumerate() {
            let Some(value) = row.next() else { break };
            let value = value.into();
            taken += 1;
            self.buffer
                .put_column(field, column, &value, updated(index, &value));
        }
        match row.count() {
            0 => Ok(()),
            more => Err(taken + more),
        }
    }

    fn finish(self) {
        put_bytes(&mut self.buffer.rows, ROW_DATAS, &self.buffer.row);
        self.buffer.count += 1;
    }
}

impl RowBuffer {
    fn put_column(&mut self, field: u32, column: &Column, value: &Value<'_>, updated: bool) {
        self.number.clear();
        let text = match value {
            Value::Absent => return,
            Value::Null => None,
            Value::Text(text) => Some(text.as_ref()),
            Value::Integer(number) => Some(decimal(&mut self.number, number)),
            Value::Unsigned(number) => Some(decimal(&mut self.number, number)),
        };
        let head = match text {
            Some(text) if column.kind.is_wide(text) => &column.wide_head,
            _ => &column.head,
        };
        let value_length = text.map_or(0, |text| {
            1 + varint_length(u64::try_from(text.len()).unwrap_or(u64::MAX)) + text.len()
        });
        let flags = if updated { 4 } else { 2 };
        let length = head.len() + flags + value_length + column.tail.len();
        put_length(&mut self.row, field, length);
        self.row.extend_from_slice(head);
        if updated {
            put_number(&mut self.row, UPDATED, 1);
        }
        put_number(&mut self.row, IS_NULL, u64::from(text.is_none()));
        if let Some(text) = text {
            put_bytes(&mut self.row, VALUE, text.as_bytes());
            self.binlog_size += column.kind.binlog_width(text);
        }
        self.row.extend_from_slice(&column.tail);
    }
}

fn decimal(buffer: &mut String, number: impl std::fmt::Display) -> &str {
    // writing to a String does not fail
    let _ = write!(buffer, "{number}");
    buffer
}
