//! What every queue behind [`MqProducer`] and [`MqConsumer`] has to do, as functions that panic when
//! it does not. Run each of them with topics of its own.
//!
//! These tests may grow with any release: they are for implementations, not for programs.

use std::time::Duration;

use bytes::Bytes;

use crate::mq::{FetchLimits, MqConsumer, MqError, MqProducer, ReceivedMessage};

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(60);

/// Room for everything that these tests write.
const ALL: FetchLimits = FetchLimits {
    bytes: 1 << 20,
    wait: Duration::from_secs(30),
};

fn text(number: usize) -> Bytes {
    Bytes::from(format!("message {number}"))
}

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(HANG, work).await {
        Ok(value) => value,
        Err(_) => panic!("{what} hangs"),
    }
}

async fn all_from(consumer: &impl MqConsumer, topic: &str, partition: u32) -> Vec<ReceivedMessage> {
    let range = consumer.range(topic, partition).await.expect("the range");
    let (mut next, mut all) = (range.start, Vec::new());
    while next < range.end {
        let fetched = consumer
            .fetch(topic, partition, next, ALL)
            .await
            .expect("a fetch");
        next = fetched
            .messages
            .last()
            .expect("a message that is there")
            .offset
            + 1;
        all.extend(fetched.messages);
    }
    all
}

fn payloads(messages: &[ReceivedMessage]) -> Vec<Bytes> {
    messages
        .iter()
        .filter_map(|message| message.payload.clone())
        .collect()
}

/// Messages come out of a partition as they went in: all, once, in order, whatever is in them, and
/// those of other partitions do not.
///
/// # Panics
/// When they do not. `topic` must be empty, with two partitions.
pub async fn messages_keep_their_order(
    producer: &impl MqProducer,
    consumer: &impl MqConsumer,
    topic: &str,
) {
    in_time("producing and fetching", async {
        assert_eq!(
            producer.partitions(topic).await,
            Ok(2),
            "partitions, to a producer"
        );
        assert_eq!(
            consumer.partitions(topic).await,
            Ok(2),
            "partitions, to a consumer"
        );
        let bytes = Bytes::from((0..=u8::MAX).collect::<Vec<_>>());
        let first: Vec<_> = (0..100)
            .map(text)
            .chain([Bytes::from_static(b"x"), bytes])
            .collect();
        for chunk in first.chunks(7) {
            producer
                .produce(topic, 0, chunk.to_vec())
                .await
                .expect("produced");
        }
        producer
            .produce(topic, 1, vec![text(1000)])
            .await
            .expect("produced");
        let messages = all_from(consumer, topic, 0).await;
        assert_eq!(payloads(&messages), first);
        assert!(
            messages.is_sorted_by(|a, b| a.offset < b.offset),
            "offsets grow"
        );
        assert_eq!(payloads(&all_from(consumer, topic, 1).await), [text(1000)]);
    })
    .await;
}

/// A fetch begins with the offset that is asked for, brings no more than its limit but always one
/// message, and says where the partition ends.
///
/// # Panics
/// When it does not. `topic` must be empty, with two partitions.
pub async fn a_fetch_keeps_its_limits(
    producer: &impl MqProducer,
    consumer: &impl MqConsumer,
    topic: &str,
) {
    in_time("fetching by limits", async {
        let large = Bytes::from(vec![b'x'; 100_000]);
        for _ in 0..4 {
            producer
                .produce(topic, 0, vec![large.clone()])
                .await
                .expect("produced");
        }
        let range = consumer.range(topic, 0).await.expect("the range");
        let small = FetchLimits { bytes: 1000, ..ALL };
        let one = consumer
            .fetch(topic, 0, range.start, small)
            .await
            .expect("one message");
        assert_eq!(one.messages.len(), 1, "one above the limit comes alone");
        assert_eq!(one.end, range.end);
        let two = FetchLimits {
            bytes: 250_000,
            ..ALL
        };
        let two = consumer
            .fetch(topic, 0, range.start + 1, two)
            .await
            .expect("two messages");
        assert_eq!(two.messages[0].offset, range.start + 1);
        assert!(
            (1..=2).contains(&two.messages.len()),
            "{} messages",
            two.messages.len()
        );
    })
    .await;
}

/// A fetch at the end waits for the next message, and gives nothing when none comes in its time.
///
/// # Panics
/// When it does not. `topic` must be empty, with two partitions.
pub async fn a_fetch_at_the_end_waits(
    producer: &impl MqProducer,
    consumer: &impl MqConsumer,
    topic: &str,
) {
    in_time("waiting at the end", async {
        let end = consumer.range(topic, 0).await.expect("the range").end;
        let short = FetchLimits {
            wait: Duration::from_millis(1),
            ..ALL
        };
        let nothing = consumer
            .fetch(topic, 0, end, short)
            .await
            .expect("an empty fetch");
        assert_eq!(nothing.messages, []);
        let (fetched, produced) = futures_util::future::join(
            consumer.fetch(topic, 0, end, ALL),
            producer.produce(topic, 0, vec![text(1)]),
        )
        .await;
        produced.expect("produced");
        let fetched = fetched.expect("fetched");
        assert_eq!(payloads(&fetched.messages), [text(1)]);
        assert_eq!(fetched.messages[0].offset, end);
    })
    .await;
}

/// An offset that the partition does not have is a typed error that names what there is.
///
/// # Panics
/// When it is not. `topic` must be empty, with two partitions.
pub async fn an_offset_that_is_not_there_is_an_error(
    producer: &impl MqProducer,
    consumer: &impl MqConsumer,
    topic: &str,
) {
    in_time("a fetch out of range", async {
        producer
            .produce(topic, 0, vec![text(0)])
            .await
            .expect("produced");
        let range = consumer.range(topic, 0).await.expect("the range");
        for offset in [range.end + 1, range.end + 1000] {
            let failed = consumer
                .fetch(topic, 0, offset, ALL)
                .await
                .expect_err("out of range");
            let wanted = MqError::OffsetOutOfRange {
                topic: topic.to_owned(),
                partition: 0,
                offset,
                earliest: range.start,
                end: range.end,
            };
            assert_eq!(failed, wanted);
            assert!(!failed.is_retryable());
        }
    })
    .await;
}

/// A partition that the topic does not have is a typed error, on both sides.
///
/// # Panics
/// When it is not. `topic` must have two partitions.
pub async fn a_partition_that_is_not_there_is_an_error(
    producer: &impl MqProducer,
    consumer: &impl MqConsumer,
    topic: &str,
) {
    in_time("an unknown partition", async {
        let wanted = MqError::UnknownPartition {
            topic: topic.to_owned(),
            partition: 2,
            partitions: 2,
        };
        assert_eq!(
            producer.produce(topic, 2, vec![text(0)]).await,
            Err(wanted.clone())
        );
        assert_eq!(consumer.range(topic, 2).await, Err(wanted.clone()));
        assert_eq!(consumer.fetch(topic, 2, 0, ALL).await, Err(wanted));
    })
    .await;
}

/// A topic that is not there is a typed error to a reader: nothing is made by asking.
///
/// # Panics
/// When it is not.
pub async fn a_topic_that_is_not_there_is_an_error(consumer: &impl MqConsumer, topic: &str) {
    in_time("an unknown topic", async {
        let wanted = MqError::UnknownTopic(topic.to_owned());
        assert_eq!(consumer.partitions(topic).await, Err(wanted.clone()));
        assert_eq!(consumer.range(topic, 0).await, Err(wanted.clone()));
        assert_eq!(consumer.fetch(topic, 0, 0, ALL).await, Err(wanted));
    })
    .await;
}
