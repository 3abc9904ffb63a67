//! The connector that pushes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext as _, AsyncContext as _, Context, Handler, Message as ActixMessage,
    MessageResult, Recipient, ResponseFuture, WrapFuture as _,
};
use lockkeeper_core::status::StatusSource;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::backoff::Backoff;
use super::delivery::Desired;
use super::driver::{Driver, Sink, StallProbe};
use super::measure::ConnectorMetrics;
use super::pausing;
use super::rows::{DecodedBatch, OnDecodeError, RowDecoding, TypedSink};
use super::settings::CanalConnectorSettings;
use super::simple::SimpleCanalConnector;
use super::stall::BinlogProbe;
use super::status::{ConnectorEnd, ConnectorState, ConnectorStatus, ConnectorStatusSource};
use crate::error::CanalError;
use crate::message::Message;
use crate::transaction::CommittedTransaction;

/// What a handler says about a batch: `Ok` acknowledges it, `Err` has it delivered again. A
/// [`RowError`](crate::RowError) in it would come again for ever: it ends the connector with
/// [`CanalError::Row`].
pub type BatchResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A batch for the handler.
#[derive(Debug, Clone, ActixMessage)]
#[rtype(result = "BatchResult")]
#[non_exhaustive]
pub struct Batch {
    /// Its entries.
    pub message: Message,
}

/// No batch is fetched until [`Resume`]; those with the handler are finished and acknowledged,
/// and the connection is kept.
#[derive(Debug, Clone, Copy, ActixMessage)]
#[rtype(result = "()")]
pub struct Pause;

/// Goes on after [`Pause`].
#[derive(Debug, Clone, Copy, ActixMessage)]
#[rtype(result = "()")]
pub struct Resume;

/// Asks for a [`ConnectorStatus`].
#[derive(Debug, Clone, Copy, ActixMessage)]
#[rtype(result = "ConnectorStatus")]
pub struct GetStatus;

/// Stops in order: no further batch is fetched, handlers are waited for
/// ([`CanalConnectorSettings::with_stop_timeout`]), their acknowledgements are confirmed. Resolves
/// when the connector has ended.
#[derive(Debug, Clone, Copy, ActixMessage)]
#[rtype(result = "ConnectorEnd")]
pub struct Stop;

/// Resolves when the connector has ended, by itself or because it was stopped.
#[derive(Debug, Clone, Copy, ActixMessage)]
#[rtype(result = "ConnectorEnd")]
pub struct WaitForEnd;

/// An actor that follows a destination and pushes its batches to a handler.
///
/// It connects, subscribes and connects again by itself, with growing waits. Each [`Batch`] goes to
/// the handler's mailbox; when the handler's result is `Ok` the batch is acknowledged, when it is
/// `Err` it is rolled back with all later ones and delivered again after a wait. So a batch is
/// handled **at least once**, and again after every broken connection: make the handler idempotent,
/// or use a consistent region. While a handler is slow the connection is kept alive, and no
/// more than [`CanalConnectorSettings::with_window`] batches are fetched ahead.
///
/// The actor stops when its last address is dropped; what is with the handler then comes again
/// after the next start. Stop it with [`Stop`] to finish in order.
///
/// ```no_run
/// use actix::prelude::*;
/// use lockkeeper_canal::{
///     Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings,
///     ClientIdentity, Filter,
/// };
///
/// struct Printer;
/// impl Actor for Printer { type Context = Context<Self>; }
/// impl Handler<Batch> for Printer {
///     type Result = BatchResult;
///     fn handle(&mut self, batch: Batch, _: &mut Context<Self>) -> BatchResult {
///         for entry in batch.message.entries() {
///             println!("{:?}", entry?);
///         }
///         Ok(())
///     }
/// }
///
/// # fn start() -> Result<(), lockkeeper_canal::CanalError> {
/// let connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
///     .address("127.0.0.1:11111")
///     .build()?;
/// let settings = CanalConnectorSettings::default().with_filter(Filter::table("shop", "orders"));
/// let addr = CanalConnector::new(connector, settings, Printer.start().recipient())?.start();
/// # let _ = addr; Ok(()) }
/// ```
pub struct CanalConnector {
    destination: String,
    desired: watch::Sender<Desired>,
    status: watch::Receiver<ConnectorStatus>,
    start: Option<(Driver, SimpleCanalConnector)>,
}

impl CanalConnector {
    /// A connector that pushes batches to `recipient` once it is started.
    ///
    /// # Errors
    /// [`CanalError::InvalidArgument`] for settings that cannot work.
    pub fn new(
        connector: SimpleCanalConnector,
        settings: CanalConnectorSettings,
        recipient: Recipient<Batch>,
    ) -> Result<Self, CanalError> {
        Self::with_sink(connector, settings, Sink::Batches(recipient))
    }

    /// A connector that pushes whole transactions: one message each, in the order in which they
    /// were committed, never half of one. A batch is acknowledged when every transaction that has
    /// an entry in it is handled. A transaction has to fit into what the server holds
    /// unacknowledged, and into [`CanalConnectorSettings::with_transaction_limit`].
    ///
    /// # Errors
    /// [`CanalError::InvalidArgument`] for settings that cannot work.
    pub fn transactions(
        connector: SimpleCanalConnector,
        settings: CanalConnectorSettings,
        recipient: Recipient<CommittedTransaction>,
    ) -> Result<Self, CanalError> {
        Self::with_sink(connector, settings, Sink::Transactions(recipient))
    }

    /// A connector that pushes batches whose rows are decoded as `T`, by serde as in
    /// [`RowChange::rows`](crate::RowChange::rows). `decoding` says what becomes of a row that does
    /// not fit; by default the connector ends.
    ///
    /// # Errors
    /// [`CanalError::InvalidArgument`] for settings that cannot work; among them dead letters with
    /// a [window](CanalConnectorSettings::with_window) above 1: a batch waits until its dead letters
    /// are taken, and the next one would overtake it.
    pub fn rows<T: DeserializeOwned + Send + 'static>(
        connector: SimpleCanalConnector,
        settings: CanalConnectorSettings,
        decoding: RowDecoding,
        recipient: Recipient<DecodedBatch<T>>,
    ) -> Result<Self, CanalError> {
        if settings.window > 1 && matches!(decoding.on_error(), OnDecodeError::DeadLetter(_)) {
            return Err(CanalError::InvalidArgument(
                "dead letters need a window of 1, or batches would come out of order".to_owned(),
            ));
        }
        let sink = TypedSink {
            decoding,
            recipient,
        };
        Self::with_sink(connector, settings, Sink::Rows(Arc::new(sink)))
    }

    /// Reports [`ConnectorState::Stalled`] when the server delivers nothing for `limit` while the
    /// binlog grows on, as `probe` says. A minute is a good limit; below 20 s a server whose filter
    /// lets nothing pass can look stalled, because it shows its progress only every 5 s.
    ///
    /// Not for a server that follows another database than the probe asks, and not while a binlog
    /// grows by rotations alone: they are growth that no server delivers.
    pub fn with_binlog_probe(mut self, probe: impl BinlogProbe, limit: Duration) -> Self {
        if let Some((driver, _)) = &mut self.start {
            driver.probe = Some(StallProbe {
                probe: Arc::new(probe),
                limit: limit.max(Duration::from_millis(4)),
            });
        }
        self
    }

    fn with_sink(
        connector: SimpleCanalConnector,
        settings: CanalConnectorSettings,
        sink: Sink,
    ) -> Result<Self, CanalError> {
        settings.check()?;
        let (desired, desired_seen) = watch::channel(Desired::Running);
        let (status_shown, status) = watch::channel(ConnectorStatus::new());
        let (first, longest) = (settings.first_back_off, settings.longest_back_off);
        let destination = connector.identity().destination().to_owned();
        let driver = Driver {
            metrics: ConnectorMetrics::new(&destination),
            measured: ConnectorStatus::new(),
            reconnects: Backoff::new(first, longest, settings.reconnect_limit),
            redeliveries: Backoff::new(first, longest, None),
            settings,
            sink,
            probe: None,
            desired: desired_seen,
            status: status_shown,
        };
        Ok(Self {
            destination,
            desired,
            status,
            start: Some((driver, connector)),
        })
    }

    /// The destination that it follows.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Its status, as a watch that wakes at each change. [`GetStatus`] asks once.
    pub fn watch(&self) -> watch::Receiver<ConnectorStatus> {
        self.status.clone()
    }

    /// Its status for a console, with the actions `pause` and `resume`: register it with the service's
    /// [`StatusRegistry`](lockkeeper_core::status::StatusRegistry), which does not keep it alive.
    pub fn status_source(&self) -> Arc<dyn StatusSource> {
        Arc::new(ConnectorStatusSource {
            destination: self.destination.clone(),
            status: self.status.clone(),
            desired: self.desired.clone(),
        })
    }

    fn ended(&self) -> ResponseFuture<ConnectorEnd> {
        let mut status = self.status.clone();
        Box::pin(async move {
            let ended = |status: &ConnectorStatus| matches!(status.state, ConnectorState::Ended(_));
            match status
                .wait_for(ended)
                .await
                .map(|status| status.state.clone())
            {
                Ok(ConnectorState::Ended(end)) => end,
                // The task is gone with its actor.
                _ => ConnectorEnd::Stopped,
            }
        })
    }
}

impl fmt::Debug for CanalConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanalConnector")
            .field("status", &*self.status.borrow())
            .finish()
    }
}

impl Actor for CanalConnector {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        let Some((driver, connector)) = self.start.take() else {
            return;
        };
        let work = async move {
            let status = driver.status.clone();
            let end = driver.run(connector).await;
            if let ConnectorEnd::Failed(error) = &end {
                tracing::error!(%error, "the Canal connector has ended");
            }
            status.send_modify(|status| status.state = ConnectorState::Ended(end));
        };
        context.spawn(work.into_actor(self));
    }
}

impl Handler<Pause> for CanalConnector {
    type Result = ();

    fn handle(&mut self, _: Pause, _: &mut Self::Context) {
        pausing::pause(&self.desired);
    }
}

impl Handler<Resume> for CanalConnector {
    type Result = ();

    fn handle(&mut self, _: Resume, _: &mut Self::Context) {
        pausing::resume(&self.desired);
    }
}

impl Handler<GetStatus> for CanalConnector {
    type Result = MessageResult<GetStatus>;

    fn handle(&mut self, _: GetStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.status.borrow().clone())
    }
}

impl Handler<WaitForEnd> for CanalConnector {
    type Result = ResponseFuture<ConnectorEnd>;

    fn handle(&mut self, _: WaitForEnd, _: &mut Self::Context) -> Self::Result {
        self.ended()
    }
}

impl Handler<Stop> for CanalConnector {
    type Result = ResponseFuture<ConnectorEnd>;

    fn handle(&mut self, _: Stop, context: &mut Self::Context) -> Self::Result {
        self.desired.send_replace(Desired::Stopping);
        let ended = self.ended();
        let stop = self.ended().into_actor(self);
        context.spawn(actix::ActorFutureExt::map(stop, |_, _, context| {
            context.stop()
        }));
        ended
    }
}
