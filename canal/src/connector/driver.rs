//! The task behind the connector actor: it owns the connection and carries out what [`Delivery`]
//! says.

mod stream;

use std::any::Any;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio::time::Instant;

use self::stream::{Handled, Probing, Stream};
use super::actor::Batch;
use super::backoff::Backoff;
use super::delivery::{Delivery, Desired, Step};
use super::measure::ConnectorMetrics;
use super::rows::RowSink;
use super::settings::CanalConnectorSettings;
use super::simple::SimpleCanalConnector;
use super::spans::{BatchState, Spans};
use super::stall::{BinlogAnswer, BinlogProbe, StallWatch};
use super::status::{ConnectorEnd, ConnectorState, ConnectorStatus};
use crate::entry::{Entry, Position};
use crate::error::CanalError;
use crate::message::{BatchId, Message};
use crate::role::ClientRole;
use crate::row::{RowError, rows_in};
use crate::transaction::{CommittedTransaction, TransactionAssembler};

/// The first pause between two questions while nothing comes.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Who handles, and what.
#[derive(Clone)]
pub(super) enum Sink {
    Batches(Recipient<Batch>),
    Transactions(Recipient<CommittedTransaction>),
    Rows(Arc<dyn RowSink>),
}

/// Who is asked how far the binlog goes.
pub(super) struct StallProbe {
    pub(super) probe: Arc<dyn BinlogProbe>,
    pub(super) limit: Duration,
}

/// Why a connection's work ended.
enum Ended {
    Connection(CanalError),
    Connector(ConnectorEnd),
}

impl From<CanalError> for Ended {
    fn from(error: CanalError) -> Self {
        Self::Connection(error)
    }
}

/// The task's state. It survives connections.
pub(super) struct Driver {
    pub(super) settings: CanalConnectorSettings,
    pub(super) sink: Sink,
    pub(super) probe: Option<StallProbe>,
    pub(super) desired: watch::Receiver<Desired>,
    pub(super) status: watch::Sender<ConnectorStatus>,
    pub(super) metrics: ConnectorMetrics,
    /// The status that the metrics have.
    pub(super) measured: ConnectorStatus,
    pub(super) reconnects: Backoff,
    pub(super) redeliveries: Backoff,
}

impl Driver {
    /// Works until the connector is stopped or can't go on. A panic within is an end of the
    /// connection like others: what was not acknowledged comes again.
    pub(super) async fn run(mut self, mut connector: SimpleCanalConnector) -> ConnectorEnd {
        loop {
            let work = AssertUnwindSafe(self.work(&mut connector)).catch_unwind();
            let ended = work.await;
            self.measure();
            let ended = ended.unwrap_or_else(|panic| {
                let text = panic_text(&*panic);
                tracing::error!(
                    panic = text,
                    "the connector's task panicked and begins anew"
                );
                self.status.send_modify(|status| status.panics += 1);
                Ended::Connection(CanalError::Panicked(text))
            });
            let error = match ended {
                Ended::Connector(end) => {
                    connector.disconnect().await;
                    return end;
                }
                Ended::Connection(error) => error,
            };
            connector.close_connection().await;
            if matches!(error, CanalError::Standby { .. }) {
                // No failure: another client's turn.
                continue;
            }
            let wait = match error.is_retryable() {
                true => self.reconnects.failed(fastrand::f64()),
                false => None,
            };
            let Some(wait) = wait else {
                // It gives up its role too, so that a standby gets its turn.
                connector.disconnect().await;
                return ConnectorEnd::Failed(error);
            };
            let failures = self.reconnects.failures();
            tracing::warn!(%error, failures, ?wait, "the connection to the Canal server ended");
            self.state(ConnectorState::BackingOff {
                error,
                failures,
                wait,
            });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stopping(self.desired.clone()) => {
                    connector.disconnect().await;
                    return ConnectorEnd::Stopped;
                }
            }
        }
    }

    /// Brings the metrics up to the status.
    fn measure(&mut self) {
        let status = self.status.borrow();
        self.metrics.show(&self.measured, &status);
        self.measured.clone_from(&status);
    }

    fn state(&self, state: ConnectorState) {
        self.status.send_modify(|status| status.state = state);
    }

    /// One connection, from dialling to its end.
    async fn work(&mut self, connector: &mut SimpleCanalConnector) -> Ended {
        self.state(ConnectorState::Connecting);
        let desired = self.desired.clone();
        let subscribed = async {
            if connector.connect().await? == ClientRole::Standby {
                self.state(ConnectorState::Standby);
                connector.wait_role().await?;
                self.state(ConnectorState::Connecting);
                connector.connect().await?;
            }
            connector.subscribe(&self.settings.filter).await
        };
        tokio::select! {
            result = subscribed => if let Err(error) = result { return error.into() },
            () = stopping(desired) => return Ended::Connector(ConnectorEnd::Stopped),
        }
        self.status.send_modify(|status| {
            status.connections += 1;
            status.address = connector.address().map(str::to_owned);
            status.caught_up = false;
        });
        let mut stream = Stream {
            delivery: Delivery::new(self.settings.window),
            asked: false,
            assembler: TransactionAssembler::new(self.settings.transaction_limit),
            spans: Spans::default(),
            handling: FuturesUnordered::new(),
            unacknowledged: VecDeque::new(),
            pause: FIRST_PAUSE,
            since: Instant::now(),
            stop_at: None,
            stall: self
                .probe
                .as_ref()
                .map(|probe| StallWatch::new(probe.limit, now())),
            probing: FuturesUnordered::new(),
            keep_alive: self.settings.keep_alive.min(connector.silence_limit() / 3),
        };
        let ended = self.stream(connector, &mut stream).await;
        // What is being handled ends before the same rows are delivered again.
        let rest = async { while stream.handling.next().await.is_some() {} };
        if !matches!(ended, Ended::Connector(_)) {
            connector.close_connection().await;
            tokio::select! {
                () = rest => {}
                () = stopping(self.desired.clone()) => {}
            }
        }
        self.status.send_modify(|status| {
            status.address = None;
            status.outstanding_batches = 0;
            status.oldest_since = None;
        });
        ended
    }

    async fn stream(&mut self, connector: &mut SimpleCanalConnector, stream: &mut Stream) -> Ended {
        loop {
            if let Err(ended) = self.advance(connector, stream).await {
                return ended;
            }
            if stream.since.elapsed() >= self.settings.stable_after {
                self.reconnects.reset();
            }
        }
    }

    async fn advance(
        &mut self,
        connector: &mut SimpleCanalConnector,
        stream: &mut Stream,
    ) -> Result<(), Ended> {
        let desired = *self.desired.borrow_and_update();
        self.show(desired, stream);
        self.measure();
        let step = match stream.delivery.next(desired) {
            // What was asked for is on its way, whatever is desired since.
            Step::Wait | Step::Finished if stream.asked => Step::Fetch,
            step => step,
        };
        match step {
            Step::Acknowledge(batch) => self.acknowledge(connector, stream, batch).await,
            Step::RollBack => {
                connector.rollback().await?;
                stream.asked = false;
                stream.delivery.rolled_back();
                stream.unacknowledged.clear();
                self.status.send_modify(|status| {
                    status.rollbacks += 1;
                    status.oldest_since = None;
                });
                stream.spans.clear();
                stream.assembler.clear();
                let wait = self.redeliveries.failed(fastrand::f64());
                self.wait(stream, wait.unwrap_or(self.settings.longest_back_off))
                    .await
            }
            Step::Fetch => self.fetch(connector, stream).await,
            Step::Wait => {
                if connector.unconfirmed_acks() > 0 {
                    connector.confirm_acks().await?;
                }
                let keep_alive = stream.keep_alive;
                let started = Instant::now();
                self.wait(stream, keep_alive).await?;
                if started.elapsed() >= keep_alive {
                    connector.confirm_acks().await?;
                }
                Ok(())
            }
            Step::Finished => {
                connector.confirm_acks().await?;
                Err(Ended::Connector(ConnectorEnd::Stopped))
            }
        }
    }

    async fn acknowledge(
        &mut self,
        connector: &mut SimpleCanalConnector,
        stream: &mut Stream,
        batch: BatchId,
    ) -> Result<(), Ended> {
        connector.ack(batch).await?;
        stream.delivery.acknowledged(batch);
        let acknowledged = stream.acknowledged(batch);
        self.status.send_modify(|status| {
            status.acknowledged_batches += acknowledged;
            status.oldest_since = stream.oldest_since();
        });
        self.redeliveries.reset();
        Ok(())
    }

    /// Fetches a batch and pushes it. If the window has room for yet another, that one is asked for
    /// before: the server is at work on it while this one is decoded.
    async fn fetch(
        &mut self,
        connector: &mut SimpleCanalConnector,
        stream: &mut Stream,
    ) -> Result<(), Ended> {
        stream.asked = false;
        let fetch_size = self.settings.fetch_size;
        let Some(message) = connector.get_without_ack(fetch_size, None).await? else {
            self.nothing_came(stream);
            let pause = stream.pause;
            stream.pause = (pause * 2).min(self.settings.longest_poll_pause);
            return self.wait(stream, pause).await;
        };
        // Handlers that have ended meanwhile make room.
        while let Some(Some(handled)) = stream.handling.next().now_or_never() {
            self.handled(stream, handled)?;
        }
        let desired = *self.desired.borrow();
        if let Step::Acknowledge(batch) = stream.delivery.next(desired) {
            self.acknowledge(connector, stream, batch).await?;
        }
        if desired == Desired::Running && stream.delivery.has_room_behind_another() {
            connector.ask(fetch_size).await?;
            stream.asked = true;
        }
        Ok(self.push(message, stream)?)
    }

    /// Waits for a handler, a command, or the time.
    async fn wait(&mut self, stream: &mut Stream, limit: Duration) -> Result<(), Ended> {
        if *self.desired.borrow() == Desired::Stopping {
            let limit = self.settings.stop_timeout;
            stream.stop_at.get_or_insert_with(|| Instant::now() + limit);
        }
        let until = Instant::now() + limit;
        let until = stream.stop_at.map_or(until, |stop_at| until.min(stop_at));
        tokio::select! {
            Some(handled) = stream.handling.next() => self.handled(stream, handled)?,
            Some(answer) = stream.probing.next() => self.probed(stream, answer),
            changed = self.desired.changed() => if changed.is_err() {
                return Err(Ended::Connector(ConnectorEnd::Stopped));
            },
            () = tokio::time::sleep_until(until) => {
                if stream.stop_at.is_some_and(|stop_at| stop_at <= Instant::now()) {
                    tracing::warn!("a handler was still working when the connector was stopped");
                    return Err(Ended::Connector(ConnectorEnd::Stopped));
                }
            }
        }
        Ok(())
    }

    /// Asks the database from time to time whether there should have been something.
    fn nothing_came(&self, stream: &mut Stream) {
        let stalled = match (&mut stream.stall, &self.probe) {
            (Some(stall), Some(probe)) => {
                if stall.nothing_came(now()) {
                    stream.probing.push(ask(&probe.probe, stall.limit()));
                }
                stall.stalled(now()).is_some()
            }
            _ => false,
        };
        self.status.send_if_modified(|status| {
            std::mem::replace(&mut status.caught_up, !stalled) == stalled
        });
    }

    fn probed(&self, stream: &mut Stream, answer: BinlogAnswer) {
        let problem = answer.as_ref().err().map(ToString::to_string);
        self.status.send_if_modified(|status| {
            let differs = status.probe_problem != problem;
            if differs && let Some(problem) = &problem {
                tracing::warn!(problem, "the database does not say how far its binlog goes");
            }
            status.probe_problem = problem;
            differs
        });
        if let Some(stall) = &mut stream.stall {
            stall.probed(now(), answer.ok());
        }
    }

    fn push(&self, message: Message, stream: &mut Stream) -> Result<(), CanalError> {
        stream.pause = FIRST_PAUSE;
        if let Some(stall) = &mut stream.stall {
            stall.reset(now());
        }
        let (id, entries) = (message.id(), message.len());
        let rows: usize = message.raw_entries().iter().map(|raw| rows_in(raw)).sum();
        stream.unacknowledged.push_back((id, now()));
        let last = message.raw_entries().last().cloned();
        let position = last
            .and_then(|raw| Entry::decode(message.destination().into(), raw).ok())
            .map(|entry| entry.position());
        let ended = match &self.sink {
            Sink::Batches(_) | Sink::Rows(_) => Vec::new(),
            Sink::Transactions(_) => stream.assembler.push(&message)?,
        };
        self.status.send_modify(|status| {
            status.batches += 1;
            status.entries += u64::try_from(entries).unwrap_or(u64::MAX);
            status.rows += u64::try_from(rows).unwrap_or(u64::MAX);
            status.oldest_since = stream.oldest_since();
            status.outstanding_batches += 1;
            status.caught_up = false;
            status.last_execute_time = position.as_ref().map(|position| position.execute_time);
        });
        let decoded = match &self.sink {
            Sink::Rows(rows) => Some(rows.push(&message).inspect_err(|_| self.undecodable(1))?),
            _ => None,
        };
        stream.delivery.pushed(id);
        match &self.sink {
            Sink::Rows(_) => {
                if let Some(pushed) = decoded {
                    self.undecodable(pushed.undecodable);
                    stream.spans.push(id, [id], None);
                    stream.handle(id, id, position, pushed.request);
                }
            }
            Sink::Batches(recipient) => {
                stream.spans.push(id, [id], None);
                let request = recipient.send(Batch { message });
                stream.handle(id, id, position, request);
            }
            Sink::Transactions(recipient) => {
                let firsts = ended.iter().map(CommittedTransaction::first_batch);
                let open_since = stream.assembler.open_since();
                stream.spans.push(id, firsts, open_since);
                for transaction in ended {
                    let first = transaction.first_batch();
                    let position = transaction.entries().last().map(Entry::position);
                    stream.handle(first, id, position, recipient.send(transaction));
                }
                self.settle(stream, None);
            }
        }
        Ok(())
    }

    fn handled(&self, stream: &mut Stream, handled: Handled) -> Result<(), Ended> {
        let Handled {
            first,
            last,
            position,
            outcome,
        } = handled;
        let succeeded = match outcome {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                let error = match decode_error(error) {
                    Ok(error) => {
                        self.undecodable(1);
                        return Err(Ended::Connector(ConnectorEnd::Failed(error)));
                    }
                    Err(error) => error,
                };
                tracing::warn!(batch = %last, %error, "a batch was not handled and comes again");
                false
            }
            Err(_) => return Err(Ended::Connector(ConnectorEnd::RecipientClosed)),
        };
        stream.spans.handled(first, last, succeeded);
        self.settle(stream, position.filter(|_| succeeded));
        Ok(())
    }

    /// Tells the delivery what has become of each batch.
    fn settle(&self, stream: &mut Stream, position: Option<Position>) {
        let states = stream.spans.states();
        let count = |wanted: bool| {
            let settled = states.iter().filter(|(_, state)| {
                matches!(state, BatchState::Settled { succeeded } if *succeeded == wanted)
            });
            settled.count()
        };
        let (succeeded, failed) = (count(true), count(false));
        self.status.send_modify(|status| {
            let settled = succeeded + failed;
            status.outstanding_batches = status.outstanding_batches.saturating_sub(settled);
            status.handled_batches += u64::try_from(succeeded).unwrap_or(u64::MAX);
            status.failed_batches += u64::try_from(failed).unwrap_or(u64::MAX);
            if position.is_some() {
                status.position = position;
            }
        });
        for (batch, state) in states {
            match state {
                BatchState::Working => stream.delivery.set_open(batch, false),
                BatchState::Open => stream.delivery.set_open(batch, true),
                BatchState::Settled { succeeded } => stream.delivery.handled(batch, succeeded),
            }
        }
    }

    fn undecodable(&self, rows: usize) {
        if rows > 0 {
            let rows = u64::try_from(rows).unwrap_or(u64::MAX);
            self.status
                .send_modify(|status| status.undecodable_rows += rows);
        }
    }

    fn show(&self, desired: Desired, stream: &mut Stream) {
        if let (Desired::Paused, Some(stall)) = (desired, &mut stream.stall) {
            // Nothing is asked for, so nothing comes.
            stall.reset(now());
        }
        let stalled = stream.stall.as_ref().and_then(|stall| stall.stalled(now()));
        let state = match (desired, stalled) {
            (Desired::Running, None) => ConnectorState::Streaming,
            (Desired::Running, Some(binlog)) => ConnectorState::Stalled {
                binlog: binlog.clone(),
            },
            (Desired::Paused | Desired::Stopping, _) => ConnectorState::Paused,
        };
        self.status.send_if_modified(|status| {
            let differs = status.state != state;
            let (stalls, stalled) = (
                matches!(state, ConnectorState::Stalled { .. }),
                matches!(status.state, ConnectorState::Stalled { .. }),
            );
            if stalls && !stalled {
                status.stalls += 1;
                status.caught_up = false;
                tracing::warn!(
                    ?state,
                    "the Canal server delivers nothing and the binlog grows"
                );
            }
            status.state = state;
            status.pause(desired == Desired::Paused);
            differs
        });
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// One question to the database, with its limit.
fn ask(probe: &Arc<dyn BinlogProbe>, limit: Duration) -> Probing {
    let probe = Arc::clone(probe);
    Box::pin(async move {
        let answer = tokio::time::timeout(limit, probe.binlog_position()).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {limit:?}").into()))
    })
}

/// The row that a handler could not decode, if that is what went wrong: it never will.
pub(crate) fn decode_error(
    error: Box<dyn std::error::Error + Send + Sync>,
) -> Result<CanalError, Box<dyn std::error::Error + Send + Sync>> {
    match error.downcast::<CanalError>() {
        Ok(error) if matches!(*error, CanalError::Row(_)) => Ok(*error),
        Ok(error) => Err(error),
        Err(error) => error.downcast::<RowError>().map(|e| CanalError::Row(*e)),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned())
}

/// Resolves when the connector is to stop, or its actor is gone.
async fn stopping(mut desired: watch::Receiver<Desired>) {
    // An error says that the actor is gone.
    let _ = desired
        .wait_for(|desired| *desired == Desired::Stopping)
        .await;
}
