//! The operator: takes messages from the reading tasks, makes tuples, remembers the offsets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::task::{self, Poll};

use actix::{Actor, Context};
use lockkeeper_canal::mq::MqConsumer;
use serde::{Deserialize, Serialize};

use super::reading::{Read, Reading};
use super::{MapMessage, QueueMessage, QueuePlace, QueueSourceConfig};
use crate::operator::{
    Committer, Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced,
    RegionHandle, StartOperator, Tuple,
};
use crate::point::Point;
use crate::source::bad_row::{DeadLetter, DeadLetters, shown};
use crate::source::canal::Mapped;
use crate::source::commands::{self, Finished, Skipping};

/// Reads a topic into a region. See the [module](super).
pub struct QueueSource<T, C> {
    config: QueueSourceConfig,
    consumer: Arc<C>,
    map: MapMessage<T>,
    context: InstanceContext,
    at: Saved,
    reading: Option<Reading>,
    letters: DeadLetters,
    skipping: Skipping<QueuePlace>,
}

/// What a checkpoint holds (JSON).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    topic: String,
    /// The offset of the next message of each partition.
    next: BTreeMap<u32, i64>,
    ended: bool,
    /// How often the source went on although its place was gone.
    changes: u64,
    skips: Vec<Finished>,
}

impl<T: Tuple, C: MqConsumer> QueueSource<T, C> {
    /// A source that makes tuples of messages with `map`. After a reset messages come again, and must
    /// give the same tuples. An error of `map` makes the message a bad row. At the very first it
    /// begins with the first message that each partition has.
    pub fn new(
        context: InstanceContext,
        config: QueueSourceConfig,
        consumer: Arc<C>,
        map: MapMessage<T>,
    ) -> Self {
        let letters = DeadLetters::new(&config.on_bad_row, &context);
        Self {
            config,
            consumer,
            map,
            context,
            at: Saved::default(),
            reading: None,
            letters,
            skipping: Skipping::default(),
        }
    }

    /// Up to the last one, if that is among them.
    fn take_all(
        &mut self,
        messages: &[QueueMessage],
        output: &mut Output<T>,
    ) -> Result<(), OperatorError> {
        for message in messages {
            if self.at.ended {
                break;
            }
            self.take(message, output)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        message: &QueueMessage,
        output: &mut Output<T>,
    ) -> Result<(), OperatorError> {
        let place = QueuePlace {
            partition: message.partition,
            offset: message.offset,
        };
        let passage = self.skipping.pass(&place);
        let letter = |reason| letter_of(&self.config.topic, message, place, reason);
        if self.letters.admit(passage, letter)? {
            match (self.map)(message) {
                Ok(Mapped::Tuples(tuples)) => output.extend(tuples),
                Ok(Mapped::End(tuples)) => {
                    output.extend(tuples);
                    self.at.ended = true;
                }
                Err(error) => self.letters.take(letter(error.to_string()))?,
            }
        }
        self.at.next.insert(message.partition, message.offset + 1);
        Ok(())
    }
}

impl<T, C> fmt::Debug for QueueSource<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueSource")
            .field("config", &self.config)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<T: Tuple, C: MqConsumer> Actor for QueueSource<T, C> {
    type Context = Context<Self>;
}

impl<T: Tuple, C: MqConsumer> Operator for QueueSource<T, C> {
    type Input = ();
    type Output = T;
    const STATE_TYPE: &'static str = super::STATE_TYPE;

    fn process(&mut self, _: Vec<()>, _: &mut Output<T>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        let mut saved = self.at.clone();
        saved.topic.clone_from(&self.config.topic);
        saved.skips = self.skipping.at_cut(cut.seq);
        Ok(Prepared {
            state: Some(Box::new(move |to| {
                serde_json::to_writer(to, &saved).map_err(Into::into)
            })),
            stage: self.letters.prepare(cut),
        })
    }

    fn reset(&mut self, state: &mut dyn std::io::Read, _version: u32) -> Result<(), OperatorError> {
        self.reading = None;
        self.letters.clear();
        let mut bytes = Vec::new();
        state.read_to_end(&mut bytes)?;
        let saved: Saved = serde_json::from_slice(&bytes)
            .map_err(|error| OperatorError::Retry(format!("the source's state: {error}")))?;
        if saved.topic != self.config.topic {
            return Err(OperatorError::Permanent(format!(
                "the state is of topic {}, and the source reads {}",
                saved.topic, self.config.topic
            )));
        }
        self.at = saved;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.reading = None;
        self.letters.clear();
        self.at = Saved::default();
        Ok(())
    }

    fn resumed_at(&mut self, _: u64, _: u64) -> Result<(), OperatorError> {
        self.skipping = Skipping::restored(std::mem::take(&mut self.at.skips));
        self.reading = Some(Reading::start(
            Arc::clone(&self.consumer),
            self.config.clone(),
            self.context.clone(),
            self.at.next.clone(),
        ));
        Ok(())
    }

    fn region_checkpointed(&mut self, _: u64, oldest_retained: u64) -> Result<(), OperatorError> {
        self.context.hook().at(Point::AfterCommitBeforeAck);
        commands::forget(&self.context, self.skipping.outlived(oldest_retained));
        Ok(())
    }

    fn committer(&self) -> Option<Arc<dyn Committer>> {
        self.letters.committer()
    }
}

impl<T: Tuple, C: MqConsumer> StartOperator for QueueSource<T, C> {
    fn poll_produce(
        &mut self,
        cx: &mut task::Context<'_>,
        output: &mut Output<T>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        if self.at.ended {
            return Poll::Ready(Ok(Produced::End));
        }
        let Some(reading) = &mut self.reading else {
            let text = "the source was not started".to_owned();
            return Poll::Ready(Err(OperatorError::Retry(text)));
        };
        let read = match reading.read.poll_recv(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(read)) => read,
            Poll::Ready(None) => {
                let text = "reading has ended".to_owned();
                return Poll::Ready(Err(OperatorError::Retry(text)));
            }
        };
        let taken = match read {
            Read::Commands(commands) => {
                let taken_up = self.skipping.take_up(commands, QueuePlace::read);
                taken_up.map_err(OperatorError::Permanent)
            }
            Read::Messages(messages) => self.take_all(&messages, output),
            Read::Begins(partition, next) => {
                self.at.next.insert(partition, next);
                Ok(())
            }
            Read::WentOn(partition, next) => {
                self.at.next.insert(partition, next);
                self.at.changes += 1;
                Ok(())
            }
            Read::Failed(error) => Err(error),
        };
        Poll::Ready(taken.map(|()| Produced::More))
    }
}

/// Position and changes in a state; see [`describe`](crate::source::describe).
pub(crate) fn describe(state: &[u8]) -> Option<(String, u64)> {
    let saved: Saved = serde_json::from_slice(state).ok()?;
    let places: Vec<String> = saved
        .next
        .iter()
        .map(|(partition, offset)| format!("{partition}:{offset}"))
        .collect();
    let ended = if saved.ended { ", ended" } else { "" };
    let place = format!("{} {}{ended}", saved.topic, places.join(" "));
    Some((place, saved.changes))
}

fn letter_of(topic: &str, message: &QueueMessage, place: QueuePlace, reason: String) -> DeadLetter {
    let payload = message.payload.as_deref().unwrap_or_default();
    DeadLetter {
        source: topic.to_owned(),
        position: place.to_string(),
        row: shown(&String::from_utf8_lossy(payload)),
        reason,
    }
}
