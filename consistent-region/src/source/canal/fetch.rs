//! The task that owns the connector: connects, fetches while there is room, acknowledges.

use std::time::{Duration, Instant};

use lockkeeper_canal::{BatchId, CanalError, Message, SimpleCanalConnector};
use tokio::sync::mpsc;

use super::{CanalSourceConfig, SourceSabotage};
use crate::operator::InstanceContext;
use crate::point::Point;

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
    /// A batch.
    Batch(Message),
    /// Nothing has come for this long.
    Idle(Duration),
    /// The server has accepted the acknowledgement of this batch and of all before it.
    Acknowledged(BatchId),
    /// The connection is over. The task has ended.
    Failed(CanalError),
}

/// The operator's end of a fetching task. Dropping it ends the task and closes the socket.
#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) fetched: mpsc::Receiver<Fetched>,
    acknowledge: mpsc::UnboundedSender<BatchId>,
    task: tokio::task::JoinHandle<()>,
}

impl Fetching {
    pub(super) fn start(config: CanalSourceConfig, context: InstanceContext) -> Self {
        let (fetched_sender, fetched) = mpsc::channel(AHEAD);
        // bounded by the number of outstanding batches: each is acknowledged once
        let (acknowledge, acknowledgements) = mpsc::unbounded_channel();
        let fetcher = Fetcher {
            config,
            context,
            fetched: fetched_sender,
            acknowledgements,
        };
        let task = actix_rt::spawn(fetcher.run());
        Self {
            fetched,
            acknowledge,
            task,
        }
    }

    /// Acknowledges `batch` and all before it.
    pub(super) fn acknowledge(&self, batch: BatchId) {
        // a task that has ended has said why
        let _ = self.acknowledge.send(batch);
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
    fetched: mpsc::Sender<Fetched>,
    acknowledgements: mpsc::UnboundedReceiver<BatchId>,
}

impl Fetcher {
    async fn run(mut self) {
        let result = match self.connect().await {
            Ok(connector) => self.stream(connector).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            // nobody listens after a reset
            let _ = self.fetched.send(Fetched::Failed(error)).await;
        }
    }

    /// Connects and subscribes, with back-off, until it works or can't.
    async fn connect(&mut self) -> Result<SimpleCanalConnector, CanalError> {
        let mut pause = FIRST_BACK_OFF;
        loop {
            let mut connector = (self.config.connector)()?;
            let result = match connector.connect().await {
                Ok(_role) => connector.subscribe(&self.config.filter).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => return Ok(connector),
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, retry_in = ?pause, "no connection to the Canal server");
                    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                    pause = (pause * 2).min(self.config.longest_back_off);
                }
            }
        }
    }

    async fn stream(&mut self, mut connector: SimpleCanalConnector) -> Result<(), CanalError> {
        let mut idle_since = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut confirmed = None;
        loop {
            while let Ok(batch) = self.acknowledgements.try_recv() {
                self.acknowledge(&mut connector, batch).await?;
            }
            if let Some(batch) = connector.last_confirmed()
                && confirmed != Some(batch)
            {
                confirmed = Some(batch);
                self.tell(Fetched::Acknowledged(batch)).await;
            }
            tokio::select! {
                biased;
                acknowledgement = self.acknowledgements.recv() => match acknowledgement {
                    Some(batch) => self.acknowledge(&mut connector, batch).await?,
                    None => return Ok(()),
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
                            self.pause(pause, &mut connector).await?;
                            pause = (pause * 2).min(self.config.longest_pause);
                        }
                    }
                },
                () = tokio::time::sleep(KEEP_ALIVE) => connector.confirm_acks().await?,
            }
        }
    }

    /// Waits, but not when something is to be acknowledged.
    async fn pause(
        &mut self,
        pause: Duration,
        connector: &mut SimpleCanalConnector,
    ) -> Result<(), CanalError> {
        tokio::select! {
            Some(batch) = self.acknowledgements.recv() => self.acknowledge(connector, batch).await,
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    async fn acknowledge(
        &self,
        connector: &mut SimpleCanalConnector,
        batch: BatchId,
    ) -> Result<(), CanalError> {
        if self.context.lease().check().is_err() {
            return Ok(());
        }
        self.context.hook().at(Point::BetweenCheckAndAck);
        connector.ack(batch).await
    }

    async fn tell(&self, what: Fetched) {
        let _ = self.fetched.send(what).await;
    }
}
