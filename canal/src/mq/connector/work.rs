//! The task behind the connector: finds the partitions and reads each by itself.

use actix::Recipient;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use super::MqConnectorSettings;
use super::measure::ReaderMetrics;
use super::partition::Reader;
use super::status::{MqConnectorStatus, MqEnd};
use crate::connector::{Backoff, Batch};
use crate::mq::consumer::MqConsumer;
use crate::mq::error::MqError;
use crate::mq::offsets::OffsetStore;

pub(super) struct Work<C, O> {
    pub(super) consumer: C,
    pub(super) offsets: O,
    pub(super) settings: MqConnectorSettings,
    pub(super) recipient: Recipient<Batch>,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) status: watch::Sender<MqConnectorStatus>,
    pub(super) metrics: ReaderMetrics,
}

impl<C: MqConsumer, O: OffsetStore> Work<C, O> {
    pub(super) async fn run(self) {
        let end = self.read().await;
        if let MqEnd::Failed(error) = &end {
            tracing::error!(%error, topic = self.settings.topic, "the connector to the queue has ended");
        }
        self.status.send_modify(|status| status.end = Some(end));
    }

    async fn read(&self) -> MqEnd {
        let partitions = match self.partitions().await {
            Ok(partitions) => partitions,
            Err(end) => return end,
        };
        let readers = partitions
            .into_iter()
            .map(|partition| Reader::new(self, partition).run());
        let mut readers: FuturesUnordered<_> = readers.collect();
        let mut first = MqEnd::Stopped;
        while let Some(end) = readers.next().await {
            if end != MqEnd::Stopped {
                first = end;
                break;
            }
        }
        first
    }

    async fn partitions(&self) -> Result<Vec<u32>, MqEnd> {
        let topic = &self.settings.topic;
        let mut waits = self.waits();
        let count = loop {
            match self.consumer.partitions(topic).await {
                Ok(count) => break count,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, topic, "the queue does not say its partitions");
                    self.pause(&mut waits).await?;
                }
                Err(error) => return Err(MqEnd::Failed(error)),
            }
        };
        let chosen = match &self.settings.partitions {
            Some(chosen) => chosen.clone(),
            None => (0..count).collect(),
        };
        match chosen.iter().find(|partition| **partition >= count) {
            Some(partition) => Err(MqEnd::Failed(MqError::UnknownPartition {
                topic: topic.clone(),
                partition: *partition,
                partitions: count,
            })),
            None => Ok(chosen),
        }
    }

    pub(super) fn waits(&self) -> Backoff {
        Backoff::new(
            self.settings.first_back_off,
            self.settings.longest_back_off,
            None,
        )
    }

    /// Waits before trying again, or until the connector is stopped.
    pub(super) async fn pause(&self, waits: &mut Backoff) -> Result<(), MqEnd> {
        let wait = waits
            .failed(fastrand::f64())
            .unwrap_or(self.settings.longest_back_off);
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = self.stopped() => Err(MqEnd::Stopped),
        }
    }

    /// Resolves when the connector is to stop.
    pub(super) async fn stopped(&self) {
        // An error is the actor's end.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }
}
