//! The task behind the actor: it has the merge, through which every batch goes on its way to the
//! handler, and serves the reader between two batches.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use actix::{Actor as _, Addr, MailboxError, Recipient};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::entries;
use super::error::SnapshotError;
use super::intake::{Intake, Job};
use super::machine::Machine;
use super::merge::{Merge, Settled, Watermarks};
use super::moments::Moments;
use super::reader::{HandOut, HandedOut, Next, Outcome, Reader, Request};
use super::settings::{SnapshotDatabase, SnapshotMode, SnapshotSettings};
use super::state::{SnapshotState, SnapshotStore};
use super::status::{SnapshotEnd, SnapshotPhase, SnapshotStatus};
use crate::connector::{
    Batch, BatchResult, CanalConnector, ConnectorEnd, ConnectorState, GetStatus,
    SimpleCanalConnector, Stop, WaitForEnd, decode_error, first_epoch,
};
use crate::entry::Entry;
use crate::message::{BatchId, Message};

/// Batches and requests that may wait. There is one connector with one batch, and one reader.
const QUEUE: usize = 8;

type Handling = Pin<Box<dyn Future<Output = Handled>>>;

/// What is dealt with.
struct Handled {
    next: Machine,
    what: What,
    result: Result<BatchResult, MailboxError>,
}

enum What {
    /// A batch of Canal's server, with the chunks that were put into it.
    Batch {
        settled: Vec<Settled>,
        reply: oneshot::Sender<BatchResult>,
    },
    /// Rows of a moment.
    Rows {
        count: usize,
        reply: oneshot::Sender<HandedOut>,
    },
}

/// The state to keep before something is handed on, and after it was handled.
#[derive(Default)]
struct Kept {
    before: Option<SnapshotState>,
    after: Option<SnapshotState>,
}

pub(super) struct Driver<S> {
    pub(super) settings: SnapshotSettings,
    pub(super) database: SnapshotDatabase,
    pub(super) store: Arc<S>,
    pub(super) recipient: Recipient<Batch>,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) status: watch::Sender<SnapshotStatus>,
}

impl<S: SnapshotStore> Driver<S> {
    /// Works until it is stopped or can't go on.
    pub(super) async fn run(mut self, connector: SimpleCanalConnector) {
        let end = self.work(connector).await;
        if let SnapshotEnd::Failed(error) = &end {
            tracing::error!(%error, "the snapshot and its stream have ended");
        }
        self.status
            .send_modify(|status| status.phase = SnapshotPhase::Ended(end));
    }

    async fn work(&mut self, connector: SimpleCanalConnector) -> SnapshotEnd {
        let state = match self.state().await {
            Ok(state) => state,
            Err(error) => return SnapshotEnd::Failed(error),
        };
        let (schema, table) = self.settings.watermarks();
        let watermarks = Watermarks {
            schema,
            table,
            name: self.settings.name.clone(),
        };
        let destination = connector.identity().destination().into();
        let (jobs, waiting_jobs) = mpsc::channel(QUEUE);
        let intake = Intake { jobs }.start().recipient();
        let following = self.settings.connector.clone();
        let following = following.with_filter(self.settings.filter()).with_window(1);
        let connector = match CanalConnector::new(connector, following, intake) {
            Ok(connector) => connector.start(),
            Err(error) => return SnapshotEnd::Failed(error.into()),
        };
        let (requests, waiting_requests) = mpsc::channel(QUEUE);
        let (troubles, seen_troubles) = mpsc::unbounded_channel();
        let reader = Reader {
            settings: self.settings.clone(),
            database: self.database.clone(),
            watermarks: watermarks.clone(),
            requests,
            connector: connector.clone(),
            troubles,
        };
        let done = state.is_done();
        self.phase(done);
        let machine = match self.settings.mode {
            SnapshotMode::Watermarks => Machine::Watermarks(Merge::new(state, watermarks)),
            _ => Machine::Moments(Moments::new(state)),
        };
        let mut run = Run {
            machine,
            destination,
            next_id: BatchId::new(first_epoch(), 1),
            connector,
            settle: None,
            settled: None,
            last: Instant::now(),
            handling: None,
            jobs: waiting_jobs,
            requests: waiting_requests,
            troubles: seen_troubles,
        };
        self.follow(&mut run, reader, done).await
    }

    async fn state(&self) -> Result<SnapshotState, SnapshotError> {
        let tables = self.settings.tables.iter();
        let new = SnapshotState::new(tables.map(|(schema, table)| (&**schema, &**table)));
        match self.store.load().await? {
            Some(kept) => new.resumed(kept, self.settings.mode),
            None => Ok(new),
        }
    }

    fn phase(&self, done: bool) {
        self.status.send_modify(|status| {
            status.phase = match done {
                true => SnapshotPhase::Streaming,
                false => SnapshotPhase::Reading {
                    table: String::new(),
                },
            }
        });
    }

    async fn follow(&mut self, run: &mut Run, reader: Reader, mut done: bool) -> SnapshotEnd {
        let reading = reader.run();
        tokio::pin!(reading);
        let connector = run.connector.clone();
        let ended = connector.send(WaitForEnd);
        tokio::pin!(ended);
        let mut told = false;
        loop {
            let idle = run.handling.is_none();
            let lost_at = run.last + self.settings.marker_timeout;
            tokio::select! {
                end = &mut ended => return match end {
                    Ok(ConnectorEnd::Stopped) | Err(_) => SnapshotEnd::Stopped,
                    Ok(ConnectorEnd::Failed(error)) => SnapshotEnd::Failed(error.into()),
                    Ok(ConnectorEnd::RecipientClosed) => SnapshotEnd::RecipientClosed,
                },
                handled = handled(&mut run.handling), if !idle => {
                    run.handling = None;
                    if let Some(end) = self.finish(run, handled) {
                        return end;
                    }
                }
                Some(job) = run.jobs.recv(), if idle && (told || !run.machine.holds_batches()) => {
                    if run.machine.holds_batches() {
                        // It is stopped before all rows are read: the batch is given back.
                        let _ = job.reply.send(Err("the snapshot is stopped".into()));
                    } else if let Err(error) = self.begin(run, job) {
                        return SnapshotEnd::Failed(error);
                    }
                }
                Some(request) = run.requests.recv(), if idle => self.serve(run, request),
                Some(trouble) = run.troubles.recv() => {
                    self.status.send_modify(|status| status.error = trouble);
                }
                read = &mut reading, if !done && !told => match read {
                    Ok(()) => {
                        done = true;
                        self.phase(done);
                    }
                    Err(error) => return SnapshotEnd::Failed(error),
                },
                () = tokio::time::sleep_until(lost_at), if idle && run.settle.is_some() => {
                    run.look_for_watermarks().await;
                }
                () = stopped(self.stopping.clone()), if !told => {
                    told = true;
                    // Its end is awaited above.
                    let stop = run.connector.clone();
                    actix::spawn(async move { stop.send(Stop).await });
                }
            }
        }
    }

    /// Merges a batch and hands it on.
    fn begin(&self, run: &mut Run, job: Job) -> Result<(), SnapshotError> {
        let Job { message, reply } = job;
        let entries: Result<Vec<Entry>, _> = message.entries().collect();
        let mut next = run.machine.clone();
        let merged = next.merge(entries?)?;
        // Kept before the handler may have a chunk's rows: a change of them must not be dropped
        // after a crash.
        run.machine.attempt(&merged.settled);
        let kept = Kept {
            before: (!merged.settled.is_empty()).then(|| run.machine.state().clone()),
            after: (next.state() != run.machine.state()).then(|| next.state().clone()),
        };
        let outgoing = Message::new(message.id(), message.destination().into(), merged.entries);
        let settled = merged.settled;
        self.hand_on(run, next, kept, outgoing, What::Batch { settled, reply });
        Ok(())
    }

    /// Hands rows of a moment on.
    fn rows(
        &self,
        run: &mut Run,
        moments: Moments,
        rows: &HandOut,
        reply: oneshot::Sender<HandedOut>,
    ) {
        let (mut before, table) = (moments, rows.table);
        before.attempt(table, rows.to.clone(), &rows.moment);
        let mut next = before.clone();
        next.handed_out(table, rows.to.clone());
        let kept = Kept {
            before: Some(before.state().clone()),
            after: Some(next.state().clone()),
        };
        let named = &before.state().tables[table];
        let entries = entries::inserts(
            &named.schema,
            &named.table,
            &rows.at,
            rows.rows.iter().cloned(),
        );
        let outgoing = Message::new(run.next_id, run.destination.clone(), entries);
        let count = rows.rows.len();
        run.machine = Machine::Moments(before);
        self.hand_on(
            run,
            Machine::Moments(next),
            kept,
            outgoing,
            What::Rows { count, reply },
        );
    }

    fn hand_on(&self, run: &mut Run, next: Machine, kept: Kept, outgoing: Message, what: What) {
        let (store, recipient) = (self.store.clone(), self.recipient.clone());
        run.handling = Some(Box::pin(async move {
            let result = hand_on(&*store, &recipient, kept, outgoing).await;
            Handled { next, what, result }
        }));
    }

    fn finish(&self, run: &mut Run, handled: Handled) -> Option<SnapshotEnd> {
        let Handled { next, what, result } = handled;
        run.last = Instant::now();
        let Ok(result) = result else {
            return Some(SnapshotEnd::RecipientClosed);
        };
        if result.is_ok() {
            run.machine = next;
        }
        match what {
            What::Batch { settled, reply } => {
                if result.is_ok() {
                    self.settled(run, settled);
                }
                // The connector may have gone on without the answer: the batch comes again then.
                let _ = reply.send(result);
            }
            What::Rows { count, reply } => {
                let (epoch, id) = (run.next_id.epoch(), run.next_id.id());
                let outcome = match result.map_err(decode_error) {
                    Ok(()) => {
                        run.next_id = BatchId::new(epoch, id + 1);
                        self.chunk_is_done(count);
                        HandedOut::Done
                    }
                    Err(Ok(error)) => return Some(SnapshotEnd::Failed(error.into())),
                    Err(Err(error)) => {
                        run.next_id = BatchId::new(epoch + 1, id);
                        HandedOut::Refused(error.to_string())
                    }
                };
                let _ = reply.send(outcome);
            }
        }
        None
    }

    fn settled(&self, run: &mut Run, settled: Vec<Settled>) {
        for settled in settled {
            match &settled {
                Settled::Done { rows, .. } => self.chunk_is_done(*rows),
                Settled::Again { .. } => self.status.send_modify(|status| status.read_again += 1),
            }
            run.settled = Some(settled);
        }
        run.tell_reader();
    }

    fn chunk_is_done(&self, rows: usize) {
        self.status.send_modify(|status| {
            status.chunks += 1;
            status.rows += u64::try_from(rows).unwrap_or(u64::MAX);
        });
    }

    /// The reader waits for each answer; if it is gone, so is the need of one.
    fn serve(&self, run: &mut Run, request: Request) {
        match run.machine.clone() {
            Machine::Watermarks(merge) => self.serve_watermarks(run, merge, request),
            Machine::Moments(moments) => self.serve_moments(run, moments, request),
        }
    }

    fn serve_watermarks(&self, run: &mut Run, mut merge: Merge, request: Request) {
        match request {
            Request::Next(reply) => {
                let next = merge.next().map(|(index, table)| Next::of(index, table));
                if let Some(next) = &next {
                    self.reads(&next.schema, &next.name);
                }
                let _ = reply.send(next);
            }
            Request::Begin(chunk, reply) => {
                run.settled = None;
                let _ = reply.send(merge.begin(chunk));
            }
            Request::Loaded(rows, reply) => {
                merge.loaded(rows.at, rows.rows, rows.last);
                let _ = reply.send(());
            }
            Request::Settle(reply) => {
                run.settle = Some(reply);
                run.last = Instant::now();
                run.tell_reader();
            }
            // The other way's.
            Request::Rest(_) | Request::Table(..) | Request::HandOut(..) => {}
        }
        run.machine = Machine::Watermarks(merge);
    }

    fn serve_moments(&self, run: &mut Run, mut moments: Moments, request: Request) {
        match request {
            Request::Rest(reply) => {
                let rest = moments.rest().map(|(index, table)| Next::of(index, table));
                let _ = reply.send(rest.collect());
            }
            Request::Table(index, key, reply) => {
                let begun = moments.begin(index, &key);
                run.machine = Machine::Moments(moments);
                let _ = reply.send(begun);
            }
            Request::HandOut(rows, reply) => {
                let table = &moments.state().tables[rows.table];
                self.reads(&table.schema, &table.table);
                self.rows(run, moments, &rows, reply);
            }
            // The other way's.
            Request::Next(_) | Request::Begin(..) | Request::Loaded(..) | Request::Settle(_) => {}
        }
    }

    fn reads(&self, schema: &str, table: &str) {
        let table = format!("{schema}.{table}");
        self.status
            .send_modify(|status| status.phase = SnapshotPhase::Reading { table });
    }
}

/// What one run has at hand.
struct Run {
    machine: Machine,
    destination: Arc<str>,
    /// The name of the next rows of a moment, as a batch. Another epoch when they were refused, as
    /// with batches that are given back.
    next_id: BatchId,
    connector: Addr<CanalConnector>,
    /// The reader waits for what becomes of its chunk.
    settle: Option<oneshot::Sender<Outcome>>,
    /// What has become of it.
    settled: Option<Settled>,
    /// When something came through Canal last, or the waiting began.
    last: Instant,
    handling: Option<Handling>,
    jobs: mpsc::Receiver<Job>,
    requests: mpsc::Receiver<Request>,
    troubles: mpsc::UnboundedReceiver<Option<SnapshotError>>,
}

impl Run {
    fn tell_reader(&mut self) {
        if self.settled.is_some()
            && let Some(reply) = self.settle.take()
            && let Some(settled) = self.settled.take()
        {
            let _ = reply.send(Outcome::Settled(settled));
        }
    }

    /// Nothing has come for a while: watermarks are lost only if Canal's server has nothing.
    async fn look_for_watermarks(&mut self) {
        self.last = Instant::now();
        let status = self.connector.send(GetStatus).await;
        let idle = status.is_ok_and(|status| {
            status.caught_up && matches!(status.state, ConnectorState::Streaming)
        });
        if idle && let Some(reply) = self.settle.take() {
            if let Machine::Watermarks(merge) = &mut self.machine {
                merge.abandon();
            }
            let _ = reply.send(Outcome::Lost);
        }
    }
}

async fn handled(handling: &mut Option<Handling>) -> Handled {
    match handling {
        Some(handling) => handling.await,
        None => std::future::pending().await,
    }
}

/// Keeps the state around the handling of what may have rows.
async fn hand_on<S: SnapshotStore>(
    store: &S,
    recipient: &Recipient<Batch>,
    kept: Kept,
    message: Message,
) -> Result<BatchResult, MailboxError> {
    if let Some(before) = &kept.before
        && let Err(error) = store.save(before).await
    {
        return Ok(Err(error.into()));
    }
    if !message.is_empty()
        && let Err(error) = recipient.send(Batch { message }).await?
    {
        return Ok(Err(error));
    }
    match &kept.after {
        Some(after) => Ok(store.save(after).await.map_err(Into::into)),
        None => Ok(Ok(())),
    }
}

/// Resolves when it is to stop.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error is the actor's end.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
