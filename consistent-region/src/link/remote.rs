//! Links between processes: the protocol's messages as typed calls (feature `remote`).
//!
//! The coordinator's endpoint is fenced by its leadership's token: a deposed coordinator answers
//! nobody, and a worker with an old token is told so. Workers find the leader by retrieval
//! ([`RemoteLink`]); the coordinator reaches a worker at the address that it registered with, where
//! an endpoint must serve [`WorkerGateway`] ([`NoticeEndpoint`], or an actor of your own that hands
//! [`PushNotice`] to a [`WorkerInboxSender`]).
//!
//! [`WorkerInboxSender`]: super::local::WorkerInboxSender

mod coordinator;
mod worker;

pub(crate) use self::coordinator::CoordinatorEndpoint;
pub use self::worker::{NoticeEndpoint, RemoteLink};

use actix::Message;
use lockkeeper_core::rpc_gateway;
use serde::{Deserialize, Serialize};

use crate::protocol::{
    Heartbeat, HeartbeatAnswer, Notice, Progress, Refusal, Register, Registered,
};

/// See [`CoordinatorLink::register`](super::CoordinatorLink::register).
#[derive(Debug, Clone, PartialEq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<Registered, Refusal>")]
pub struct RegisterWorker(pub Register);

/// See [`CoordinatorLink::heartbeat`](super::CoordinatorLink::heartbeat).
#[derive(Debug, Clone, PartialEq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<HeartbeatAnswer, Refusal>")]
pub struct WorkerHeartbeat(pub Heartbeat);

/// See [`CoordinatorLink::progress`](super::CoordinatorLink::progress).
#[derive(Debug, Clone, PartialEq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<(), Refusal>")]
pub struct ReportProgress(pub Progress);

/// See [`WorkerLink::push`](super::WorkerLink::push).
#[derive(Debug, Clone, PartialEq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct PushNotice(pub Notice);

rpc_gateway! {
    /// What a worker asks its coordinator.
    pub fenced CoordinatorGateway("lockkeeper.region.Coordinator", version = 1) {
        RegisterWorker, WorkerHeartbeat, ReportProgress
    }
}

rpc_gateway! {
    /// What a coordinator tells a worker.
    pub WorkerGateway("lockkeeper.region.Worker", version = 1) { PushNotice }
}
