//! Rows that were read as of one moment, and the changes behind it. A machine: no I/O, no clock.
//!
//! All rows are read in one transaction, so they are as of one [`Moment`], and they are handed out
//! before anything that comes through Canal. Then, of a row's changes,
//!
//! - those before the moment are in what was read: they are dropped;
//! - those behind it are handed out.
//!
//! When the transaction is lost in the middle, as in a crash, what was not handed out yet is read as
//! of a later moment. So a table falls into spans of its key, each with the moment from which its
//! changes are handed out; when the stream has come to the last moment, the handler has the
//! database of that moment. A moment that the stream has passed is forgotten: nothing is compared
//! any more, and no binlog that begins anew can look like one before.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::error::SnapshotError;
use super::key::{Key, KeyColumn};
use super::merge::Merged;
use super::moment::Moment;
use super::rest;
use super::state::{Bound, SnapshotState, Span, TableState};
use crate::entry::{Entry, EntryType};
use crate::parsed::Parsed;
use crate::protocol::generated::entry as wire;

/// Rows of moments, and changes. Cheap to clone: a batch is merged into a copy, which replaces the
/// machine when the batch was handled.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    state: Arc<SnapshotState>,
}

impl Moments {
    pub(super) fn new(state: SnapshotState) -> Self {
        Self {
            state: Arc::new(state),
        }
    }

    pub(super) fn state(&self) -> &SnapshotState {
        &self.state
    }

    /// The tables of which rows are still to be read, with the last key that is known of each.
    pub(super) fn rest(&self) -> impl Iterator<Item = (usize, &TableState)> {
        let tables = self.state.tables.iter().enumerate();
        tables.filter(|(_, table)| !table.done)
    }

    /// Begins to read a table, or goes on with it, by this key.
    pub(super) fn begin(&mut self, table: usize, key: &[KeyColumn]) -> Result<(), SnapshotError> {
        let table = &mut Arc::make_mut(&mut self.state).tables[table];
        table.has_key(key)?;
        // Of a snapshot that was begun with watermarks: every change of these rows is for the
        // handler.
        let known = table.through.clone().map(Bound::Row);
        for to in [known, table.attempted.take()].into_iter().flatten() {
            table.widen(Span { to, since: None });
        }
        Ok(())
    }

    /// The handler may get a table's rows up to a bound, as of a moment: it is kept before they are
    /// handed out, so that their changes from then on are handed out even if it gets them no more.
    pub(super) fn attempt(&mut self, table: usize, to: Bound, moment: &Moment) {
        let table = &mut Arc::make_mut(&mut self.state).tables[table];
        table.widen(Span {
            to,
            since: Some(moment.clone()),
        });
    }

    /// The handler has a table's rows up to a bound.
    pub(super) fn handed_out(&mut self, table: usize, to: Bound) {
        let table = &mut Arc::make_mut(&mut self.state).tables[table];
        match to {
            Bound::Row(key) => table.through = Some(key),
            Bound::End => (table.through, table.done) = (None, true),
        }
    }

    /// Merges the entries of a batch. For when all rows are handed out.
    pub(super) fn merge(
        &mut self,
        batch: impl IntoIterator<Item = Entry>,
    ) -> Result<Merged, SnapshotError> {
        let mut merged = Merged::default();
        for entry in batch {
            self.pass(&entry);
            self.take(&entry, &mut merged)?;
        }
        Ok(merged)
    }

    /// Forgets the moments that the stream has passed.
    fn pass(&mut self, entry: &Entry) {
        if !self.state.has_moments() {
            return;
        }
        let position = entry.position();
        let passed = |since: &Option<Moment>| {
            let moment = since.as_ref();
            moment.is_some_and(|moment| moment.is_before(&position))
        };
        let tables = self.state.tables.iter();
        let mut spans = tables.flat_map(|table| &table.spans);
        if !spans.any(|span| passed(&span.since)) {
            return;
        }
        for table in &mut Arc::make_mut(&mut self.state).tables {
            for span in &mut table.spans {
                if passed(&span.since) {
                    span.since = None;
                }
            }
            if table.done && table.spans.iter().all(|span| span.since.is_none()) {
                table.spans.clear();
            }
        }
    }

    fn take(&self, entry: &Entry, merged: &mut Merged) -> Result<(), SnapshotError> {
        let name = (entry.schema_name(), entry.table_name());
        let mut tables = self.state.tables.iter();
        let table = tables.find(|table| (table.schema.as_str(), table.table.as_str()) == name);
        let held = table.filter(|table| !table.done || !table.spans.is_empty());
        let (EntryType::RowData, Some(table)) = (entry.entry_type(), held) else {
            merged.entries.push(entry.raw().clone());
            return Ok(());
        };
        let Some(parsed) = Parsed::of(entry)? else {
            return Ok(());
        };
        // Of a schema change, or a statement's text, there are no rows: what was read as of a later
        // moment has it in its columns.
        let mut left = Vec::new();
        for row in parsed.rows() {
            let was = class(table, &parsed, &row.before_columns)?;
            let is = class(table, &parsed, &row.after_columns)?;
            left.extend(rest::of_row(row, was, is));
        }
        if !left.is_empty() {
            merged.entries.extend(rest::entries(entry, &parsed, left));
        }
        Ok(())
    }
}

/// Whether changes of a row come to the handler now; `None` if there is no row.
fn class(
    table: &TableState,
    parsed: &Parsed,
    columns: &[wire::Column],
) -> Result<Option<bool>, SnapshotError> {
    let Some(key) = rest::key(table, parsed, columns)? else {
        return Ok(None);
    };
    let mut spans = table.spans.iter();
    let span = spans.find(|span| span.to.covers(&key));
    Ok(Some(span.is_some_and(|span| span.since.is_none())))
}

impl TableState {
    /// Takes the key, or sees that it is the same.
    pub(super) fn has_key(&mut self, key: &[KeyColumn]) -> Result<(), SnapshotError> {
        if self.key.is_empty() {
            self.key = key.to_vec();
        }
        if self.key == key {
            return Ok(());
        }
        Err(SnapshotError::State(format!(
            "the primary key of {}.{} was another one when the snapshot began: remove the state and \
             begin anew",
            self.schema, self.table
        )))
    }

    /// Adds what a span has behind the others.
    fn widen(&mut self, span: Span) {
        match self.spans.last_mut() {
            Some(last) if !last.to.is_below(&span.to) => {}
            Some(last) if last.since == span.since => last.to = span.to,
            _ => self.spans.push(span),
        }
    }
}

impl Bound {
    fn is_below(&self, other: &Bound) -> bool {
        match (self, other) {
            (Self::End, _) => false,
            (Self::Row(_), Self::End) => true,
            (Self::Row(own), Self::Row(other)) => own < other,
        }
    }
}

/// Where rows end that were read by this key.
pub(super) fn bound(
    key: &[KeyColumn],
    rows: &[Vec<wire::Column>],
    last: bool,
) -> Result<Bound, SnapshotError> {
    match rows.last() {
        Some(row) if !last => Key::of(key, row)
            .map(Bound::Row)
            .ok_or_else(|| SnapshotError::Database("a row came without its key".to_owned())),
        _ => Ok(Bound::End),
    }
}
