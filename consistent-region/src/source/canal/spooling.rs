//! The spool of a Canal source: what lies in it, who writes it, and how far it is durable.
//!
//! It holds entries as they were on the wire, and not what the map made of them: a changed program reads
//! them anew.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::task::spawn_blocking;

use crate::operator::OperatorError;
use crate::source::history::{History, Seen, Transaction};
use crate::source::spool::{AppendError, Segment, Spool};

/// How long a cut waits for the rows that it covers to be spooled.
const LIMIT: Duration = Duration::from_secs(60);

/// What a segment holds (MessagePack).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) destination: String,
    /// In order.
    pub(super) items: Vec<Item>,
}

/// A part of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Item {
    /// The transaction of the open rows before has ended.
    Closed(Transaction),
    /// A row, its transaction if that has ended, and the entry.
    Row(Seen, Option<Transaction>, Raw),
}

/// An entry's bytes on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Raw(pub(super) Bytes);

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(RawVisitor)
    }
}

struct RawVisitor;

impl Visitor<'_> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of an entry")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Raw, E> {
        Ok(Raw(Bytes::copy_from_slice(bytes)))
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Raw, E> {
        Ok(Raw(bytes.into()))
    }
}

/// The items of rows `first..` of `history`, the newest, whose entries are `raw`. `was_open`: the
/// transaction of the row before had not ended when that row was spooled.
pub(super) fn items(history: &History, first: u64, raw: Vec<Raw>, was_open: bool) -> Vec<Item> {
    let mut items = Vec::with_capacity(raw.len() + 1);
    let before = first.checked_sub(1);
    if let (true, Some(transaction)) = (was_open, before.and_then(|row| history.transaction(row))) {
        items.push(Item::Closed(transaction));
    }
    for (row, raw) in (first..).zip(raw) {
        // What was taken just now is remembered.
        if let Some(seen) = history.get(row) {
            items.push(Item::Row(seen, history.transaction(row), raw));
        }
    }
    items
}

/// Takes items into the history again; gives their entries.
pub(super) fn take_up(history: &mut History, items: Vec<Item>) -> Vec<Raw> {
    let mut entries = Vec::with_capacity(items.len());
    let mut open: Option<Transaction> = None;
    for item in items {
        match item {
            Item::Closed(transaction) => history.close(transaction),
            Item::Row(seen, transaction, raw) => {
                if let Some(ended) = open
                    && transaction != open
                {
                    history.close(ended);
                }
                history.push(seen);
                open = transaction;
                entries.push(raw);
            }
        }
    }
    if let Some(ended) = open {
        history.close(ended);
    }
    entries
}

/// How far the spool is durable. Cuts wait for it on a blocking pool.
#[derive(Debug)]
pub(super) struct Durable {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Index behind the last row that is durable.
    end: u64,
    /// There is no writer any more.
    closed: bool,
}

impl Durable {
    pub(super) fn up_to(end: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State { end, closed: false }),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, end: u64) {
        self.state().end = end;
        self.changed.notify_all();
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Blocks until the rows below `end` are durable.
    pub(super) fn wait(&self, end: u64) -> std::io::Result<()> {
        let not_yet = |state: &mut State| state.end < end && !state.closed;
        let waited = self
            .changed
            .wait_timeout_while(self.state(), LIMIT, not_yet);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.end >= end {
            true => Ok(()),
            false => Err(std::io::Error::other(format!(
                "row {end} is not spooled, only those below {} are",
                state.end
            ))),
        }
    }
}

/// Reads and writes the spool off the arbiter, one call after the other.
pub(super) struct Writer {
    spool: Spool,
    durable: Arc<Durable>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.durable.close();
    }
}

impl Writer {
    pub(super) fn new(spool: Spool, durable: Arc<Durable>) -> Self {
        Self { spool, durable }
    }

    /// The next segment behind what was read or written.
    pub(super) async fn read_next(&self) -> Result<Option<Segment>, OperatorError> {
        let next = self.durable.state().end;
        let spool = self.spool.clone();
        let read = off_the_arbiter(move || match spool.read(next)? {
            Some(segment) => Ok(Some(segment)),
            None => match spool.begins()?.into_iter().find(|first| *first > next) {
                None => Ok(None),
                // What was acknowledged comes from nowhere else.
                Some(later) => Err(OperatorError::Permanent(format!(
                    "row {next} is missing from the spool, and row {later} is there"
                ))),
            },
        });
        let segment = read.await?;
        if let Some(segment) = &segment {
            self.durable.reach(segment.end);
        }
        Ok(segment)
    }

    pub(super) async fn append(&self, segment: Segment) -> Result<(), OperatorError> {
        let (spool, end) = (self.spool.clone(), segment.end);
        let appended = off_the_arbiter(move || match spool.append(&segment) {
            Ok(()) => Ok(()),
            Err(error @ AppendError::Overtaken { .. }) => {
                Err(OperatorError::Retry(error.to_string()))
            }
            Err(AppendError::Store(error)) => Err(error.into()),
        });
        match appended.await {
            Ok(()) => self.durable.reach(end),
            Err(error) => {
                self.durable.close();
                return Err(error);
            }
        }
        Ok(())
    }

    /// What can't be removed now is removed next time.
    pub(super) async fn forget(&self, index: u64) {
        let spool = self.spool.clone();
        let removed = off_the_arbiter(move || Ok(spool.remove_below(index)?)).await;
        if let Err(error) = removed {
            tracing::warn!(%error, "spooled rows that are not needed any more stay");
        }
    }
}

async fn off_the_arbiter<R: Send + 'static>(
    job: impl FnOnce() -> Result<R, OperatorError> + Send + 'static,
) -> Result<R, OperatorError> {
    match spawn_blocking(job).await {
        Ok(result) => result,
        Err(error) => Err(OperatorError::Retry(format!("the spool: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(n: u64) -> Seen {
        Seen {
            fingerprint: u128::from(n),
            place: n,
        }
    }

    /// Rows with their transactions, spooled in pieces and taken up again, are the same history,
    /// also where a transaction's end came later than its rows.
    #[test]
    fn what_is_spooled_is_the_same_history_when_it_is_read() {
        let (one, two, three) = (
            Transaction::new(1),
            Transaction::new(2),
            Transaction::new(3),
        );
        let (mut written, mut read) = (History::default(), History::default());
        let mut was_open = false;
        let pieces: [(&[u64], Option<Transaction>); 5] = [
            (&[0, 1], Some(one)),
            (&[2, 3], None),
            (&[], Some(two)),
            (&[4], None),
            (&[5], Some(three)),
        ];
        for (rows, ends) in pieces {
            let first = written.end();
            for row in rows {
                written.push(seen(*row));
            }
            if let Some(transaction) = ends {
                written.close(transaction);
            }
            if rows.is_empty() {
                continue;
            }
            let rows: Vec<Raw> = rows
                .iter()
                .map(|row| Raw(Bytes::copy_from_slice(&row.to_be_bytes())))
                .collect();
            let items = items(&written, first, rows.clone(), was_open);
            was_open = written.transaction(written.end() - 1).is_none();
            let content = Content {
                destination: "example".to_owned(),
                items,
            };
            let bytes = rmp_serde::to_vec(&content).unwrap();
            let content: Content = rmp_serde::from_slice(&bytes).unwrap();
            assert_eq!(take_up(&mut read, content.items), rows);
        }
        assert_eq!(read, written);
    }

    #[test]
    fn a_cut_waits_until_its_rows_are_spooled_and_fails_with_the_writer() {
        let durable = Durable::up_to(5);
        durable.wait(5).unwrap();
        let waiting = Arc::clone(&durable);
        let waiter = std::thread::spawn(move || waiting.wait(7));
        durable.reach(7);
        waiter.join().unwrap().unwrap();
        let waiting = Arc::clone(&durable);
        let waiter = std::thread::spawn(move || waiting.wait(8));
        durable.close();
        let error = waiter.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("below 7"), "{error}");
    }
}
