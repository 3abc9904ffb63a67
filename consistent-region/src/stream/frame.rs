//! What passes between two workers: batches as bytes, each with its number.
//!
//! A channel has one frame in flight: the next one is sent when the receiver had room for the one
//! before. A frame whose answer was lost is sent again under its number and taken once.

use std::fmt;

use futures_util::future::BoxFuture;
use lockkeeper_core::codec;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::{Mutex, mpsc};

use crate::operator::Tuple;

use super::BATCH_TUPLES;
use super::element::{Element, Item, Marker};

/// A batch above this many bytes is sent in parts; one tuple must fit the transport's frame limit.
const PART_BYTES: usize = 4 * 1024 * 1024;

/// A batch or a marker on its way to another worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// Tuples, written by `rmp-serde` with field names.
    Batch(Payload),
    /// The drain marker of a cut.
    Drain {
        /// The cut.
        seq: u64,
        /// The region ends with it.
        last: bool,
        /// The complete cut before it; 0: none.
        completed: u64,
    },
}

/// Bytes that are written as bytes, not as a list of numbers.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(pub Vec<u8>);

/// Why a worker does not take a frame. Typed by what the sender does next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum StreamRefusal {
    /// The receiver has not heard of this attempt: try again soon.
    #[error("the receiver has not been reset to this attempt yet")]
    NotYet,
    /// The attempt is over: stop sending.
    #[error("the stream is of an attempt that is over")]
    Superseded,
    /// The receiving instance has closed the stream, or does not run there: stop sending.
    #[error("the receiving instance has closed the stream")]
    Closed,
    /// A frame before this one is missing: the stream is broken.
    #[error("frame {got} came instead of {expected}")]
    Gap {
        /// The number that was expected.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// The tuples can't be read: the programs differ.
    #[error("the tuples can't be read: {0}")]
    Undecodable(String),
}

/// Takes tuples out of a channel, to write them.
pub(crate) trait Outbound: Send {
    /// The next frames; `None` when the sending instance has closed its streams.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Vec<Frame>, String>>>;
}

pub(crate) struct TypedOutbound<T> {
    receiver: mpsc::Receiver<Element<T>>,
    /// Came while a batch was filled up, and did not fit.
    carried: Option<Item<T>>,
}

impl<T: Tuple> TypedOutbound<T> {
    pub(crate) fn new(receiver: mpsc::Receiver<Element<T>>) -> Self {
        Self {
            receiver,
            carried: None,
        }
    }

    async fn next_item(&mut self) -> Option<Item<T>> {
        let first = match self.carried.take() {
            Some(item) => item,
            None => self.receiver.recv().await?.item,
        };
        let Item::Batch(mut tuples) = first else {
            return Some(first);
        };
        // A keyed route makes small batches: what waits already goes along.
        while let Ok(Element { item, .. }) = self.receiver.try_recv() {
            match item {
                Item::Batch(more) if tuples.len() + more.len() <= BATCH_TUPLES => {
                    tuples.extend(more);
                }
                other => {
                    self.carried = Some(other);
                    break;
                }
            }
        }
        Some(Item::Batch(tuples))
    }
}

impl<T: Tuple> Outbound for TypedOutbound<T> {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Vec<Frame>, String>>> {
        Box::pin(async {
            Some(match self.next_item().await? {
                Item::Marker(Marker {
                    seq,
                    last,
                    completed,
                }) => Ok(vec![Frame::Drain {
                    seq,
                    last,
                    completed,
                }]),
                Item::Batch(tuples) => {
                    let mut frames = Vec::with_capacity(1);
                    encode(&tuples, &mut frames).map(|()| frames)
                }
            })
        })
    }
}

fn encode<T: Serialize>(tuples: &[T], frames: &mut Vec<Frame>) -> Result<(), String> {
    let bytes = rmp_serde::to_vec_named(tuples).map_err(|error| error.to_string())?;
    if bytes.len() > PART_BYTES && tuples.len() > 1 {
        let (first, second) = tuples.split_at(tuples.len() / 2);
        encode(first, frames)?;
        return encode(second, frames);
    }
    frames.push(Frame::Batch(Payload(bytes)));
    Ok(())
}

/// Puts tuples from another worker into a channel.
pub(crate) trait Inbound: Send + Sync {
    /// Resolves when the channel had room.
    fn deliver(&self, number: u64, frame: Frame) -> BoxFuture<'_, Result<(), StreamRefusal>>;
}

pub(crate) struct TypedInbound<T> {
    channel: usize,
    sender: mpsc::Sender<Element<T>>,
    /// The number of the next frame. Held while a frame waits for room, so that its repetition
    /// waits for the outcome.
    next: Mutex<u64>,
}

impl<T: Tuple> TypedInbound<T> {
    pub(crate) fn new(channel: usize, sender: mpsc::Sender<Element<T>>) -> Self {
        Self {
            channel,
            sender,
            next: Mutex::new(0),
        }
    }
}

impl<T: Tuple> Inbound for TypedInbound<T> {
    fn deliver(&self, number: u64, frame: Frame) -> BoxFuture<'_, Result<(), StreamRefusal>> {
        Box::pin(async move {
            let mut next = self.next.lock().await;
            if number < *next {
                return Ok(());
            }
            if number > *next {
                return Err(StreamRefusal::Gap {
                    expected: *next,
                    got: number,
                });
            }
            let item = match frame {
                Frame::Drain {
                    seq,
                    last,
                    completed,
                } => Item::Marker(Marker {
                    seq,
                    last,
                    completed,
                }),
                Frame::Batch(Payload(bytes)) => Item::Batch(
                    // bounded: what nests too deeply must not end this worker's process
                    codec::decode(&bytes).map_err(StreamRefusal::Undecodable)?,
                ),
            };
            let room = self
                .sender
                .reserve()
                .await
                .map_err(|_| StreamRefusal::Closed)?;
            room.send(Element {
                channel: self.channel,
                item,
            });
            *next += 1;
            Ok(())
        })
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(PayloadVisitor)
    }
}

struct PayloadVisitor;

impl<'de> Visitor<'de> for PayloadVisitor {
    type Value = Payload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Payload, E> {
        Ok(Payload(bytes.to_vec()))
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Payload, E> {
        Ok(Payload(bytes))
    }

    /// A format without bytes writes a list.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Payload, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(Payload(bytes))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::poll_immediate;

    use super::*;

    fn batch(tuples: &[u64]) -> Frame {
        let mut frames = Vec::new();
        encode(tuples, &mut frames).unwrap();
        frames.pop().unwrap()
    }

    #[tokio::test]
    async fn a_repeated_frame_is_taken_once_and_a_missing_one_is_noticed() {
        let (sender, mut receiver) = mpsc::channel::<Element<u64>>(4);
        let inbound = TypedInbound::new(3, sender);
        for _ in 0..2 {
            assert_eq!(inbound.deliver(0, batch(&[1, 2])).await, Ok(()));
        }
        let gap = StreamRefusal::Gap {
            expected: 1,
            got: 2,
        };
        assert_eq!(inbound.deliver(2, batch(&[5])).await, Err(gap));
        let drain = Frame::Drain {
            seq: 9,
            last: true,
            completed: 7,
        };
        assert_eq!(inbound.deliver(1, drain).await, Ok(()));
        drop(inbound);
        let mut got = Vec::new();
        while let Some(element) = receiver.recv().await {
            assert_eq!(element.channel, 3);
            got.push(element.item);
        }
        assert_eq!(
            got,
            [
                Item::Batch(vec![1, 2]),
                Item::Marker(Marker {
                    seq: 9,
                    last: true,
                    completed: 7
                })
            ]
        );
    }

    #[tokio::test]
    async fn a_frame_waits_for_room_and_its_repetition_for_its_outcome() {
        let (sender, mut receiver) = mpsc::channel::<Element<u64>>(1);
        let inbound = TypedInbound::new(0, sender);
        inbound.deliver(0, batch(&[1])).await.unwrap();
        let mut waiting = inbound.deliver(1, batch(&[2]));
        let mut repeated = inbound.deliver(1, batch(&[2]));
        assert_eq!(poll_immediate(&mut waiting).await, None);
        assert_eq!(poll_immediate(&mut repeated).await, None);
        receiver.recv().await.unwrap();
        assert_eq!(waiting.await, Ok(()));
        assert_eq!(repeated.await, Ok(()));
        receiver.recv().await.unwrap();
        assert!(receiver.try_recv().is_err());
    }

    #[tokio::test]
    async fn tuples_that_are_none_are_refused() {
        let (sender, _receiver) = mpsc::channel::<Element<u64>>(1);
        let inbound = TypedInbound::new(0, sender);
        let answer = inbound.deliver(0, Frame::Batch(Payload(vec![0xc1]))).await;
        assert!(matches!(answer, Err(StreamRefusal::Undecodable(_))));
    }

    /// A tuple that nests.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Nested(Vec<Nested>, Option<Box<Nested>>);

    #[tokio::test]
    async fn tuples_that_nest_too_deeply_are_refused_and_exhaust_no_stack() {
        let (sender, _receiver) = mpsc::channel::<Element<Nested>>(1);
        let inbound = TypedInbound::new(0, sender);
        // [[[], [[], …]]]
        let bytes = [&[0x91][..], &[0x92, 0x90].repeat(100_000), &[0xc0]].concat();
        let answer = inbound.deliver(0, Frame::Batch(Payload(bytes))).await;
        let Err(StreamRefusal::Undecodable(why)) = answer else {
            panic!("{answer:?}");
        };
        assert!(why.contains("deeper than 128 levels"), "{why}");
    }

    #[tokio::test]
    async fn small_batches_travel_together_and_large_ones_in_parts() {
        let (sender, receiver) = mpsc::channel::<Element<String>>(8);
        let send = |item| sender.try_send(Element { channel: 0, item }).unwrap();
        send(Item::Batch(vec!["a".to_owned()]));
        send(Item::Batch(vec!["b".to_owned()]));
        send(Item::Marker(Marker {
            seq: 1,
            last: false,
            completed: 0,
        }));
        send(Item::Batch(vec![
            "x".repeat(PART_BYTES),
            "y".repeat(PART_BYTES),
        ]));
        drop(sender);
        let mut outbound = TypedOutbound::new(receiver);
        let mut counts = Vec::new();
        while let Some(frames) = outbound.next().await {
            counts.push(frames.unwrap().len());
        }
        assert_eq!(counts, [1, 1, 2]);
    }

    #[test]
    fn a_payload_is_written_as_bytes() {
        let written = rmp_serde::to_vec(&Payload(vec![200; 100])).unwrap();
        assert_eq!(written.len(), 102);
        assert_eq!(
            rmp_serde::from_slice::<Payload>(&written).unwrap(),
            Payload(vec![200; 100])
        );
    }
}
