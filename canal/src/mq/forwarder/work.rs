//! The task behind the forwarder: one batch after the other, each until the queue has all of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::measure::ForwarderMetrics;
use super::{MqForwarderSettings, MqForwarderStatus};
use crate::connector::Backoff;
use crate::message::Message;
use crate::mq::error::MqError;
use crate::mq::form::{ByPartition, Outgoing};
use crate::mq::producer::MqProducer;

/// Bytes that a queue adds to a message at most, such as a record's lengths.
const MESSAGE_OVERHEAD: usize = 64;

/// A batch, and who waits for it.
pub(super) struct Job {
    pub(super) message: Message,
    pub(super) reply: oneshot::Sender<Result<(), MqError>>,
}

pub(super) struct Work<P> {
    producer: P,
    settings: MqForwarderSettings,
    returned: Arc<AtomicU64>,
    status: watch::Sender<MqForwarderStatus>,
    metrics: ForwarderMetrics,
    /// How many partitions each topic has, until something fails.
    partitions: BTreeMap<String, u32>,
}

impl<P: MqProducer> Work<P> {
    pub(super) fn new(
        producer: P,
        settings: MqForwarderSettings,
        returned: Arc<AtomicU64>,
        status: watch::Sender<MqForwarderStatus>,
    ) -> Self {
        Self {
            metrics: ForwarderMetrics::new(settings.routing.default_topic()),
            producer,
            settings,
            returned,
            status,
            partitions: BTreeMap::new(),
        }
    }

    /// Works until the actor is gone.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(Job { message, reply }) = jobs.recv().await {
            let batch = message.id();
            let begun = std::time::Instant::now();
            self.status
                .send_modify(|status| status.busy_since = Some(begun));
            let result = if self.returned.load(Ordering::Acquire) == batch.epoch() {
                Err(MqError::Overtaking { batch })
            } else {
                self.forward(&message).await
            };
            if let Err(error) = &result {
                self.returned.store(batch.epoch(), Ordering::Release);
                tracing::warn!(%batch, %error, "a batch was not forwarded and is given back");
                self.metrics.returned();
                self.status.send_modify(|status| {
                    status.returned += 1;
                    status.busy_since = None;
                });
            } else {
                self.metrics.forwarded(begun.elapsed());
                self.status.send_modify(|status| {
                    status.batches += 1;
                    status.busy_since = None;
                });
            }
            // The connector may have gone on without the answer: the batch comes again then.
            let _ = reply.send(result);
        }
    }

    async fn forward(&mut self, message: &Message) -> Result<(), MqError> {
        let outgoing = Outgoing::read(message, &self.settings.routing)?;
        let Self { settings, .. } = self;
        let until = Instant::now() + settings.retry_for;
        let mut waits = Backoff::new(settings.first_back_off, settings.longest_back_off, None);
        let mut rest = None;
        loop {
            let Err(error) = self.attempt(&outgoing, &mut rest).await else {
                self.status.send_modify(|status| status.error = None);
                return Ok(());
            };
            self.metrics.failed();
            self.status.send_modify(|status| {
                status.failures += 1;
                status.error = Some(error.clone());
            });
            self.partitions.clear();
            let wait = waits.failed(fastrand::f64()).unwrap_or(Duration::ZERO);
            if !error.is_retryable() || Instant::now() + wait >= until {
                return Err(error);
            }
            tracing::info!(%error, ?wait, "the queue does not take a batch; trying again");
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends what is left of a batch: all of it at first.
    async fn attempt(
        &mut self,
        outgoing: &Outgoing,
        rest: &mut Option<ByPartition>,
    ) -> Result<(), MqError> {
        for topic in outgoing.topics() {
            if !self.partitions.contains_key(topic) {
                let count = self.producer.partitions(topic).await?;
                self.partitions.insert(topic.to_owned(), count);
            }
        }
        let MqForwarderSettings {
            routing,
            form,
            message_limit,
            ..
        } = &self.settings;
        let limit = message_limit - MESSAGE_OVERHEAD;
        let messages = match rest {
            Some(rest) => rest,
            None => {
                rest.insert(outgoing.messages(*form, routing, &self.partitions, limit, now())?)
            }
        };
        let sent = join_all(
            messages
                .iter_mut()
                .map(|((topic, partition), messages)| self.send(topic, *partition, messages)),
        );
        let failed = sent.await.into_iter().find_map(Result::err);
        messages.retain(|_, messages| !messages.is_empty());
        failed.map_or(Ok(()), Err)
    }

    /// Sends a partition's messages in order and takes away those that were confirmed.
    async fn send(
        &self,
        topic: &str,
        partition: u32,
        messages: &mut Vec<Bytes>,
    ) -> Result<(), MqError> {
        while !messages.is_empty() {
            let mut bytes = 0;
            let fitting = messages.iter().take_while(|message| {
                bytes += message.len() + MESSAGE_OVERHEAD;
                bytes <= self.settings.message_limit
            });
            let count = fitting.count().max(1);
            let chosen: Vec<Bytes> = messages[..count].to_vec();
            let bytes: usize = chosen.iter().map(Bytes::len).sum();
            self.producer.produce(topic, partition, chosen).await?;
            messages.drain(..count);
            let number = |count| u64::try_from(count).unwrap_or(u64::MAX);
            let (count, bytes) = (number(count), number(bytes));
            self.metrics.confirmed(count, bytes);
            self.status.send_modify(|status| {
                status.messages += count;
                status.bytes += bytes;
            });
        }
        Ok(())
    }
}

/// Milliseconds since 1970.
fn now() -> i64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
