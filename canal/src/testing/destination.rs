//! One destination: its store, its clients, its script, and the lock that GETs hold while they wait.

mod requests;
mod script;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

pub(crate) use self::requests::{GetRequest, Refusal};
pub(crate) use self::script::Script;
use super::client::Client;
use super::filter::Filter;
use super::machine::ConnectionId;
use super::moment::Moment;
use super::reply;
use super::statistics::Statistics;
use super::store::{EventStore, GetError, Range, StoreLimits, StoredKind};

/// How a restarted server finds its place again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Restart {
    /// A stop in good order: the cursor is written before. Delivery goes on with the entry at the
    /// cursor, which is the last acknowledged transaction boundary and comes once more.
    #[default]
    Graceful,
    /// A kill: acks since the cursor was last written are forgotten, see
    /// [`cursor_flush`](super::CanalServerBuilder::cursor_flush).
    Killed,
    /// A server that keeps its cursor in memory only (`meta=memory`): subscriptions are forgotten,
    /// and **what was not acknowledged is lost**; delivery goes on with what the script gives next.
    CursorLost,
}

/// A request that needs the destination's lock.
#[derive(Debug)]
pub(crate) enum Locked {
    Get {
        client: i16,
        request: GetRequest,
        /// When it got the lock; its wait counts from then.
        since: Option<Instant>,
    },
    Rollback {
        client: i16,
        /// `None`: all batches.
        batch: Option<i64>,
    },
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Done; the client hears nothing.
    Silent,
    /// Done; the client hears this frame.
    Answer(Bytes),
    Refused(Refusal),
}

/// The destination: see the [module](self).
pub(crate) struct Destination {
    name: String,
    pub(crate) running: bool,
    store: EventStore,
    script: Script,
    clients: BTreeMap<i16, Client>,
    filter: Filter,
    /// Who waits for the lock; the first has it.
    lock: VecDeque<(ConnectionId, Locked)>,
    cursor_flush: Duration,
    next_flush: Option<Instant>,
    counts: Statistics,
}

impl Destination {
    pub(crate) fn new(
        name: String,
        limits: StoreLimits,
        cursor_flush: Duration,
        script: Script,
    ) -> Self {
        Self {
            name,
            running: true,
            store: EventStore::new(limits),
            script,
            clients: BTreeMap::new(),
            filter: Filter::default(),
            lock: VecDeque::new(),
            cursor_flush,
            next_flush: None,
            counts: Statistics::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn script(&mut self) -> &mut Script {
        &mut self.script
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let outstanding = self
            .clients
            .values()
            .map(Client::outstanding)
            .sum::<usize>();
        Statistics {
            outstanding_batches: u64::try_from(outstanding).unwrap_or(u64::MAX),
            unacknowledged_entries: self.store.unacknowledged(),
            taken_transactions: self.script.taken(),
            source_ended: self.script.ended(),
            source_error: self.script.error().cloned(),
            filter: self.filter.text().to_owned(),
            ..self.counts.clone()
        }
    }

    pub(crate) fn count_refusal(&mut self) {
        self.counts.refused += 1;
    }

    /// Queues a request for the lock; [`advance`](Self::advance) carries it out.
    pub(crate) fn enqueue(&mut self, connection: ConnectionId, request: Locked) {
        self.lock.push_back((connection, request));
    }

    /// When something happens here without a request.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let wait = match self.lock.front() {
            Some((_, Locked::Get { request, since, .. })) => {
                since.and_then(|since| request.until(since))
            }
            _ => None,
        };
        [wait, self.next_flush].into_iter().flatten().min()
    }

    /// Moves all that can move: the script into the store, requests through the lock, cursors to disk.
    pub(crate) fn advance(&mut self, now: Moment, done: &mut Vec<(ConnectionId, Outcome)>) {
        if !self.running {
            let refused = self.lock.drain(..).map(|(connection, _)| {
                let refusal = Refusal::ShouldStartFirst(self.name.clone());
                (connection, Outcome::Refused(refusal))
            });
            done.extend(refused);
            return;
        }
        self.flush_when_due(now.instant);
        loop {
            self.pull(now);
            let Some((_, front)) = self.lock.front_mut() else {
                return;
            };
            let outcome = match front {
                Locked::Get {
                    client,
                    request,
                    since,
                } => {
                    let since = *since.get_or_insert(now.instant);
                    let over = request
                        .until(since)
                        .is_some_and(|until| until <= now.instant);
                    if !over && !self.store.is_full(request.fetch_size) {
                        return;
                    }
                    let (client, request) = (*client, *request);
                    self.get(client, request)
                }
                Locked::Rollback { client, batch } => {
                    let (client, batch) = (*client, *batch);
                    self.rollback(client, batch)
                }
            };
            if let Some((connection, _)) = self.lock.pop_front() {
                done.push((connection, outcome));
            }
        }
    }

    /// Takes transactions from the script as long as the store has room.
    fn pull(&mut self, now: Moment) {
        while self.store.wants_more() && !self.filter.is_broken() {
            let Some(entries) = self.script.next(now.unix, &self.filter) else {
                return;
            };
            self.store.append(entries);
        }
    }

    fn flush_when_due(&mut self, now: Instant) {
        let behind = self
            .clients
            .values()
            .any(|client| client.cursor != client.persisted);
        if !behind {
            self.next_flush = None;
            return;
        }
        match self.next_flush {
            None => self.next_flush = now.checked_add(self.cursor_flush),
            Some(due) if due <= now => self.flush(),
            Some(_) => {}
        }
    }

    fn flush(&mut self) {
        self.next_flush = None;
        for client in self.clients.values_mut() {
            client.persisted = client.cursor;
        }
        if let Some(floor) = self.persisted_cursor() {
            self.store.release(floor);
        }
    }

    /// Where a restarted server would go on: the furthest back of all subscribed clients.
    fn persisted_cursor(&self) -> Option<u64> {
        self.clients
            .values()
            .filter(|client| client.subscribed)
            .filter_map(|client| client.persisted)
            .min()
    }

    /// The server process ends and another starts; nobody is connected any more.
    pub(crate) fn restart(&mut self, how: Restart) {
        self.lock.clear();
        if how == Restart::Graceful {
            self.flush();
        }
        if how == Restart::CursorLost {
            self.clients.clear();
            let end = self.store.log_end();
            self.store.restart_at(end);
            return;
        }
        let from = self.persisted_cursor().unwrap_or(self.store.first());
        self.clients.values_mut().for_each(Client::restart);
        self.next_flush = None;
        self.store.restart_at(from);
    }

    fn get(&mut self, client: i16, request: GetRequest) -> Outcome {
        self.counts.gets += 1;
        let range = match self.store.get(request.fetch_size) {
            Ok(None) => return Outcome::Answer(reply::no_entries()),
            Ok(Some(range)) => range,
            Err(GetError::NoEntryFits) => return Outcome::Refused(Refusal::NoEntryFits),
            Err(GetError::SlotsFreed) => return Outcome::Refused(Refusal::SlotsFreed),
        };
        let id = self.clients.entry(client).or_default().add(range);
        self.counts.batches += 1;
        self.counts.delivered_entries += range.end - range.start;
        let entries = self.store.entries(range).map(|entry| &entry.bytes);
        Outcome::Answer(reply::batch(id, entries))
    }

    fn count_acked(&mut self, range: Range) {
        let (mut rows, mut transactions) = (0, 0);
        for entry in self.store.entries(range) {
            rows += entry.rows;
            transactions += u64::from(entry.kind == StoredKind::End);
        }
        self.counts.acks += 1;
        self.counts.acked_entries += range.end - range.start;
        self.counts.acked_rows += rows;
        self.counts.acked_transactions += transactions;
    }
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination")
            .field("name", &self.name)
            .field("running", &self.running)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
