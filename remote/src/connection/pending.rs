//! What this side waits for: its calls and its session requests.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Deadlines are looked at no more often than this, so a time-out may come that much late.
pub(super) const GRANULARITY: Duration = Duration::from_millis(1);

/// One thing that is waited for.
#[derive(Debug)]
pub(super) struct Pending<T> {
    pub(super) waiter: T,
    pub(super) deadline: Instant,
    /// Place of the frame's last byte in all bytes sent.
    pub(super) end: u64,
}

/// Things that are waited for, by number, with a lower bound of their deadlines.
///
/// There is no timer per entry: nearly all calls are answered long before their deadline. When the
/// bound is reached the table is swept and the bound set to what is left, which for calls of equal
/// time-outs is a whole time-out away.
#[derive(Debug)]
pub(super) struct PendingTable<T> {
    entries: HashMap<u32, Pending<T>>,
    earliest: Option<Instant>,
}

impl<T> PendingTable<T> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            earliest: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pending<T>> {
        self.entries.values()
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.entries.contains_key(&number)
    }

    pub(super) fn insert(&mut self, number: u32, pending: Pending<T>) {
        if self
            .earliest
            .is_none_or(|earliest| pending.deadline < earliest)
        {
            self.earliest = Some(pending.deadline);
        }
        self.entries.insert(number, pending);
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Pending<T>> {
        self.entries.remove(&number)
    }

    /// Notes where the frame ended that was not out when it was inserted.
    pub(super) fn set_end(&mut self, number: u32, end: u64) {
        if let Some(pending) = self.entries.get_mut(&number) {
            pending.end = end;
        }
    }

    /// When to call [`take_expired`](Self::take_expired).
    pub(super) fn next(&self) -> Option<Instant> {
        if self.entries.is_empty() {
            None
        } else {
            self.earliest.map(|at| at + GRANULARITY)
        }
    }

    /// Takes out what has reached its deadline.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<(u32, Pending<T>)> {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let expired: Vec<_> = self
            .entries
            .extract_if(|_, entry| entry.deadline <= now)
            .collect();
        self.earliest = self
            .entries
            .values()
            .map(|entry| entry.deadline)
            .reduce(Instant::min);
        expired
    }

    /// Takes out everything.
    pub(super) fn take_all(&mut self) -> Vec<Pending<T>> {
        self.earliest = None;
        std::mem::take(&mut self.entries).into_values().collect()
    }
}
