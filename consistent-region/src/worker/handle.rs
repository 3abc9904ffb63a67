//! A worker as its owner holds it.

use std::marker::PhantomData;
use std::time::Duration;

use actix::{Addr, Message};
use tokio::sync::oneshot;

use crate::operator::Operator;
use crate::protocol::{InstanceId, Refusal, Stamp};

use super::actor::RegionWorker;
use super::machine::Dropped;

/// Why a worker has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEnd {
    /// The region has ended.
    RegionEnded,
    /// The coordinator will never take this worker: another graph or another region.
    Refused(Refusal),
    /// [`WorkerHandle::stop`] was called, or the actor has stopped.
    Stopped,
}

/// A running worker.
#[derive(Debug)]
pub struct WorkerHandle {
    pub(super) address: Addr<RegionWorker>,
    pub(super) ended: oneshot::Receiver<WorkerEnd>,
    #[cfg(feature = "remote")]
    pub(super) endpoint: Option<lockkeeper_core::RpcServer<super::remote::WorkerEndpoint>>,
}

impl WorkerHandle {
    /// The worker's actor.
    #[must_use]
    pub fn address(&self) -> &Addr<RegionWorker> {
        &self.address
    }

    /// Where other processes reach the worker; `None` for one that lives in one process or has
    /// ended.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn rpc_address(&self) -> Option<lockkeeper_core::RpcAddress> {
        self.endpoint
            .as_ref()
            .map(lockkeeper_core::RpcServer::address)
    }

    /// The actor of an instance that runs here, if it is one of type `A`: operators may handle
    /// messages of their own. It is another one after the instance was replaced; messages take no
    /// part in cuts.
    pub async fn operator<A: Operator>(&self, instance: InstanceId) -> Option<Addr<A>> {
        let ask = GetOperator(instance, PhantomData);
        self.address.send(ask).await.ok().flatten()
    }

    /// Ends the worker without a cut. Nothing of it acts from now on; then its coordinator is told, for
    /// [`call_timeout`](super::WorkerConfig::call_timeout) at most, so that what it ran goes to other workers at
    /// once if they have room, and to the next of its name otherwise.
    pub fn stop(&self) {
        // A worker that has stopped already is what is wanted.
        let _ = self.address.try_send(Stop);
    }

    /// Waits until the worker has ended, and its endpoint with it.
    pub async fn ended(&mut self) -> WorkerEnd {
        let end = (&mut self.ended).await.unwrap_or(WorkerEnd::Stopped);
        #[cfg(feature = "remote")]
        if let Some(endpoint) = self.endpoint.take()
            && let Err(error) = endpoint.terminate().await
        {
            tracing::debug!(%error, "the worker's endpoint did not end by itself");
        }
        end
    }
}

#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Stop;

pub(super) struct GetOperator<A>(pub(super) InstanceId, pub(super) PhantomData<fn() -> A>);

impl<A: Operator> Message for GetOperator<A> {
    type Result = Option<Addr<A>>;
}

/// Asks a worker how it stands.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "WorkerStatus")]
pub struct GetStatus;

/// How a worker stands.
#[derive(Debug, Clone, PartialEq, Eq, actix::dev::MessageResponse)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// The newest round that it knows of.
    pub stamp: Stamp,
    /// The newest complete cut that it knows of.
    pub completed: u64,
    /// The instances that it runs.
    pub instances: Vec<InstanceId>,
    /// How long it may still act if no heartbeat is answered.
    pub lease: Duration,
    /// Its sources take nothing in: the region is paused by hand.
    pub sources_paused: bool,
    /// Messages that were dropped because they were out of date.
    pub dropped: Dropped,
}
