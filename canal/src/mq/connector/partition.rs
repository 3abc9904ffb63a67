//! One partition: fetch, read, deliver, keep the offset.

use std::sync::Arc;

use bytes::Bytes;

use super::status::{MqEnd, PartitionStatus};
use super::work::Work;
use super::{BadMessage, StartFrom};
use crate::connector::{Backoff, Batch, BatchResult, first_epoch};
use crate::message::{BatchId, Message};
use crate::mq::consumer::{FetchLimits, MqConsumer, ReceivedMessage};
use crate::mq::error::MqError;
use crate::mq::form;
use crate::mq::offsets::OffsetStore;

pub(super) struct Reader<'a, C, O> {
    work: &'a Work<C, O>,
    partition: u32,
    /// `topic[partition]`
    place: Arc<str>,
    /// Grows with every delivery that failed.
    epoch: u64,
    next: i64,
}

/// Messages that go to the handler together, or one that cannot be read.
enum Step {
    Deliver {
        entries: Vec<Bytes>,
        last: i64,
    },
    Bad {
        message: ReceivedMessage,
        reason: String,
    },
}

impl<'a, C: MqConsumer, O: OffsetStore> Reader<'a, C, O> {
    pub(super) fn new(work: &'a Work<C, O>, partition: u32) -> Self {
        Self {
            work,
            partition,
            place: format!("{}[{partition}]", work.settings.topic).into(),
            epoch: first_epoch(),
            next: 0,
        }
    }

    /// Reads until the connector is stopped or can't go on.
    pub(super) async fn run(mut self) -> MqEnd {
        match self.read().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn read(&mut self) -> Result<std::convert::Infallible, MqEnd> {
        self.next = self.trying(async |reader| reader.start().await).await?;
        self.show(|status, next| status.next = next);
        let settings = &self.work.settings;
        let limits = FetchLimits::new(settings.batch_bytes, settings.longest_wait);
        loop {
            let fetched = self.trying(async |reader| {
                let Reader {
                    work,
                    partition,
                    next,
                    ..
                } = reader;
                work.consumer
                    .fetch(&work.settings.topic, *partition, *next, limits)
                    .await
            });
            let fetched = fetched.await?;
            self.show(|status, _| status.end = fetched.end);
            for step in self.steps(fetched.messages) {
                match step {
                    Step::Deliver { entries, last } => self.deliver(entries, last).await?,
                    Step::Bad { message, reason } => self.bad(message, reason).await?,
                }
            }
        }
    }

    /// Where to begin: the kept offset, checked against what the queue has.
    async fn start(&self) -> Result<i64, MqError> {
        let Self {
            work, partition, ..
        } = self;
        let topic = &work.settings.topic;
        let range = work.consumer.range(topic, *partition).await?;
        match work.offsets.load(topic, *partition).await? {
            Some(offset) if (range.start..=range.end).contains(&offset) => Ok(offset),
            Some(offset) => Err(MqError::OffsetOutOfRange {
                topic: topic.clone(),
                partition: *partition,
                offset,
                earliest: range.start,
                end: range.end,
            }),
            None => match work.settings.start_from {
                StartFrom::Earliest => Ok(range.start),
                StartFrom::Latest => {
                    work.offsets.save(topic, *partition, range.end).await?;
                    Ok(range.end)
                }
            },
        }
    }

    /// Does something until it succeeds, the connector is stopped, or it cannot succeed.
    async fn trying<T>(
        &self,
        mut what: impl AsyncFnMut(&Self) -> Result<T, MqError>,
    ) -> Result<T, MqEnd> {
        let mut waits = self.work.waits();
        loop {
            let done = tokio::select! {
                done = what(self) => done,
                () = self.work.stopped() => return Err(MqEnd::Stopped),
            };
            match done {
                Ok(value) => {
                    self.show(|status, _| status.error = None);
                    return Ok(value);
                }
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, place = %self.place, "the queue fails; trying again");
                    self.show(|status, _| status.error = Some(error));
                    self.work.pause(&mut waits).await?;
                }
                Err(error) => return Err(MqEnd::Failed(error)),
            }
        }
    }

    /// Readable messages go together; one that is not is by itself.
    fn steps(&self, messages: Vec<ReceivedMessage>) -> Vec<Step> {
        let mut steps = Vec::new();
        for message in messages
            .into_iter()
            .filter(|message| message.offset >= self.next)
        {
            match (self.entries(&message), steps.last_mut()) {
                (Ok(read), Some(Step::Deliver { entries, last })) => {
                    entries.extend(read);
                    *last = message.offset;
                }
                (Ok(entries), _) => steps.push(Step::Deliver {
                    entries,
                    last: message.offset,
                }),
                (Err(reason), _) => steps.push(Step::Bad { message, reason }),
            }
        }
        steps
    }

    fn entries(&self, message: &ReceivedMessage) -> Result<Vec<Bytes>, String> {
        let limit = self.work.settings.message_limit;
        match &message.payload {
            None => Err("it has no content".to_owned()),
            Some(payload) if payload.len() > limit => Err(format!(
                "it has {} bytes, above the limit of {limit}",
                payload.len()
            )),
            Some(payload) => form::entries(payload.clone(), (&self.place, message.offset)),
        }
    }

    async fn deliver(&mut self, entries: Vec<Bytes>, last: i64) -> Result<(), MqEnd> {
        let mut waits = self.work.waits();
        while !entries.is_empty() {
            let id = BatchId::new(self.epoch, last);
            let message = Message::new(id, self.place.clone(), entries.clone());
            let answer = self.work.recipient.send(Batch { message });
            match self.answered(answer).await? {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!(%error, place = %self.place, last, "a batch was not handled and comes again");
                    self.again(&mut waits).await?;
                }
            }
        }
        self.keep(last).await?;
        self.work.metrics.handled.increment(1);
        self.work
            .status
            .send_modify(|status| status.handled_batches += 1);
        Ok(())
    }

    async fn bad(&mut self, message: ReceivedMessage, reason: String) -> Result<(), MqEnd> {
        let offset = message.offset;
        let error = MqError::BadMessage {
            topic: self.work.settings.topic.clone(),
            partition: self.partition,
            offset,
            reason,
        };
        let Some(recipient) = &self.work.settings.bad_messages else {
            return Err(MqEnd::Failed(error));
        };
        let bad = BadMessage {
            error,
            payload: message.payload,
        };
        let mut waits = self.work.waits();
        while let Err(error) = self.answered(recipient.send(bad.clone())).await? {
            tracing::warn!(%error, place = %self.place, offset, "a bad message was not taken and comes again");
            self.again(&mut waits).await?;
        }
        self.keep(offset).await?;
        self.work.metrics.bad.increment(1);
        self.work
            .status
            .send_modify(|status| status.bad_messages += 1);
        Ok(())
    }

    /// A handler's result. Stopping waits for it no longer than the settings say.
    async fn answered(
        &self,
        answer: impl Future<Output = Result<BatchResult, actix::MailboxError>>,
    ) -> Result<BatchResult, MqEnd> {
        let too_late = async {
            self.work.stopped().await;
            tokio::time::sleep(self.work.settings.stop_timeout).await;
        };
        tokio::select! {
            answer = answer => answer.map_err(|_| MqEnd::RecipientClosed),
            () = too_late => {
                tracing::warn!(place = %self.place, "a handler was still working when the connector was stopped");
                Err(MqEnd::Stopped)
            }
        }
    }

    /// What was not handled comes again, as another batch.
    async fn again(&mut self, waits: &mut Backoff) -> Result<(), MqEnd> {
        self.epoch += 1;
        self.work.metrics.failed.increment(1);
        self.work
            .status
            .send_modify(|status| status.failed_batches += 1);
        self.work.pause(waits).await
    }

    async fn keep(&mut self, last: i64) -> Result<(), MqEnd> {
        let next = last.saturating_add(1);
        let mut waits = self.work.waits();
        let Work {
            offsets, settings, ..
        } = self.work;
        while let Err(error) = offsets.save(&settings.topic, self.partition, next).await {
            if !error.is_retryable() {
                return Err(MqEnd::Failed(error));
            }
            tracing::warn!(%error, place = %self.place, next, "the offset could not be kept");
            self.show(|status, _| status.error = Some(error));
            self.work.pause(&mut waits).await?;
        }
        self.next = next;
        self.show(|status, next| (status.next, status.error) = (next, None));
        Ok(())
    }

    fn show(&self, change: impl FnOnce(&mut PartitionStatus, i64)) {
        self.work.status.send_modify(|status| {
            let partition = status.partitions.entry(self.partition).or_default();
            change(partition, self.next);
            self.work.metrics.at(self.partition, partition);
        });
    }
}
