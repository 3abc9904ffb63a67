//! What coordinator and workers send to each other.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use lockkeeper_core::codec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::link::remote::{PushNotice, RegisterWorker, ReportProgress, WorkerHeartbeat};
use crate::operator::Tuple;
use crate::protocol::{HeartbeatAnswer, Refusal, Registered};
use crate::stream::{Frame, Inbound as _, Payload, StreamRefusal, TypedInbound};
use crate::worker::StreamFrame;

/// Messages and answers of the region's protocol, and tuples of a stream: what is read is written
/// again as bytes that are the same message, and tuples are taken or refused.
///
/// # Panics
/// When not.
pub fn worker(bytes: &[u8]) {
    message::<RegisterWorker>(bytes);
    message::<Result<Registered, Refusal>>(bytes);
    message::<WorkerHeartbeat>(bytes);
    message::<Result<HeartbeatAnswer, Refusal>>(bytes);
    message::<ReportProgress>(bytes);
    message::<PushNotice>(bytes);
    message::<StreamFrame>(bytes);
    message::<Result<(), StreamRefusal>>(bytes);
    tuples::<u64>(bytes);
    tuples::<Order>(bytes);
    tuples::<Tree>(bytes);
}

fn message<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(message) = codec::decode::<T>(bytes) {
        let written = codec::encode(&message).expect("what was decoded can be encoded");
        let again = codec::decode::<T>(&written).expect("what was encoded can be decoded");
        assert_eq!(codec::encode(&again).as_ref(), Ok(&written));
    }
}

/// A tuple as users have them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    customer: String,
    amounts: Vec<f64>,
    note: Option<String>,
    tags: BTreeMap<String, i32>,
}

/// A tuple that nests to any depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Tree {
    children: Vec<Tree>,
    parent: Option<Box<Tree>>,
}

fn tuples<T: Tuple>(bytes: &[u8]) {
    let (sender, mut receiver) = mpsc::channel(1);
    let inbound = TypedInbound::<T>::new(0, sender);
    let frame = Frame::Batch(Payload(bytes.to_vec()));
    let delivered = inbound.deliver(0, frame).now_or_never();
    match delivered.expect("there is room") {
        Ok(()) => assert!(receiver.try_recv().is_ok(), "taken, and not there"),
        Err(refusal) => assert!(
            matches!(refusal, StreamRefusal::Undecodable(_)),
            "{refusal}"
        ),
    }
}
