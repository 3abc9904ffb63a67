//! One chunk between its watermarks.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::protocol::generated::entry as wire;
use crate::snapshot::entries::ReadAt;
use crate::snapshot::key::Key;
use crate::snapshot::merge::KeyColumns;
use crate::snapshot::state::Bound;

/// Keys that may change within one window. A chunk in whose time more change is read again.
const TOUCHED_LIMIT: usize = 200_000;

/// A chunk that is to be read.
#[derive(Debug, Clone)]
pub(in crate::snapshot) struct Chunk {
    /// Which of the tables.
    pub(in crate::snapshot) table: usize,
    /// Its primary key.
    pub(in crate::snapshot) key: KeyColumns,
    /// What is written before the read, and after it: never the same twice.
    pub(in crate::snapshot) low: String,
    pub(in crate::snapshot) high: String,
}

/// What became of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::snapshot) enum Settled {
    /// It is in the batch's entries.
    Done {
        table: usize,
        bound: Bound,
        rows: usize,
    },
    /// It has to be read again.
    Again { reason: &'static str },
}

#[derive(Debug, Clone)]
pub(in crate::snapshot) struct Window {
    chunk: Chunk,
    /// The low watermark has come.
    open: bool,
    read: Option<Arc<Read>>,
    /// Rows that changed between the watermarks, as the last change leaves them; `None` for gone.
    touched: Arc<BTreeMap<Key, Option<Vec<wire::Column>>>>,
    spoiled: Option<&'static str>,
}

/// What was read.
#[derive(Debug)]
struct Read {
    at: ReadAt,
    rows: BTreeMap<Key, Vec<wire::Column>>,
    bound: Bound,
    width: usize,
    whole: bool,
}

impl Window {
    pub(super) fn new(chunk: Chunk) -> Self {
        Self {
            chunk,
            open: false,
            read: None,
            touched: Arc::default(),
            spoiled: None,
        }
    }

    pub(super) fn table(&self) -> usize {
        self.chunk.table
    }

    pub(super) fn is_low(&self, mark: &[u8]) -> bool {
        self.chunk.low.as_bytes() == mark
    }

    pub(super) fn is_high(&self, mark: &[u8]) -> bool {
        self.chunk.high.as_bytes() == mark
    }

    /// The low watermark has come; again, if the stream began again before it.
    pub(super) fn open(&mut self) {
        self.open = true;
        self.touched = Arc::default();
        self.spoiled = None;
    }

    /// The chunk is read again.
    pub(super) fn spoil(&mut self, reason: &'static str) {
        if self.open {
            self.spoiled = Some(reason);
        }
    }

    pub(super) fn load(&mut self, at: ReadAt, rows: Vec<Vec<wire::Column>>, last: bool) {
        let width = rows.first().map_or(0, Vec::len);
        let count = rows.len();
        let keyed = rows
            .into_iter()
            .filter_map(|row| Some((Key::of(&self.chunk.key, &row)?, row)));
        let rows: BTreeMap<_, _> = keyed.collect();
        // The database counts keys as different that are equal here.
        let whole = rows.len() == count;
        let bound = match rows.last_key_value() {
            Some((key, _)) if !last => Bound::Row(key.clone()),
            _ => Bound::End,
        };
        // What lies behind the chunk's end is read later.
        if !self.touched.keys().all(|key| bound.covers(key)) {
            Arc::make_mut(&mut self.touched).retain(|key, _| bound.covers(key));
        }
        self.read = Some(Arc::new(Read {
            at,
            rows,
            bound,
            width,
            whole,
        }));
    }

    /// A row was changed.
    pub(super) fn touch(&mut self, key: Key, row: Option<Vec<wire::Column>>) {
        let beyond = self
            .read
            .as_ref()
            .is_some_and(|read| !read.bound.covers(&key));
        if !self.open || beyond {
            return;
        }
        if self.touched.len() >= TOUCHED_LIMIT {
            self.spoiled = Some("too many rows were changed meanwhile");
            return;
        }
        Arc::make_mut(&mut self.touched).insert(key, row);
    }

    /// The high watermark has come.
    pub(super) fn settle(self) -> (Settled, (ReadAt, Vec<Vec<wire::Column>>)) {
        let again = |reason| (Settled::Again { reason }, Default::default());
        let Some(read) = self.read.filter(|_| self.open) else {
            return again("its low watermark did not come");
        };
        if let Some(reason) = self.spoiled {
            return again(reason);
        }
        if !read.whole {
            return again("rows that were read have equal keys");
        }
        let mut rows = read.rows.clone();
        for (key, row) in self.touched.iter() {
            match row {
                Some(row) if read.width != 0 && row.len() != read.width => {
                    return again("a change came with other columns than the table has");
                }
                Some(row) => {
                    rows.insert(key.clone(), row.clone());
                }
                None => {
                    rows.remove(key);
                }
            }
        }
        let settled = Settled::Done {
            table: self.chunk.table,
            bound: read.bound.clone(),
            rows: rows.len(),
        };
        (settled, (read.at.clone(), rows.into_values().collect()))
    }
}
