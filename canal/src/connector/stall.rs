//! Whether a server delivers nothing while the database goes on. A machine: no I/O, no clock.
//!
//! An answer without entries says nothing by itself: an idle database and a server whose parser has
//! died look alike. So the database is asked too. One step of its binlog proves nothing either: it
//! may be on its way, or belong to tables that nobody subscribed to, for which the server sends an
//! empty transaction's end only every five seconds. What can't happen at a working server is a
//! binlog that grows on and on without a single entry.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// How far a database's binlog goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinlogPosition {
    /// The file that is being written.
    pub journal: String,
    /// Its length in bytes.
    pub offset: u64,
}

impl std::fmt::Display for BinlogPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.journal, self.offset)
    }
}

/// What asking a database gives: its position, or why there is none.
pub type BinlogAnswer = Result<BinlogPosition, Box<dyn std::error::Error + Send + Sync>>;

/// Asks a database how far its binlog goes: `SHOW MASTER STATUS`, on newer servers `SHOW BINARY LOG
/// STATUS`. A closure that gives a future is one.
///
/// It is asked only while the Canal server has nothing, four times in the limit of
/// [`CanalConnector::with_binlog_probe`](crate::CanalConnector::with_binlog_probe), and one question
/// at a time; an answer that takes longer than the limit counts as a failure.
pub trait BinlogProbe: Send + Sync + 'static {
    /// Asks.
    fn binlog_position(&self) -> Pin<Box<dyn Future<Output = BinlogAnswer> + '_>>;
}

impl<P, F> BinlogProbe for P
where
    P: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = BinlogAnswer> + 'static,
{
    fn binlog_position(&self) -> Pin<Box<dyn Future<Output = BinlogAnswer> + '_>> {
        Box::pin(self())
    }
}

/// Watches one connection.
#[derive(Debug)]
pub(super) struct StallWatch {
    limit: Duration,
    /// When the database is asked next; `None` while it is asked.
    next_probe: Option<Instant>,
    last: Option<BinlogPosition>,
    /// When growth was noticed since the last entry: first, and for the second time.
    grown: Option<Instant>,
    grown_again: Option<Instant>,
}

impl StallWatch {
    /// Nothing may come for so long while the binlog grows.
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self {
            limit,
            next_probe: Some(now + limit / 4),
            last: None,
            grown: None,
            grown_again: None,
        }
    }

    /// How long an answer may take.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// From an answer to the next question.
    fn period(&self) -> Duration {
        self.limit / 4
    }

    /// Entries came, or none were asked for: everything begins anew.
    pub(super) fn reset(&mut self, now: Instant) {
        (self.last, self.grown, self.grown_again) = (None, None, None);
        if self.next_probe.is_some() {
            self.next_probe = Some(now + self.period());
        }
    }

    /// The server had nothing. Whether the database is to be asked now.
    pub(super) fn nothing_came(&mut self, now: Instant) -> bool {
        let due = self.next_probe.is_some_and(|at| at <= now);
        if due {
            self.next_probe = None;
        }
        due
    }

    /// The database has answered, or could not.
    pub(super) fn probed(&mut self, now: Instant, position: Option<BinlogPosition>) {
        self.next_probe = Some(now + self.period());
        let Some(position) = position else { return };
        let before = self.last.replace(position);
        if before.is_some() && before != self.last {
            match self.grown {
                None => self.grown = Some(now),
                Some(_) => _ = self.grown_again.get_or_insert(now),
            }
        }
    }

    /// How far the binlog goes, if the server should long have delivered something of it.
    pub(super) fn stalled(&self, now: Instant) -> Option<&BinlogPosition> {
        let over = |since: Option<Instant>, limit| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
        };
        let stalled = over(self.grown, self.limit) && over(self.grown_again, self.period());
        self.last.as_ref().filter(|_| stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn at(offset: u64) -> Option<BinlogPosition> {
        Some(BinlogPosition {
            journal: "binlog.000001".to_owned(),
            offset,
        })
    }

    /// Asks every 15 s what the binlog says then; when the stall is told, in seconds.
    fn told(offsets: impl IntoIterator<Item = u64>) -> Option<u64> {
        let start = Instant::now();
        let mut watch = StallWatch::new(LIMIT, start);
        for (count, offset) in (1..).zip(offsets) {
            let now = start + LIMIT / 4 * count;
            assert!(watch.nothing_came(now));
            assert!(!watch.nothing_came(now), "it is being asked");
            watch.probed(now, at(offset));
            if watch.stalled(now).is_some() {
                return Some(u64::from(count) * 15);
            }
        }
        None
    }

    #[test]
    fn a_binlog_that_grows_on_while_nothing_comes_is_a_stall() {
        // Growth is noticed at 30 s; a limit later it is told.
        assert_eq!(told((1..).map(|step| step * 100)), Some(90));
    }

    #[test]
    fn an_idle_database_is_none_and_one_step_is_none() {
        assert_eq!(told([100; 40]), None);
        assert_eq!(told([100; 5].into_iter().chain([200; 40])), None);
    }

    #[test]
    fn a_row_that_is_on_its_way_is_none() {
        let start = Instant::now();
        let mut watch = StallWatch::new(LIMIT, start);
        let mut now = start;
        for offset in [100, 200, 200, 200, 200, 200, 200, 300] {
            now += LIMIT / 4;
            assert!(watch.nothing_came(now));
            watch.probed(now, at(offset));
            assert_eq!(watch.stalled(now), None, "{offset}");
        }
        watch.reset(now);
        assert_eq!(watch.stalled(now + LIMIT), None);
    }

    #[test]
    fn an_answer_that_failed_changes_nothing() {
        let start = Instant::now();
        let mut watch = StallWatch::new(LIMIT, start);
        for count in 1..20 {
            let now = start + LIMIT / 4 * count;
            assert!(watch.nothing_came(now));
            watch.probed(now, None);
            assert_eq!(watch.stalled(now), None);
        }
    }

    #[test]
    fn an_entry_ends_it() {
        let start = Instant::now();
        let mut watch = StallWatch::new(LIMIT, start);
        for count in 1..=10 {
            let now = start + LIMIT / 4 * count;
            assert!(watch.nothing_came(now));
            watch.probed(now, at(u64::from(count)));
        }
        let now = start + LIMIT * 3;
        assert_eq!(watch.stalled(now), at(10).as_ref());
        watch.reset(now);
        assert_eq!(watch.stalled(now), None);
    }
}
