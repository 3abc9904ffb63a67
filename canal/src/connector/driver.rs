//! The task behind the connector actor: it owns the connection and carries out what [`Delivery`]
//! says.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use actix::{MailboxError, Recipient};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Instant;

use super::actor::{Batch, BatchResult};
use super::backoff::Backoff;
use super::delivery::{Delivery, Desired, Step};
use super::settings::CanalConnectorSettings;
use super::simple::SimpleCanalConnector;
use super::status::{ConnectorEnd, ConnectorState, ConnectorStatus};
use crate::entry::{Entry, Position};
use crate::error::CanalError;
use crate::message::{BatchId, Message};
use crate::role::ClientRole;

/// The first pause between two questions while nothing comes.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

type Handling = Pin<Box<dyn Future<Output = (BatchId, Option<Position>, Outcome)>>>;
type Outcome = Result<BatchResult, MailboxError>;

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
    pub(super) recipient: Recipient<Batch>,
    pub(super) desired: watch::Receiver<Desired>,
    pub(super) status: watch::Sender<ConnectorStatus>,
    pub(super) reconnects: Backoff,
    pub(super) redeliveries: Backoff,
}

impl Driver {
    /// Works until the connector is stopped or can't go on.
    pub(super) async fn run(mut self, mut connector: SimpleCanalConnector) -> ConnectorEnd {
        loop {
            let error = match self.work(&mut connector).await {
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
            if !error.is_retryable() {
                return ConnectorEnd::Failed(error);
            }
            let Some(wait) = self.reconnects.failed(fastrand::f64()) else {
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
            handling: FuturesUnordered::new(),
            pause: FIRST_PAUSE,
            since: Instant::now(),
            stop_at: None,
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
        self.show(desired);
        match stream.delivery.next(desired) {
            Step::Acknowledge(batch) => {
                connector.ack(batch).await?;
                stream.delivery.acknowledged(batch);
                self.redeliveries.reset();
                Ok(())
            }
            Step::RollBack => {
                connector.rollback().await?;
                stream.delivery.rolled_back();
                let wait = self.redeliveries.failed(fastrand::f64());
                self.wait(stream, wait.unwrap_or(self.settings.longest_back_off))
                    .await
            }
            Step::Fetch => match connector
                .get_without_ack(self.settings.fetch_size, None)
                .await?
            {
                Some(message) => {
                    self.push(message, stream);
                    Ok(())
                }
                None => {
                    self.status
                        .send_if_modified(|status| !std::mem::replace(&mut status.caught_up, true));
                    let pause = stream.pause;
                    stream.pause = (pause * 2).min(self.settings.longest_poll_pause);
                    self.wait(stream, pause).await
                }
            },
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

    /// Waits for a handler, a command, or the time.
    async fn wait(&mut self, stream: &mut Stream, limit: Duration) -> Result<(), Ended> {
        if *self.desired.borrow() == Desired::Stopping {
            let limit = self.settings.stop_timeout;
            stream.stop_at.get_or_insert_with(|| Instant::now() + limit);
        }
        let until = Instant::now() + limit;
        let until = stream.stop_at.map_or(until, |stop_at| until.min(stop_at));
        tokio::select! {
            Some((batch, position, outcome)) = stream.handling.next() => {
                self.handled(stream, batch, position, outcome)?;
            }
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

    fn push(&self, message: Message, stream: &mut Stream) {
        stream.pause = FIRST_PAUSE;
        let (id, entries) = (message.id(), message.len());
        let last = message.raw_entries().last().cloned();
        let position = last
            .and_then(|raw| Entry::decode(message.destination().into(), raw).ok())
            .map(|entry| entry.position());
        self.status.send_modify(|status| {
            status.batches += 1;
            status.entries += u64::try_from(entries).unwrap_or(u64::MAX);
            status.outstanding_batches += 1;
            status.caught_up = false;
            status.last_execute_time = position.as_ref().map(|position| position.execute_time);
        });
        stream.delivery.pushed(id);
        let request = self.recipient.send(Batch { message });
        stream
            .handling
            .push(Box::pin(async move { (id, position, request.await) }));
    }

    fn handled(
        &self,
        stream: &mut Stream,
        batch: BatchId,
        position: Option<Position>,
        outcome: Outcome,
    ) -> Result<(), Ended> {
        let succeeded = match outcome {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%batch, %error, "a batch was not handled and comes again");
                false
            }
            Err(_) => return Err(Ended::Connector(ConnectorEnd::RecipientClosed)),
        };
        self.status.send_modify(|status| {
            status.outstanding_batches = status.outstanding_batches.saturating_sub(1);
            if succeeded {
                status.handled_batches += 1;
                status.position = position;
            } else {
                status.failed_batches += 1;
            }
        });
        stream.delivery.handled(batch, succeeded);
        Ok(())
    }

    fn show(&self, desired: Desired) {
        let state = match desired {
            Desired::Running => ConnectorState::Streaming,
            Desired::Paused | Desired::Stopping => ConnectorState::Paused,
        };
        self.status.send_if_modified(|status| {
            let differs = status.state != state;
            status.state = state;
            differs
        });
    }
}

/// One connection's work.
struct Stream {
    delivery: Delivery,
    handling: FuturesUnordered<Handling>,
    /// Before the next question while nothing comes.
    pause: Duration,
    /// When the subscription stood.
    since: Instant,
    /// When handlers are no longer waited for.
    stop_at: Option<Instant>,
    keep_alive: Duration,
}

/// Resolves when the connector is to stop, or its actor is gone.
async fn stopping(mut desired: watch::Receiver<Desired>) {
    // An error says that the actor is gone.
    let _ = desired
        .wait_for(|desired| *desired == Desired::Stopping)
        .await;
}
