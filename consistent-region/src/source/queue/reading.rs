//! The tasks that fetch: one a partition, into one channel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_canal::mq::{FetchLimits, MqConsumer, MqError};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::{QueueMessage, QueueSourceConfig};
use crate::operator::{InstanceContext, OperatorError};
use crate::point::Point;
use crate::source::change::OnSourceChange;
use crate::source::commands::{self, Skip};

/// Fetches that are ahead of the operator, of all partitions together.
const AHEAD: usize = 4;
const FIRST_BACK_OFF: Duration = Duration::from_millis(50);

/// What the operator gets.
#[derive(Debug)]
pub(super) enum Read {
    /// First of all: what the source was told to leave out.
    Commands(Vec<Skip>),
    /// The very first message of this partition that is read has this offset, or a higher one.
    Begins(u32, i64),
    /// Messages of one partition, in order.
    Messages(Vec<QueueMessage>),
    /// The place to go on from was gone, and the source goes on with this offset of this partition.
    WentOn(u32, i64),
    /// The tasks have ended.
    Failed(OperatorError),
}

/// The operator's end. Dropping it ends the tasks.
pub(super) struct Reading {
    pub(super) read: mpsc::Receiver<Read>,
    task: JoinHandle<()>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reading {
    pub(super) fn start<C: MqConsumer>(
        consumer: Arc<C>,
        config: QueueSourceConfig,
        context: InstanceContext,
        next: BTreeMap<u32, i64>,
    ) -> Self {
        let (sender, read) = mpsc::channel(AHEAD);
        let task = actix_rt::spawn(async move {
            if let Err(error) = all(consumer, config, context, next, &sender).await {
                // nobody listens after a reset
                let _ = sender.send(Read::Failed(error)).await;
            }
        });
        Self { read, task }
    }
}

async fn all<C: MqConsumer>(
    consumer: Arc<C>,
    config: QueueSourceConfig,
    context: InstanceContext,
    next: BTreeMap<u32, i64>,
    sender: &mpsc::Sender<Read>,
) -> Result<(), OperatorError> {
    let commands = commands::read(&context).await?;
    if sender.send(Read::Commands(commands)).await.is_err() {
        return Ok(());
    }
    let count = persistently(&config, || consumer.partitions(&config.topic)).await?;
    let width = u32::from(context.width().max(1));
    let own =
        (0..count).filter(|partition| partition % width == u32::from(context.instance().index));
    let mut partitions = JoinSet::new();
    for partition in own {
        let reader = Reader {
            consumer: Arc::clone(&consumer),
            config: config.clone(),
            context: context.clone(),
            partition,
            next: next.get(&partition).copied(),
            sender: sender.clone(),
        };
        partitions.spawn_local(reader.run());
    }
    while let Some(ended) = partitions.join_next().await {
        ended.map_err(|error| OperatorError::Retry(error.to_string()))??;
    }
    // An instance without a partition has nothing to read, and waits for the next reset.
    std::future::pending().await
}

struct Reader<C> {
    consumer: Arc<C>,
    config: QueueSourceConfig,
    context: InstanceContext,
    partition: u32,
    /// `None`: with the first message there is.
    next: Option<i64>,
    sender: mpsc::Sender<Read>,
}

impl<C: MqConsumer> Reader<C> {
    async fn run(self) -> Result<(), OperatorError> {
        let (topic, partition) = (self.config.topic.as_str(), self.partition);
        let range = || self.consumer.range(topic, partition);
        let mut next = match self.next {
            Some(next) => next,
            None => {
                let first = persistently(&self.config, range).await?.start;
                // From now on a cut says so: what is removed before it is read is missed.
                let begins = Read::Begins(partition, first);
                if self.sender.send(begins).await.is_err() {
                    return Ok(());
                }
                first
            }
        };
        let limits = FetchLimits::new(self.config.fetch_bytes, self.config.wait);
        loop {
            let Ok(room) = self.sender.reserve().await else {
                return Ok(());
            };
            self.context.lease().check()?;
            self.context.hook().at(Point::BetweenCheckAndGet);
            let fetch = || self.consumer.fetch(topic, partition, next, limits);
            let fetched = match persistently_or_gone(&self.config, fetch).await? {
                Ok(fetched) => fetched,
                Err(gone) => {
                    next = self.after(gone)?;
                    room.send(Read::WentOn(partition, next));
                    continue;
                }
            };
            let messages: Vec<QueueMessage> = fetched
                .messages
                .into_iter()
                .map(|message| QueueMessage {
                    partition,
                    offset: message.offset,
                    payload: message.payload,
                })
                .collect();
            if let Some(last) = messages.last() {
                next = last.offset + 1;
                room.send(Read::Messages(messages));
            }
        }
    }

    /// Where reading goes on when its place is gone.
    fn after(&self, gone: MqError) -> Result<i64, OperatorError> {
        match (&gone, self.config.on_source_change) {
            (MqError::OffsetOutOfRange { earliest, .. }, OnSourceChange::AtLeastOnce) => {
                tracing::warn!(%gone, "the source was changed: its rows count at least once");
                Ok(*earliest)
            }
            _ => Err(OperatorError::Permanent(format!(
                "the source was changed: {gone}"
            ))),
        }
    }
}

/// Asks until there is an answer, or an error that asking again does not mend.
async fn persistently<R, F>(
    config: &QueueSourceConfig,
    ask: impl Fn() -> F,
) -> Result<R, OperatorError>
where
    F: Future<Output = Result<R, MqError>>,
{
    match persistently_or_gone(config, ask).await? {
        Ok(answer) => Ok(answer),
        Err(gone) => Err(OperatorError::Permanent(gone.to_string())),
    }
}

/// The same; a place that is gone is an answer.
async fn persistently_or_gone<R, F>(
    config: &QueueSourceConfig,
    ask: impl Fn() -> F,
) -> Result<Result<R, MqError>, OperatorError>
where
    F: Future<Output = Result<R, MqError>>,
{
    let mut pause = FIRST_BACK_OFF;
    loop {
        match ask().await {
            Ok(answer) => return Ok(Ok(answer)),
            Err(gone @ MqError::OffsetOutOfRange { .. }) => return Ok(Err(gone)),
            Err(error @ MqError::Unavailable(_)) => {
                tracing::warn!(%error, retry_in = ?pause, "the queue does not answer");
                tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
                pause = (pause * 2).min(config.longest_back_off);
            }
            Err(error) => return Err(OperatorError::Permanent(format!("the queue: {error}"))),
        }
    }
}
