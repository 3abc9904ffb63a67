//! The task that owns the connector: connects, fetches while there is room, acknowledges.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_canal::{BatchId, CanalError, Message, SimpleCanalConnector};
use tokio::sync::{mpsc, watch};

use super::shown::SourceStatus;
use super::spooling::{Durable, Writer};
use super::{CanalSourceConfig, SourceSabotage};
use crate::operator::{InstanceContext, OperatorError};
use crate::point::Point;
use crate::source::commands::{self, Skip};
use crate::source::spool::{Segment, Spool};

/// Batches that are fetched ahead of the operator.
const AHEAD: usize = 4;
/// Without another request for so long the server is asked whether it still works.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// First pause between two attempts to connect, and between two empty fetches.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);

/// What the task tells the operator.
#[derive(Debug)]
pub(super) enum Fetched {
    /// First of all: what the source was told to leave out.
    Commands(Vec<Skip>),
    /// A batch.
    Batch(Message),
    /// Nothing has come for this long.
    Idle(Duration),
    /// The connection is over. The task has ended.
    Failed(CanalError),
    /// Rows of the spool, behind the restored cut.
    Spooled(Segment),
    /// The spool has no more; what follows comes from the server.
    SpoolRead,
    /// The store failed. The task has ended.
    Broken(OperatorError),
}

/// What the operator tells the task.
#[derive(Debug)]
pub(super) enum Order {
    /// Acknowledge this batch and all before it.
    Acknowledge(BatchId),
    /// Make these rows durable, then acknowledge this batch.
    Spool {
        segment: Option<Segment>,
        batch: Option<BatchId>,
    },
    /// No cut needs spooled rows below this index any more.
    Forget(u64),
    /// Acknowledge, and then disconnect: the region has ended.
    Finish {
        batch: Option<BatchId>,
        /// Told when the server has taken note.
        done: std::sync::mpsc::Sender<()>,
    },
}

/// The operator's end of a fetching task. Dropping it ends the task and closes the socket.
#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) fetched: mpsc::Receiver<Fetched>,
    pub(super) orders: mpsc::UnboundedSender<Order>,
    /// The server has accepted the acknowledgement of this batch and of all before it.
    confirmed: watch::Receiver<Option<BatchId>>,
    task: tokio::task::JoinHandle<()>,
}

impl Fetching {
    /// `durable`: how far the spool reaches, if there is one.
    pub(super) fn start(
        config: CanalSourceConfig,
        context: InstanceContext,
        durable: Option<Arc<Durable>>,
        shown: Arc<SourceStatus>,
    ) -> Self {
        let (fetched_sender, fetched) = mpsc::channel(AHEAD);
        // bounded by the number of outstanding batches: each is acknowledged once
        let (orders, taken) = mpsc::unbounded_channel();
        let (confirmed_sender, confirmed) = watch::channel(None);
        let spool = durable.map(|durable| Writer::new(Spool::of(&context), durable));
        let fetcher = Fetcher {
            config,
            context,
            spool,
            fetched: fetched_sender,
            orders: taken,
            confirmed: confirmed_sender,
            acknowledged: None,
            shown,
        };
        let task = actix_rt::spawn(fetcher.run());
        Self {
            fetched,
            orders,
            confirmed,
            task,
        }
    }

    /// Acknowledges `batch` and all before it.
    pub(super) fn acknowledge(&self, batch: BatchId) {
        // a task that has ended has said why
        let _ = self.orders.send(Order::Acknowledge(batch));
    }

    /// The newest batch whose acknowledgement is confirmed since the last call.
    pub(super) fn newly_confirmed(&mut self) -> Option<BatchId> {
        // One whose task has ended may still have something to tell.
        match self.confirmed.has_changed() {
            Ok(false) => None,
            Ok(true) | Err(_) => *self.confirmed.borrow_and_update(),
        }
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Fetcher {
    config: CanalSourceConfig,
    context: InstanceContext,
    spool: Option<Writer>,
    fetched: mpsc::Sender<Fetched>,
    orders: mpsc::UnboundedReceiver<Order>,
    confirmed: watch::Sender<Option<BatchId>>,
    /// The newest batch that was acknowledged, confirmed or not: each cut orders it again until the
    /// operator knows that it is confirmed.
    acknowledged: Option<BatchId>,
    shown: Arc<SourceStatus>,
}

/// Whether the task goes on.
enum Next {
    GoOn,
    End,
}

impl Fetcher {
    async fn run(mut self) {
        match commands::read(&self.context).await {
            Ok(commands) => self.tell(Fetched::Commands(commands)).await,
            Err(error) => return self.break_down(error).await,
        }
        if let Err(error) = self.read_spool().await {
            return self.break_down(error).await;
        }
        let result = match self.connect().await {
            Ok(connector) => self.stream(connector).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.shown.fails(&error);
            // nobody listens after a reset
            let _ = self.fetched.send(Fetched::Failed(error)).await;
        }
    }

    /// Hands out what lies in the spool behind the restored cut.
    async fn read_spool(&self) -> Result<(), OperatorError> {
        let Some(spool) = &self.spool else {
            return Ok(());
        };
        self.shown.reads_spool();
        while let Some(segment) = spool.read_next().await? {
            self.tell(Fetched::Spooled(segment)).await;
        }
        self.tell(Fetched::SpoolRead).await;
        Ok(())
    }

    /// Connects and subscribes, with back-off, until it works or can't.
    async fn connect(&mut self) -> Result<SimpleCanalConnector, CanalError> {
        let mut pause = FIRST_BACK_OFF;
        loop {
            let mut connector = (self.config.connector)()?;
            self.shown.connects(&connector);
            let result = match connector.connect().await {
                Ok(_role) => connector.subscribe(&self.config.filter).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => {
                    self.shown.streams(&connector);
                    return Ok(connector);
                }
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, retry_in = ?pause, "no connection to the Canal server");
                    self.shown.backs_off(error);
                    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                    pause = (pause * 2).min(self.config.longest_back_off);
                }
            }
        }
    }

    async fn stream(&mut self, mut connector: SimpleCanalConnector) -> Result<(), CanalError> {
        let mut idle_since = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            while let Ok(order) = self.orders.try_recv() {
                if let Next::End = self.obey(order, &mut connector).await? {
                    return Ok(());
                }
            }
            self.confirmed.send_if_modified(|confirmed| {
                let last = connector.last_confirmed();
                last.is_some() && std::mem::replace(confirmed, last) != last
            });
            tokio::select! {
                biased;
                order = self.orders.recv() => {
                    let Some(order) = order else { return Ok(()) };
                    if let Next::End = self.obey(order, &mut connector).await? {
                        return Ok(());
                    }
                },
                room = self.fetched.clone().reserve_owned() => {
                    let Ok(room) = room else { return Ok(()) };
                    if self.context.lease().check().is_err() {
                        return Ok(());
                    }
                    self.context.hook().at(Point::BetweenCheckAndGet);
                    match connector.get_without_ack(self.config.fetch_size, None).await? {
                        Some(message) => {
                            let batch = message.id();
                            room.send(Fetched::Batch(message));
                            idle_since = Instant::now();
                            pause = FIRST_PAUSE;
                            if self.config.sabotage == SourceSabotage::AcknowledgeEarly {
                                self.acknowledge(&mut connector, batch).await?;
                            }
                        }
                        None => {
                            room.send(Fetched::Idle(idle_since.elapsed()));
                            if let Next::End = self.pause(pause, &mut connector).await? {
                                return Ok(());
                            }
                            pause = (pause * 2).min(self.config.longest_pause);
                        }
                    }
                },
                () = tokio::time::sleep(KEEP_ALIVE) => connector.confirm_acks().await?,
            }
        }
    }

    /// Waits, but not when there is an order.
    async fn pause(
        &mut self,
        pause: Duration,
        connector: &mut SimpleCanalConnector,
    ) -> Result<Next, CanalError> {
        tokio::select! {
            Some(order) = self.orders.recv() => self.obey(order, connector).await,
            () = tokio::time::sleep(pause) => Ok(Next::GoOn),
        }
    }

    async fn obey(
        &mut self,
        order: Order,
        connector: &mut SimpleCanalConnector,
    ) -> Result<Next, CanalError> {
        match order {
            Order::Acknowledge(batch) => {
                self.acknowledge(connector, batch).await?;
                Ok(Next::GoOn)
            }
            Order::Spool { segment, batch } => {
                if self.context.lease().check().is_err() {
                    return Ok(Next::End);
                }
                if let (Some(segment), Some(spool)) = (segment, &self.spool)
                    && let Err(error) = spool.append(segment).await
                {
                    self.break_down(error).await;
                    return Ok(Next::End);
                }
                if let Some(batch) = batch {
                    self.acknowledge(connector, batch).await?;
                }
                Ok(Next::GoOn)
            }
            Order::Forget(index) => {
                if let Some(spool) = &self.spool {
                    spool.forget(index).await;
                }
                Ok(Next::GoOn)
            }
            Order::Finish { batch, done } => {
                if let Some(batch) = batch {
                    self.acknowledge(connector, batch).await?;
                }
                connector.confirm_acks().await?;
                connector.disconnect().await;
                self.shown.finishes();
                // nobody may be waiting any more
                let _ = done.send(());
                Ok(Next::End)
            }
        }
    }

    async fn acknowledge(
        &mut self,
        connector: &mut SimpleCanalConnector,
        batch: BatchId,
    ) -> Result<(), CanalError> {
        if self.acknowledged >= Some(batch) || self.context.lease().check().is_err() {
            return Ok(());
        }
        self.context.hook().at(Point::BetweenCheckAndAck);
        connector.ack(batch).await?;
        self.acknowledged = Some(batch);
        Ok(())
    }

    /// The store failed.
    async fn break_down(&self, error: OperatorError) {
        self.shown.fails(&error);
        self.tell(Fetched::Broken(error)).await;
    }

    async fn tell(&self, what: Fetched) {
        let _ = self.fetched.send(what).await;
    }
}
