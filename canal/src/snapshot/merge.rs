//! Merges rows that were read in chunks into the stream of changes. A machine: no I/O, no clock.
//!
//! Around the read of each chunk two watermarks are written into a table of the same database, the
//! low one before and the high one after, and both come back in the stream. What the read has seen
//! lies somewhere between them. So, for a key of the chunk,
//!
//! - a change before the low watermark is in what was read: it is dropped;
//! - a change between the two may be in it or not: the row that the change leaves replaces what was
//!   read, for a row is a row however often it is written;
//! - at the high watermark the chunk's rows are handed out, each as it is *there*;
//! - a change behind it is handed out.
//!
//! Keys of chunks that were handed out before are *known*: their changes are handed out. Keys of
//! chunks still to be read are not: theirs are dropped. So each row is handed out once as it is at
//! one place of the stream, and every change after that place, without comparing positions, which
//! repeat and go back after a quick rotation of the binlog. (The idea of watermarks is Netflix'
//! DBLog's; there the chunk's rows yield to changes, and a row can come twice.)

#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;

use bytes::Bytes;

use super::entries::{self, ReadAt};
use super::error::SnapshotError;
use super::key::{Key, KeyColumn};
use super::rest;
use super::state::{Bound, SnapshotState, TableState};
use crate::entry::{Entry, EntryType, EventType};
use crate::parsed::Parsed;
use crate::protocol::generated::entry as wire;
pub(super) use window::{Chunk, Settled, Window};

/// Chunks and changes. Cheap to clone: a batch is merged into a copy, which replaces the machine
/// when the batch was handled.
#[derive(Debug, Clone)]
pub(super) struct Merge {
    state: Arc<SnapshotState>,
    watermarks: Watermarks,
    window: Option<Window>,
}

/// The table with the watermarks, and which of its rows is this snapshot's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watermarks {
    pub(super) schema: String,
    pub(super) table: String,
    pub(super) name: String,
}

/// What becomes of a batch.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Its entries, those that were dropped left out and chunks put in.
    pub(super) entries: Vec<Bytes>,
    /// What became of the chunk whose high watermark was in it.
    pub(super) settled: Vec<Settled>,
}

/// What the handler knows of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Its row was handed out, or could have been.
    Known,
    /// Perhaps: it is in the chunk that was in work at a crash.
    Attempted,
    /// Its row is still to be read.
    Unknown,
}

impl Merge {
    pub(super) fn new(state: SnapshotState, watermarks: Watermarks) -> Self {
        Self {
            state: Arc::new(state),
            watermarks,
            window: None,
        }
    }

    pub(super) fn state(&self) -> &SnapshotState {
        &self.state
    }

    /// The next table of which rows are to be read, with the last key that is known of it.
    pub(super) fn next(&self) -> Option<(usize, &TableState)> {
        let mut tables = self.state.tables.iter().enumerate();
        tables.find(|(_, table)| !table.done)
    }

    /// Begins a chunk: the low watermark is written after this.
    pub(super) fn begin(&mut self, chunk: Chunk) -> Result<(), SnapshotError> {
        let table = &mut Arc::make_mut(&mut self.state).tables[chunk.table];
        table.has_key(&chunk.key)?;
        self.window = Some(Window::new(chunk));
        Ok(())
    }

    /// The chunk's rows are read: the high watermark is written after this. `last`: they are the
    /// table's last.
    pub(super) fn loaded(&mut self, at: ReadAt, rows: Vec<Vec<wire::Column>>, last: bool) {
        if let Some(window) = &mut self.window {
            window.load(at, rows, last);
        }
    }

    /// Gives the chunk up.
    pub(super) fn abandon(&mut self) {
        self.window = None;
    }

    /// From now on changes of these keys are handed out, for the handler may have their rows.
    pub(super) fn attempt(&mut self, chunks: &[Settled]) {
        for settled in chunks {
            if let Settled::Done { table, bound, .. } = settled {
                let table = &mut Arc::make_mut(&mut self.state).tables[*table];
                let wider = match (&table.attempted, bound) {
                    (Some(Bound::End), _) => false,
                    (Some(Bound::Row(now)), Bound::Row(key)) => now < key,
                    _ => true,
                };
                if wider {
                    table.attempted = Some(bound.clone());
                }
            }
        }
    }

    /// Merges the entries of a batch.
    pub(super) fn merge(
        &mut self,
        batch: impl IntoIterator<Item = Entry>,
    ) -> Result<Merged, SnapshotError> {
        let mut merged = Merged::default();
        for entry in batch {
            self.take(&entry, &mut merged)?;
        }
        Ok(merged)
    }

    fn take(&mut self, entry: &Entry, merged: &mut Merged) -> Result<(), SnapshotError> {
        if entry.entry_type() != EntryType::RowData {
            merged.entries.push(entry.raw().clone());
            return Ok(());
        }
        let (schema, table) = (entry.schema_name(), entry.table_name());
        if (schema, table) == (&self.watermarks.schema, &self.watermarks.table) {
            return self.watermark(entry, merged);
        }
        let tables = self.state.tables.iter();
        let mut tables = tables.map(|own| (own.schema.as_str(), own.table.as_str()));
        let index = tables.position(|own| own == (schema, table));
        match index {
            Some(index) => self.change(index, entry, merged),
            None => {
                merged.entries.push(entry.raw().clone());
                Ok(())
            }
        }
    }

    /// A change of the watermarks' table; none of them is handed out.
    fn watermark(&mut self, entry: &Entry, merged: &mut Merged) -> Result<(), SnapshotError> {
        let Some(parsed) = Parsed::of(entry)? else {
            return Ok(());
        };
        for row in parsed.rows() {
            let text = |name: &str| {
                let column = row.after_columns.iter().find(|c| c.name == name.as_bytes());
                column.map(|column| column.value.clone())
            };
            if text("name").is_none_or(|name| name != self.watermarks.name.as_bytes()) {
                continue;
            }
            if let Some(mark) = text("mark") {
                self.mark(&mark, merged);
            }
        }
        Ok(())
    }

    fn mark(&mut self, mark: &[u8], merged: &mut Merged) {
        let Some(window) = &mut self.window else {
            return;
        };
        if window.is_low(mark) {
            window.open();
            return;
        }
        if !window.is_high(mark) {
            return;
        }
        let Some(window) = self.window.take() else {
            return;
        };
        let settled = window.settle();
        if let (Settled::Done { table, bound, .. }, rows) = &settled {
            let table = &mut Arc::make_mut(&mut self.state).tables[*table];
            let (at, rows) = rows;
            let rows = rows.iter().cloned();
            merged
                .entries
                .extend(entries::inserts(&table.schema, &table.table, at, rows));
            match bound {
                Bound::Row(key) => {
                    table.through = Some(key.clone());
                    table.attempted = table.attempted.take().filter(|attempted| match attempted {
                        Bound::Row(last) => last > key,
                        Bound::End => true,
                    });
                }
                Bound::End => {
                    table.done = true;
                    (table.through, table.attempted) = (None, None);
                }
            }
        }
        merged.settled.push(settled.0);
    }

    /// A change of a table that is read.
    fn change(
        &mut self,
        index: usize,
        entry: &Entry,
        merged: &mut Merged,
    ) -> Result<(), SnapshotError> {
        let has_rows = entry.event_type().is_some_and(EventType::has_rows);
        if self.state.tables[index].done && has_rows {
            merged.entries.push(entry.raw().clone());
            return Ok(());
        }
        let Some(parsed) = Parsed::of(entry)? else {
            return Ok(());
        };
        if parsed.rows().is_empty() {
            // A schema change, or a statement's text: what was read may be of another form.
            if let Some(window) = self
                .window
                .as_mut()
                .filter(|window| window.table() == index)
            {
                window.spoil("the table's schema was changed meanwhile");
            }
            merged.entries.push(entry.raw().clone());
            return Ok(());
        }
        let mut left: Vec<(wire::EventType, wire::RowData)> = Vec::new();
        for row in parsed.rows() {
            let rest = self.row(index, &parsed, row)?;
            left.extend(rest);
        }
        merged.entries.extend(rest::entries(entry, &parsed, left));
        Ok(())
    }

    /// What is handed out of a row's change.
    fn row(
        &mut self,
        index: usize,
        parsed: &Parsed,
        row: &wire::RowData,
    ) -> Result<Option<(wire::EventType, wire::RowData)>, SnapshotError> {
        let table = &self.state.tables[index];
        if table.key.is_empty() {
            // Nothing of the table was read: all of it is still to come.
            return Ok(None);
        }
        let before = rest::key(table, parsed, &row.before_columns)?;
        let after = rest::key(table, parsed, &row.after_columns)?;
        let class = |key: &Option<Key>| key.as_ref().map(|key| classify(table, key));
        let handed_out = |class: Option<Class>| class.map(|class| class != Class::Unknown);
        let (was, is) = (handed_out(class(&before)), handed_out(class(&after)));
        if let Some(window) = self
            .window
            .as_mut()
            .filter(|window| window.table() == index)
        {
            let known = |key: &Key| classify(&self.state.tables[index], key) == Class::Known;
            if let Some(key) = before.filter(|key| after.as_ref() != Some(key) && !known(key)) {
                window.touch(key, None);
            }
            if let Some(key) = after.filter(|key| !known(key)) {
                window.touch(key, Some(row.after_columns.clone()));
            }
        }
        Ok(rest::of_row(row, was, is))
    }
}

fn classify(table: &TableState, key: &Key) -> Class {
    if table.done || table.through.as_ref().is_some_and(|through| key <= through) {
        Class::Known
    } else if table
        .attempted
        .as_ref()
        .is_some_and(|bound| bound.covers(key))
    {
        Class::Attempted
    } else {
        Class::Unknown
    }
}

/// The key's columns of a table, for tests and the reader.
pub(super) type KeyColumns = Vec<KeyColumn>;
