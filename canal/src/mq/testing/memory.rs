//! A queue within the process.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::mq::{FetchLimits, Fetched, MqConsumer, MqError, MqProducer, ReceivedMessage};

/// A queue in memory, for tests: both sides of it, with faults on demand. Cheap to clone; all
/// clones are the same queue.
///
/// ```
/// use lockkeeper_canal::mq::testing::MemoryQueue;
///
/// let queue = MemoryQueue::default();
/// queue.create("changes", 4);
/// // give clones to an MqForwarder and an MqConnector …
/// assert!(queue.messages("changes", 0).is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryQueue {
    state: Arc<Mutex<State>>,
    /// Changes with every message that is written, and when it goes down or comes back.
    written: Arc<watch::Sender<u64>>,
    /// Changes with every question.
    asked: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct State {
    topics: BTreeMap<String, Vec<Partition>>,
    faults: VecDeque<QueueFault>,
    down: bool,
}

#[derive(Debug, Default, Clone)]
struct Partition {
    first: i64,
    messages: Vec<Option<Bytes>>,
}

impl Partition {
    fn end(&self) -> i64 {
        let count = i64::try_from(self.messages.len()).unwrap_or(i64::MAX);
        self.first.saturating_add(count)
    }
}

/// What happens to a write, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueFault {
    /// Nothing is written.
    Lost,
    /// All is written, and the answer is lost.
    AnswerLost,
    /// The first message is written and the others are not, and the answer is lost.
    FirstOnly,
}

impl MemoryQueue {
    /// Makes a topic, or adds partitions to it.
    pub fn create(&self, topic: &str, partitions: usize) {
        let mut state = self.state();
        let topic = state.topics.entry(topic.to_owned()).or_default();
        topic.resize(partitions.max(topic.len()), Partition::default());
    }

    /// The next writes meet these faults, one each.
    pub fn inject(&self, faults: impl IntoIterator<Item = QueueFault>) {
        self.state().faults.extend(faults);
    }

    /// While it is down it answers nothing but [`MqError::Unavailable`].
    pub fn set_down(&self, down: bool) {
        self.state().down = down;
        self.written.send_modify(|written| *written += 1);
    }

    /// Removes a partition's first messages, as a retention does.
    pub fn remove(&self, topic: &str, partition: u32, count: usize) {
        let mut state = self.state();
        if let Ok(partition) = state.partition(topic, partition) {
            let count = count.min(partition.messages.len());
            partition.messages.drain(..count);
            partition.first += i64::try_from(count).unwrap_or(i64::MAX);
        }
    }

    /// Writes one message as it is, or one without content.
    pub fn push(&self, topic: &str, partition: u32, message: Option<Bytes>) {
        if let Ok(partition) = self.state().partition(topic, partition) {
            partition.messages.push(message);
        }
        self.written.send_modify(|written| *written += 1);
    }

    /// A partition's messages, those without content left out.
    pub fn messages(&self, topic: &str, partition: u32) -> Vec<Bytes> {
        let found = self
            .state()
            .partition(topic, partition)
            .map(|found| found.clone());
        found.map_or_else(
            |_| Vec::new(),
            |found| found.messages.into_iter().flatten().collect(),
        )
    }

    /// How often something was asked of it, while it was down as well.
    pub fn attempts(&self) -> u64 {
        *self.asked.borrow()
    }

    /// Resolves when `done` is true of the queue; it is looked at after every message that is
    /// written and every question.
    pub async fn wait_until(&self, mut done: impl FnMut(&Self) -> bool) {
        let (mut written, mut asked) = (self.written.subscribe(), self.asked.subscribe());
        while !done(self) {
            // The senders live as long as this queue.
            tokio::select! {
                _ = written.changed() => {}
                _ = asked.changed() => {}
            }
        }
    }

    /// The state for an answer.
    fn asked(&self) -> Result<MutexGuard<'_, State>, MqError> {
        self.asked.send_modify(|asked| *asked += 1);
        let state = self.state();
        match state.down {
            true => Err(MqError::Unavailable(
                "the queue in memory is down".to_owned(),
            )),
            false => Ok(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn partition(&mut self, topic: &str, partition: u32) -> Result<&mut Partition, MqError> {
        let found = self.topics.get_mut(topic);
        let partitions = found.ok_or_else(|| MqError::UnknownTopic(topic.to_owned()))?;
        let count = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        let index = usize::try_from(partition).unwrap_or(usize::MAX);
        partitions
            .get_mut(index)
            .ok_or_else(|| MqError::UnknownPartition {
                topic: topic.to_owned(),
                partition,
                partitions: count,
            })
    }

    fn count(&mut self, topic: &str) -> Result<u32, MqError> {
        let found = self.topics.get(topic);
        let partitions = found.ok_or_else(|| MqError::UnknownTopic(topic.to_owned()))?;
        Ok(u32::try_from(partitions.len()).unwrap_or(u32::MAX))
    }
}

impl MqProducer for MemoryQueue {
    async fn partitions(&self, topic: &str) -> Result<u32, MqError> {
        self.asked()?.count(topic)
    }

    async fn produce(
        &self,
        topic: &str,
        partition: u32,
        messages: Vec<Bytes>,
    ) -> Result<(), MqError> {
        let fault = {
            let mut state = self.asked()?;
            let fault = state.faults.pop_front();
            let kept = match fault {
                None | Some(QueueFault::AnswerLost) => messages.len(),
                Some(QueueFault::FirstOnly) => 1,
                Some(QueueFault::Lost) => 0,
            };
            let partition = state.partition(topic, partition)?;
            partition
                .messages
                .extend(messages.into_iter().take(kept).map(Some));
            fault
        };
        self.written.send_modify(|written| *written += 1);
        match fault {
            None => Ok(()),
            Some(fault) => Err(MqError::Unavailable(format!(
                "an injected fault: {fault:?}"
            ))),
        }
    }
}

impl MqConsumer for MemoryQueue {
    async fn partitions(&self, topic: &str) -> Result<u32, MqError> {
        self.asked()?.count(topic)
    }

    async fn range(&self, topic: &str, partition: u32) -> Result<Range<i64>, MqError> {
        let mut state = self.asked()?;
        let partition = state.partition(topic, partition)?;
        Ok(partition.first..partition.end())
    }

    async fn fetch(
        &self,
        topic: &str,
        partition: u32,
        from: i64,
        limits: FetchLimits,
    ) -> Result<Fetched, MqError> {
        let mut written = self.written.subscribe();
        let until = tokio::time::Instant::now() + limits.wait;
        loop {
            let fetched = self.fetch_now(topic, partition, from, limits.bytes)?;
            if !fetched.messages.is_empty() {
                return Ok(fetched);
            }
            tokio::select! {
                _ = written.changed() => {}
                () = tokio::time::sleep_until(until) => return Ok(fetched),
            }
        }
    }
}

impl MemoryQueue {
    fn fetch_now(
        &self,
        topic: &str,
        number: u32,
        from: i64,
        limit: usize,
    ) -> Result<Fetched, MqError> {
        let mut state = self.asked()?;
        let partition = state.partition(topic, number)?;
        let (earliest, end) = (partition.first, partition.end());
        let skipped = usize::try_from(from.saturating_sub(earliest));
        let Some(skipped) = skipped.ok().filter(|_| from <= end) else {
            return Err(MqError::OffsetOutOfRange {
                topic: topic.to_owned(),
                partition: number,
                offset: from,
                earliest,
                end,
            });
        };
        let mut bytes = 0;
        let mut messages = Vec::new();
        for (offset, payload) in (from..end).zip(&partition.messages[skipped..]) {
            bytes += payload.as_ref().map_or(0, Bytes::len);
            if bytes > limit && !messages.is_empty() {
                break;
            }
            messages.push(ReceivedMessage::new(offset, payload.clone()));
        }
        Ok(Fetched::new(messages, end))
    }
}
