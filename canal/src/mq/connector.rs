//! Batches from a queue: an actor that pushes them to the handler that a Canal connector has.

mod measure;
mod partition;
mod settings;
mod status;
mod work;

use std::fmt;
use std::sync::Arc;

use actix::{
    Actor, ActorContext as _, ActorFutureExt as _, AsyncContext as _, Context, Handler,
    MessageResult, Recipient, ResponseFuture, WrapFuture as _,
};
use bytes::Bytes;
use lockkeeper_core::status::StatusSource;
use tokio::sync::watch;

use measure::ReaderMetrics;
pub use settings::{MqConnectorSettings, StartFrom};
use status::MqStatusSource;
pub use status::{MqConnectorStatus, MqEnd, PartitionStatus};
use work::Work;

use super::consumer::MqConsumer;
use super::error::MqError;
use super::offsets::OffsetStore;
use crate::connector::{Batch, BatchResult};

/// A message that cannot be read, for the handler of such messages: `Ok` goes on behind it, `Err`
/// has it delivered again after a wait.
#[derive(Debug, Clone, actix::Message)]
#[rtype(result = "BatchResult")]
#[non_exhaustive]
pub struct BadMessage {
    /// Topic, partition, offset and what is wrong: an [`MqError::BadMessage`].
    pub error: MqError,
    /// The message's content; `None` if it has none.
    pub payload: Option<Bytes>,
}

/// Asks for an [`MqConnectorStatus`].
#[derive(Debug, Clone, Copy, actix::Message)]
#[rtype(result = "MqConnectorStatus")]
pub struct GetMqStatus;

/// Stops in order: nothing more is fetched, the handler's result for what it has is waited for, and
/// the offset kept. Resolves when the connector has ended.
#[derive(Debug, Clone, Copy, actix::Message)]
#[rtype(result = "MqEnd")]
pub struct StopMq;

/// Resolves when the connector has ended, by itself or because it was stopped.
#[derive(Debug, Clone, Copy, actix::Message)]
#[rtype(result = "MqEnd")]
pub struct WaitForMqEnd;

/// An actor that reads a topic that Canal's server or an [`MqForwarder`](super::MqForwarder) writes,
/// and pushes its changes to a handler.
///
/// The handler gets the same [`Batch`]es as from a [`CanalConnector`](crate::CanalConnector), with
/// the same rows, whichever form the messages have. What differs is what the queue does not carry:
///
/// - There are no begins and ends of transactions.
/// - The flat form has no positions: an entry's position is the message's own, with
///   `topic[partition]` as journal. An update's image before is made of `old` and the columns that
///   did not change.
/// - [`Message::destination`](crate::Message::destination) is `topic[partition]`, and the number in
///   its id is the last message's offset.
///
/// Each partition is read by itself: one batch at a time, in order. When the handler's result is
/// `Ok`, the offset behind the batch is kept in the [`OffsetStore`]; when it is `Err`, the batch
/// comes again after a wait. So a batch is handled **at least once**.
///
/// Nothing divides partitions between readers: have one reader a partition, for example with an
/// election of `lockkeeper-fencing`, or name the partitions in the settings.
///
/// A message that cannot be read ends the connector with [`MqError::BadMessage`], which names
/// topic, partition and offset, unless
/// [`with_bad_messages`](MqConnectorSettings::with_bad_messages) names who takes it.
pub struct MqConnector<C: MqConsumer, O: OffsetStore> {
    topic: String,
    start: Option<Box<Work<C, O>>>,
    stopping: watch::Sender<bool>,
    status: watch::Receiver<MqConnectorStatus>,
}

impl<C: MqConsumer, O: OffsetStore> MqConnector<C, O> {
    /// A connector that pushes batches to `recipient` once it is started.
    ///
    /// # Errors
    /// [`MqError::InvalidArgument`] for settings that cannot work.
    pub fn new(
        consumer: C,
        offsets: O,
        settings: MqConnectorSettings,
        recipient: Recipient<Batch>,
    ) -> Result<Self, MqError> {
        settings.check()?;
        let (stopping, stop_seen) = watch::channel(false);
        let (shown, status) = watch::channel(MqConnectorStatus::default());
        Ok(Self {
            topic: settings.topic.clone(),
            start: Some(Box::new(Work {
                metrics: ReaderMetrics::new(&settings.topic),
                consumer,
                offsets,
                settings,
                recipient,
                stopping: stop_seen,
                status: shown,
            })),
            stopping,
            status,
        })
    }

    /// Its status for a console: register it with the service's
    /// [`StatusRegistry`](lockkeeper_core::status::StatusRegistry), which does not keep it alive.
    pub fn status_source(&self) -> Arc<dyn StatusSource> {
        Arc::new(MqStatusSource {
            topic: self.topic.clone(),
            status: self.status.clone(),
        })
    }

    fn ended(&self) -> ResponseFuture<MqEnd> {
        let mut status = self.status.clone();
        Box::pin(async move {
            let ended = status.wait_for(|status| status.end.is_some()).await;
            // Without an end the task is gone with its actor.
            ended
                .ok()
                .and_then(|status| status.end.clone())
                .unwrap_or(MqEnd::Stopped)
        })
    }
}

impl<C: MqConsumer, O: OffsetStore> fmt::Debug for MqConnector<C, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MqConnector")
            .field("topic", &self.topic)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

impl<C: MqConsumer, O: OffsetStore> Actor for MqConnector<C, O> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        if let Some(work) = self.start.take() {
            context.spawn(work.run().into_actor(self));
        }
    }
}

impl<C: MqConsumer, O: OffsetStore> Handler<GetMqStatus> for MqConnector<C, O> {
    type Result = MessageResult<GetMqStatus>;

    fn handle(&mut self, _: GetMqStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.status.borrow().clone())
    }
}

impl<C: MqConsumer, O: OffsetStore> Handler<WaitForMqEnd> for MqConnector<C, O> {
    type Result = ResponseFuture<MqEnd>;

    fn handle(&mut self, _: WaitForMqEnd, _: &mut Self::Context) -> Self::Result {
        self.ended()
    }
}

impl<C: MqConsumer, O: OffsetStore> Handler<StopMq> for MqConnector<C, O> {
    type Result = ResponseFuture<MqEnd>;

    fn handle(&mut self, _: StopMq, context: &mut Self::Context) -> Self::Result {
        self.stopping.send_replace(true);
        let stop = self.ended().into_actor(self);
        context.spawn(stop.map(|_, _, context| context.stop()));
        self.ended()
    }
}
