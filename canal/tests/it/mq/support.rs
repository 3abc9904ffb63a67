//! A handler that reports rows, and the rows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::prelude::*;
use lockkeeper_canal::mq::BadMessage;
use lockkeeper_canal::{Batch, BatchResult, ChangeKind};
use tokio::sync::mpsc;

use crate::contract::Order;

/// A guard against a hang, not a measure.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// A change to one row: the kind, and the row before and after.
pub(crate) type Change = (String, Option<Order>, Option<Order>);

/// What a handler saw, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    Row(Change),
    Statement(String),
    /// A batch has ended: its destination and the number in its id.
    Batch(String, i64),
    Bad(String),
    /// The offset store has kept this offset.
    Kept(i64),
}

/// Reports everything, and answers by the script: an `Err` each, then `Ok`.
pub(crate) struct Handling {
    failures: Arc<Mutex<VecDeque<&'static str>>>,
    seen: mpsc::UnboundedSender<Seen>,
    /// Rows of other schemas are passed over: a destination may still hold those of the test before.
    schema: Option<String>,
}

impl Handling {
    /// With the rows of this schema only.
    #[cfg(feature = "kafka")]
    pub(crate) fn of_schema(
        schema: &str,
        failures: impl IntoIterator<Item = &'static str>,
    ) -> (Addr<Self>, mpsc::UnboundedReceiver<Seen>) {
        let (seen, receiver) = mpsc::unbounded_channel();
        let failures = Arc::new(Mutex::new(failures.into_iter().collect()));
        let schema = Some(schema.to_owned());
        (
            Actor::start(Self {
                failures,
                seen,
                schema,
            }),
            receiver,
        )
    }

    pub(crate) fn start(
        failures: impl IntoIterator<Item = &'static str>,
    ) -> (Addr<Self>, mpsc::UnboundedReceiver<Seen>) {
        let (seen, receiver) = mpsc::unbounded_channel();
        (Self::reporting(failures, seen), receiver)
    }

    pub(crate) fn reporting(
        failures: impl IntoIterator<Item = &'static str>,
        seen: mpsc::UnboundedSender<Seen>,
    ) -> Addr<Self> {
        let failures = Arc::new(Mutex::new(failures.into_iter().collect()));
        Actor::start(Self {
            failures,
            seen,
            schema: None,
        })
    }

    fn result(&self) -> BatchResult {
        match self.failures.lock().unwrap().pop_front() {
            None => Ok(()),
            Some(failure) => Err(failure.into()),
        }
    }
}

impl Actor for Handling {
    type Context = Context<Self>;
}

impl Handler<Batch> for Handling {
    type Result = BatchResult;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> BatchResult {
        for entry in batch.message.entries() {
            let entry = entry.unwrap();
            let other = |schema: &String| schema != entry.schema_name();
            if self.schema.as_ref().is_some_and(other) {
                continue;
            }
            let Some(change) = entry.row_change().unwrap() else {
                continue;
            };
            if change.kind() == ChangeKind::SchemaChange {
                let _ = self.seen.send(Seen::Statement(change.sql().to_owned()));
            }
            let kind = format!("{:?}", change.event_type());
            for row in change.rows::<Order>() {
                let row = row.unwrap();
                let _ = self
                    .seen
                    .send(Seen::Row((kind.clone(), row.before, row.after)));
            }
        }
        let (destination, id) = (batch.message.destination(), batch.message.id().id());
        let _ = self.seen.send(Seen::Batch(destination.to_owned(), id));
        self.result()
    }
}

impl Handler<BadMessage> for Handling {
    type Result = BatchResult;

    fn handle(&mut self, bad: BadMessage, _: &mut Self::Context) -> BatchResult {
        let _ = self.seen.send(Seen::Bad(bad.error.to_string()));
        self.result()
    }
}

pub(crate) async fn next(seen: &mut mpsc::UnboundedReceiver<Seen>) -> Seen {
    let next = tokio::time::timeout(HANG, seen.recv()).await;
    next.expect("the handler gets something").unwrap()
}

/// The next rows, however they are cut into batches.
pub(crate) async fn rows(seen: &mut mpsc::UnboundedReceiver<Seen>, count: usize) -> Vec<Change> {
    let mut rows = Vec::new();
    while rows.len() < count {
        if let Seen::Row(row) = next(seen).await {
            rows.push(row);
        }
    }
    rows
}

/// Resolves when `done` resolves, or panics.
pub(crate) async fn in_time<T>(what: &str, done: impl Future<Output = T>) -> T {
    match tokio::time::timeout(HANG, done).await {
        Ok(value) => value,
        Err(_) => panic!("hangs: {what}"),
    }
}
