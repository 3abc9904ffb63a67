//! Batches to a queue: an actor that is the handler of a connector.

mod measure;
mod settings;
mod status;
mod work;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::{
    Actor, AsyncContext as _, Context, Handler, MessageResult, ResponseFuture, WrapFuture as _,
};
use lockkeeper_core::status::StatusSource;
use tokio::sync::{mpsc, oneshot, watch};

pub use settings::MqForwarderSettings;
use status::ForwarderStatusSource;
pub use status::MqForwarderStatus;
use work::{Job, Work};

use super::error::MqError;
use super::producer::MqProducer;
use crate::connector::{Batch, BatchResult};

/// Batches that may wait for the one in work. A connector has at most its window of them here.
const QUEUE: usize = 1024;

/// Asks for an [`MqForwarderStatus`].
#[derive(Debug, Clone, Copy, actix::Message)]
#[rtype(result = "MqForwarderStatus")]
pub struct GetForwarderStatus;

/// An actor that writes batches to a queue, as Canal's own server does.
///
/// It is the handler of a [`CanalConnector`](crate::CanalConnector): its result for a [`Batch`] is
/// `Ok` when the queue has confirmed every message made of it, so the connector acknowledges
/// nothing to Canal's server before. While the queue does not answer, it tries again with growing
/// waits, and sends only what was not confirmed; after
/// [`retry_for`](MqForwarderSettings::with_retry_for) it gives the batch back, and the connector
/// has it delivered again. Nothing is lost; what was confirmed before a failure may be in the
/// queue twice (**at least once**).
///
/// Batches are written one after the other, and after one was given back none of its epoch is
/// written until it comes again: so the messages of one partition are in the order in which the
/// database wrote them, and a repetition repeats them in that order.
///
/// ```no_run
/// use actix::Actor as _;
/// use lockkeeper_canal::{CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity};
/// use lockkeeper_canal::mq::{MqForwarder, MqForwarderSettings, MqProducer, MqRouting};
///
/// # fn start(producer: impl MqProducer) -> Result<(), Box<dyn std::error::Error>> {
/// let routing = MqRouting::to("changes").with_partition_hash(r"shop\..*:$pk$")?;
/// let forwarder = MqForwarder::new(producer, MqForwarderSettings::new(routing))?.start();
/// let connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
///     .address("127.0.0.1:11111")
///     .build()?;
/// let settings = CanalConnectorSettings::default().with_filter(r"shop\..*".parse()?);
/// let connector = CanalConnector::new(connector, settings, forwarder.recipient())?.start();
/// # let _ = connector; Ok(()) }
/// ```
pub struct MqForwarder<P: MqProducer> {
    start: Option<(Box<Work<P>>, mpsc::Receiver<Job>)>,
    jobs: mpsc::Sender<Job>,
    /// The epoch in which a batch was given back; 0 for none.
    returned: Arc<AtomicU64>,
    topic: String,
    status: watch::Receiver<MqForwarderStatus>,
}

impl<P: MqProducer> MqForwarder<P> {
    /// A forwarder to `producer` once it is started.
    ///
    /// # Errors
    /// [`MqError::InvalidArgument`] for settings that cannot work.
    pub fn new(producer: P, settings: MqForwarderSettings) -> Result<Self, MqError> {
        settings.check()?;
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let (shown, status) = watch::channel(MqForwarderStatus::default());
        let returned = Arc::new(AtomicU64::new(0));
        let topic = settings.routing.default_topic().to_owned();
        let work = Work::new(producer, settings, returned.clone(), shown);
        Ok(Self {
            start: Some((Box::new(work), waiting)),
            jobs,
            returned,
            topic,
            status,
        })
    }

    /// Its status for a console: register it with the service's
    /// [`StatusRegistry`](lockkeeper_core::status::StatusRegistry), which does not keep it alive.
    pub fn status_source(&self) -> Arc<dyn StatusSource> {
        Arc::new(ForwarderStatusSource {
            topic: self.topic.clone(),
            status: self.status.clone(),
        })
    }
}

impl<P: MqProducer> fmt::Debug for MqForwarder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MqForwarder")
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

impl<P: MqProducer> Actor for MqForwarder<P> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        if let Some((work, jobs)) = self.start.take() {
            context.spawn(work.run(jobs).into_actor(self));
        }
    }
}

impl<P: MqProducer> Handler<Batch> for MqForwarder<P> {
    type Result = ResponseFuture<BatchResult>;

    /// The order of the mailbox is the order of the queue: what cannot wait is given back, and
    /// everything behind it.
    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> Self::Result {
        let id = batch.message.id();
        let (reply, answered) = oneshot::channel();
        let job = Job {
            message: batch.message,
            reply,
        };
        if self.jobs.try_send(job).is_err() {
            self.returned.store(id.epoch(), Ordering::Release);
        }
        Box::pin(async move {
            match answered.await {
                Ok(result) => result.map_err(Into::into),
                Err(_) => Err(MqError::Overtaking { batch: id }.into()),
            }
        })
    }
}

impl<P: MqProducer> Handler<GetForwarderStatus> for MqForwarder<P> {
    type Result = MessageResult<GetForwarderStatus>;

    fn handle(&mut self, _: GetForwarderStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.status.borrow().clone())
    }
}
