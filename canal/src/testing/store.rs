//! The event store of one destination: a ring with three pointers, as a pure machine.
//!
//! It behaves like Canal's `MemoryEventStoreWithBuffer`: entries are *put* by the source, *got* by a
//! client and *acknowledged* by it, each pointer following the one before. Room is limited by slots
//! and, in [`BatchMode::MemorySize`], by the bytes of what is not acknowledged; without room nothing
//! more is put, and a client that does not acknowledge finds nothing to get.
//!
//! Unlike the real store this one also stands for the database's log: it keeps every entry from the
//! persisted cursor on, because a restarted server parses from there again.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;

/// What `fetch_size` of a GET counts.
///
/// Canal's `canal.instance.memory.batch.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchMode {
    /// Units of [`StoreLimits::memory_unit`] bytes (KiB by default) of serialized entries. A batch is
    /// cut after the entry with which the sum first exceeds the size, so it holds at least one entry.
    #[default]
    MemorySize,
    /// Entries; begin and end of a transaction count like rows.
    ItemSize,
}

/// The limits of one destination's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreLimits {
    /// Entries that may be in the store without being acknowledged. Default 16,384.
    pub slots: usize,
    /// Bytes of one unit: the store holds `slots` units, and `fetch_size` counts them in
    /// [`BatchMode::MemorySize`]. Default 1,024, so that the store holds 16 MiB.
    pub memory_unit: u32,
    /// What `fetch_size` counts. Default [`BatchMode::MemorySize`].
    pub batch_mode: BatchMode,
    /// Whether a DDL comes in a batch of its own (`canal.instance.get.ddl.isolation`). Default false.
    pub ddl_isolation: bool,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            slots: 16_384,
            memory_unit: 1_024,
            batch_mode: BatchMode::MemorySize,
            ddl_isolation: false,
        }
    }
}

impl StoreLimits {
    /// A store of `slots` entries.
    #[must_use]
    pub fn with_slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// Units of `bytes` bytes.
    #[must_use]
    pub fn with_memory_unit(mut self, bytes: u32) -> Self {
        self.memory_unit = bytes;
        self
    }

    /// What `fetch_size` counts.
    #[must_use]
    pub fn with_batch_mode(mut self, mode: BatchMode) -> Self {
        self.batch_mode = mode;
        self
    }

    /// Whether a DDL comes in a batch of its own.
    #[must_use]
    pub fn with_ddl_isolation(mut self, isolated: bool) -> Self {
        self.ddl_isolation = isolated;
        self
    }

    fn memory(&self) -> u64 {
        wide(self.slots).saturating_mul(u64::from(self.memory_unit))
    }
}

/// One serialized entry and what the store has to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredEntry {
    /// The serialized `Entry`.
    pub(crate) bytes: Bytes,
    /// Row images in it, counting an update once.
    pub(crate) rows: u64,
    /// What kind of entry it is.
    pub(crate) kind: StoredKind,
}

/// The kinds of entries that the store treats differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredKind {
    /// Rows, or a statement without rows.
    Rows,
    /// A transaction's begin: the cursor may move to it.
    Begin,
    /// A transaction's end: the cursor may move to it.
    End,
    /// A DDL: the cursor may move to it, and isolation cuts the batch around it.
    Ddl,
}

impl StoredKind {
    fn is_boundary(self) -> bool {
        !matches!(self, Self::Rows)
    }
}

/// A run of entries that a GET handed out: `[start, end)`, and where an ack may move the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The last transaction boundary in the run.
    pub(crate) boundary: Option<u64>,
}

/// Why a GET fails, as the real store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GetError {
    /// A `fetch_size` that leaves room for no entry: negative, or overflowing 32 bits in bytes.
    NoEntryFits,
    /// The next slots were freed by an ack that jumped over them, after a rollback of one batch.
    SlotsFreed,
}

/// An ack of a run that lies behind the ack pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoMatch;

#[derive(Debug)]
struct Logged {
    entry: StoredEntry,
    /// Bytes of all entries before this one.
    offset: u64,
}

/// The store: see the [module](self).
#[derive(Debug)]
pub(crate) struct EventStore {
    limits: StoreLimits,
    log: VecDeque<Logged>,
    /// Sequence of `log[0]`.
    first: u64,
    /// Bytes of all entries ever appended.
    total: u64,
    /// Each is the sequence of the next entry to put, get, acknowledge.
    put: u64,
    get: u64,
    ack: u64,
}

impl EventStore {
    pub(crate) fn new(limits: StoreLimits) -> Self {
        Self {
            limits: StoreLimits {
                slots: limits.slots.max(1),
                ..limits
            },
            log: VecDeque::new(),
            first: 0,
            total: 0,
            put: 0,
            get: 0,
            ack: 0,
        }
    }

    /// Whether the source should be asked for more: all that it gave is put, and there is room.
    pub(crate) fn wants_more(&self) -> bool {
        self.put == self.log_end() && self.has_room()
    }

    /// Adds entries to the log, and puts as many as there is room for.
    pub(crate) fn append(&mut self, entries: impl IntoIterator<Item = StoredEntry>) {
        for entry in entries {
            let offset = self.total;
            self.total += wide(entry.bytes.len());
            self.log.push_back(Logged { entry, offset });
        }
        self.fill();
    }

    /// Puts what the log holds as long as there is room; to be called after an ack.
    pub(crate) fn fill(&mut self) {
        while self.put < self.log_end() && self.has_room() {
            self.put += 1;
        }
    }

    /// Whether a GET of `fetch_size` would find a full batch.
    pub(crate) fn is_full(&self, fetch_size: i32) -> bool {
        match self.limits.batch_mode {
            BatchMode::MemorySize => {
                let available = self.offset(self.put).saturating_sub(self.offset(self.get));
                i64::try_from(available).unwrap_or(i64::MAX) >= i64::from(self.budget(fetch_size))
            }
            BatchMode::ItemSize => {
                self.get < self.put
                    && i64::try_from(self.put - self.get).unwrap_or(i64::MAX)
                        >= i64::from(fetch_size)
            }
        }
    }

    /// Hands out the next run of entries and moves the read pointer; `None` when nothing is there.
    pub(crate) fn get(&mut self, fetch_size: i32) -> Result<Option<Range>, GetError> {
        if self.get == self.put {
            return Ok(None);
        }
        if self.limits.batch_mode == BatchMode::MemorySize && self.get < self.ack {
            return Err(GetError::SlotsFreed);
        }
        let start = self.get;
        let mut end = start;
        let mut boundary = None;
        while end < self.put && self.may_take(start, end, fetch_size) {
            let kind = self.entry(end).kind;
            let alone = self.limits.ddl_isolation && kind == StoredKind::Ddl;
            if alone && end > start {
                break;
            }
            if kind.is_boundary() {
                boundary = Some(end);
            }
            end += 1;
            if alone {
                break;
            }
        }
        if end == start {
            return Err(GetError::NoEntryFits);
        }
        self.get = end;
        Ok(Some(Range {
            start,
            end,
            boundary,
        }))
    }

    /// Acknowledges everything up to the end of `range`.
    ///
    /// Like the real store it looks only at the end: an ack of a later run frees the earlier ones too.
    pub(crate) fn ack(&mut self, range: Range) -> Result<(), NoMatch> {
        if range.end <= self.ack {
            return Err(NoMatch);
        }
        self.ack = range.end;
        self.fill();
        Ok(())
    }

    /// Moves the read pointer back to the ack pointer.
    pub(crate) fn rollback(&mut self) {
        self.get = self.ack;
    }

    /// A new server process: it parses from `sequence` on again.
    pub(crate) fn restart_at(&mut self, sequence: u64) {
        let sequence = sequence.clamp(self.first, self.log_end());
        self.put = sequence;
        self.get = sequence;
        self.ack = sequence;
        self.fill();
    }

    /// Forgets the log before `sequence`, as far as no pointer needs it.
    pub(crate) fn release(&mut self, sequence: u64) {
        let floor = sequence.min(self.get).min(self.ack);
        while self.first < floor && self.log.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// The entries of a run.
    pub(crate) fn entries(&self, range: Range) -> impl Iterator<Item = &StoredEntry> + Clone {
        (range.start..range.end).map(|sequence| self.entry(sequence))
    }

    /// The oldest sequence that the log holds.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Where delivery would start after a rollback.
    pub(crate) fn unacknowledged_start(&self) -> u64 {
        self.ack
    }

    /// The sequence after the log's last entry.
    pub(crate) fn log_end(&self) -> u64 {
        self.first + wide(self.log.len())
    }

    /// Entries that were put and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.put.saturating_sub(self.ack)
    }

    fn has_room(&self) -> bool {
        let behind = self.get.min(self.ack);
        let slots = self.put.saturating_sub(behind);
        if slots >= wide(self.limits.slots) {
            return false;
        }
        self.limits.batch_mode == BatchMode::ItemSize
            || self.offset(self.put).saturating_sub(self.offset(self.ack)) < self.limits.memory()
    }

    fn may_take(&self, start: u64, end: u64, fetch_size: i32) -> bool {
        match self.limits.batch_mode {
            BatchMode::MemorySize => {
                let taken = self.offset(end) - self.offset(start);
                i64::try_from(taken).unwrap_or(i64::MAX) <= i64::from(self.budget(fetch_size))
            }
            BatchMode::ItemSize => {
                i64::try_from(end - start).unwrap_or(i64::MAX) < i64::from(fetch_size)
            }
        }
    }

    /// Bytes that a batch may hold; it wraps at 32 bits, as the real server's does.
    fn budget(&self, fetch_size: i32) -> i32 {
        fetch_size.wrapping_mul(i32::try_from(self.limits.memory_unit).unwrap_or(i32::MAX))
    }

    fn entry(&self, sequence: u64) -> &StoredEntry {
        &self.logged(sequence).entry
    }

    /// Bytes of all entries before `sequence`.
    fn offset(&self, sequence: u64) -> u64 {
        if sequence >= self.log_end() {
            self.total
        } else {
            self.logged(sequence).offset
        }
    }

    fn logged(&self, sequence: u64) -> &Logged {
        usize::try_from(sequence - self.first)
            .ok()
            .and_then(|index| self.log.get(index))
            .expect("a pointer lies within the log")
    }
}

/// A count as the 64-bit number that sequences and offsets use.
fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
