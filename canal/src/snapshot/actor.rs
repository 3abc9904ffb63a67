//! The actor.

use std::fmt;
use std::sync::Arc;

use actix::{
    Actor, ActorContext as _, ActorFutureExt as _, AsyncContext as _, Context, Handler,
    MessageResult, Recipient, ResponseFuture, WrapFuture as _,
};
use tokio::sync::watch;

use super::driver::Driver;
use super::error::SnapshotError;
use super::settings::{SnapshotDatabase, SnapshotSettings};
use super::state::SnapshotStore;
use super::status::{SnapshotEnd, SnapshotPhase, SnapshotStatus};
use crate::connector::{Batch, SimpleCanalConnector};

/// Asks for a [`SnapshotStatus`].
#[derive(Debug, Clone, Copy, actix::Message)]
#[rtype(result = "SnapshotStatus")]
pub struct GetSnapshotStatus;

/// Resolves when every row was handled and changes are all that comes; with an error if it ended
/// before.
#[derive(Debug, Clone, Copy, actix::Message)]
#[rtype(result = "Result<(), SnapshotEnd>")]
pub struct WaitForStreaming;

/// Stops in order: no further batch is fetched, and the handler is waited for. Rows that are not
/// read yet are read after the next start. Resolves when it has ended.
#[derive(Debug, Clone, Copy, actix::Message)]
#[rtype(result = "SnapshotEnd")]
pub struct StopSnapshot;

/// Resolves when it has ended, by itself or because it was stopped.
#[derive(Debug, Clone, Copy, actix::Message)]
#[rtype(result = "SnapshotEnd")]
pub struct WaitForSnapshotEnd;

/// An actor that hands out the rows that tables have, and then what changes, as one stream.
///
/// It subscribes first, then reads the tables by SQL in chunks by primary key. Rows that were read
/// come as inserts of their own entries, marked so that [`is_snapshot`](super::is_snapshot) tells
/// them. How rows and changes are put together is the [`SnapshotMode`](super::SnapshotMode):
///
/// | | one moment (default) | watermarks |
/// |---|---|---|
/// | the rows are | all of one moment; after a restart, those left are of a later one | each chunk of its own |
/// | changes | come behind all rows, from the moment on | come meanwhile, of rows that were handed out |
/// | the database | is only read; alterations of the tables wait | a small table is written to |
/// | once all rows are there | the handler has the database of the moment, and then one transaction after the other | each row is true at its place in the stream |
///
/// In both, every change of a row that comes behind its insert happened after what the insert says,
/// and no change is missing. Without failures each row comes once, and each later change once.
/// After a failure batches come again as with a [`CanalConnector`](crate::CanalConnector), and
/// after a crash the chunk in work is read again; then a change or delete may come of a row that
/// the handler has not got. A handler that writes rows by primary key, and takes a delete of nothing
/// for done, ends with the database's rows whatever happens.
///
/// **When not to use it.** Tables without a primary key, or with one whose order only the database
/// knows (characters with a collation that is not binary). Where tables are so large that changes
/// can't wait until all is read, take watermarks.
///
/// How far it is, is kept in a [`SnapshotStore`] after each chunk, and a restart goes on there. A
/// destination of its own is needed, as for every consumer.
///
/// ```no_run
/// use actix::{Actor as _, Recipient};
/// use lockkeeper_canal::snapshot::{
///     FileSnapshotStore, SnapshotDatabase, SnapshotSettings, SnapshotThenStream,
/// };
/// use lockkeeper_canal::{Batch, CanalConnectorBuilder, ClientIdentity};
///
/// # fn start(handler: Recipient<Batch>) -> Result<(), Box<dyn std::error::Error>> {
/// let connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
///     .address("127.0.0.1:11111")
///     .build()?;
/// let database = SnapshotDatabase::new("127.0.0.1:3306", "reader", std::env::var("SQL_PASSWORD")?)?;
/// let settings = SnapshotSettings::new([("shop", "orders"), ("shop", "customers")]);
/// let store = FileSnapshotStore::new("/var/lib/shop/snapshot.json");
/// let address = SnapshotThenStream::new(database, connector, settings, store, handler)?.start();
/// # let _ = address; Ok(()) }
/// ```
pub struct SnapshotThenStream<S: SnapshotStore> {
    start: Option<Box<(Driver<S>, SimpleCanalConnector)>>,
    stopping: watch::Sender<bool>,
    status: watch::Receiver<SnapshotStatus>,
}

impl<S: SnapshotStore> SnapshotThenStream<S> {
    /// Rows of `database`, and changes through `connector`, for `recipient`, once it is started.
    ///
    /// # Errors
    /// [`SnapshotError::InvalidArgument`] for settings that cannot work.
    pub fn new(
        database: SnapshotDatabase,
        connector: SimpleCanalConnector,
        settings: SnapshotSettings,
        store: S,
        recipient: Recipient<Batch>,
    ) -> Result<Self, SnapshotError> {
        settings.check()?;
        let (stopping, stop_seen) = watch::channel(false);
        let (shown, status) = watch::channel(SnapshotStatus::default());
        let driver = Driver {
            settings,
            database,
            store: Arc::new(store),
            recipient,
            stopping: stop_seen,
            status: shown,
        };
        Ok(Self {
            start: Some(Box::new((driver, connector))),
            stopping,
            status,
        })
    }

    fn ended(&self) -> ResponseFuture<SnapshotEnd> {
        let mut status = self.status.clone();
        Box::pin(async move {
            let ended = |status: &SnapshotStatus| matches!(status.phase, SnapshotPhase::Ended(_));
            match status
                .wait_for(ended)
                .await
                .map(|status| status.phase.clone())
            {
                Ok(SnapshotPhase::Ended(end)) => end,
                // The task is gone with its actor.
                _ => SnapshotEnd::Stopped,
            }
        })
    }
}

impl<S: SnapshotStore> fmt::Debug for SnapshotThenStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotThenStream")
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

impl<S: SnapshotStore> Actor for SnapshotThenStream<S> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        if let Some(start) = self.start.take() {
            let (driver, connector) = *start;
            context.spawn(driver.run(connector).into_actor(self));
        }
    }
}

impl<S: SnapshotStore> Handler<GetSnapshotStatus> for SnapshotThenStream<S> {
    type Result = MessageResult<GetSnapshotStatus>;

    fn handle(&mut self, _: GetSnapshotStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.status.borrow().clone())
    }
}

impl<S: SnapshotStore> Handler<WaitForStreaming> for SnapshotThenStream<S> {
    type Result = ResponseFuture<Result<(), SnapshotEnd>>;

    fn handle(&mut self, _: WaitForStreaming, _: &mut Self::Context) -> Self::Result {
        let mut status = self.status.clone();
        Box::pin(async move {
            let settled = |status: &SnapshotStatus| {
                matches!(
                    status.phase,
                    SnapshotPhase::Streaming | SnapshotPhase::Ended(_)
                )
            };
            match status
                .wait_for(settled)
                .await
                .map(|status| status.phase.clone())
            {
                Ok(SnapshotPhase::Ended(end)) => Err(end),
                Ok(_) => Ok(()),
                Err(_) => Err(SnapshotEnd::Stopped),
            }
        })
    }
}

impl<S: SnapshotStore> Handler<WaitForSnapshotEnd> for SnapshotThenStream<S> {
    type Result = ResponseFuture<SnapshotEnd>;

    fn handle(&mut self, _: WaitForSnapshotEnd, _: &mut Self::Context) -> Self::Result {
        self.ended()
    }
}

impl<S: SnapshotStore> Handler<StopSnapshot> for SnapshotThenStream<S> {
    type Result = ResponseFuture<SnapshotEnd>;

    fn handle(&mut self, _: StopSnapshot, context: &mut Self::Context) -> Self::Result {
        self.stopping.send_replace(true);
        let stop = self.ended().into_actor(self);
        context.spawn(stop.map(|_, _, context| context.stop()));
        self.ended()
    }
}
