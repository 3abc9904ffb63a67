//! What other processes can say to a worker.

use std::sync::Arc;

use actix::{Actor, Context, Handler, Message, ResponseFuture};
use lockkeeper_core::{RpcEndpoint, RpcError, RpcServer, RpcService, rpc_gateway};
use serde::{Deserialize, Serialize};

use crate::link::WorkerLink;
use crate::link::local::WorkerInboxSender;
use crate::link::remote::{PushNotice, WorkerGateway};
use crate::stream::{Frame, StreamRefusal};

use super::{Generation, InboundStreams};

/// A frame of a stream; answered when the receiving instance has room for the next one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Message)]
#[rtype(result = "Result<(), StreamRefusal>")]
pub struct StreamFrame {
    /// The reset attempt that the stream belongs to.
    pub attempt: u64,
    /// The receiver's registration in that attempt's placement.
    pub worker_epoch: u64,
    /// Index of the channel in the graph's plan.
    pub channel: u32,
    /// Counts the frames of the channel from 0; a repeated one keeps its number.
    pub number: u64,
    /// Tuples or a marker.
    pub frame: Frame,
}

rpc_gateway! {
    /// What workers can say to each other.
    pub StreamGateway("lockkeeper.region.Stream", version = 1) { StreamFrame }
}

#[derive(RpcEndpoint)]
#[rpc(gateways(WorkerGateway, StreamGateway))]
pub(crate) struct WorkerEndpoint {
    notices: WorkerInboxSender,
    streams: InboundStreams,
}

/// Starts the endpoint of a worker.
pub(crate) async fn start(
    service: &RpcService,
    name: &str,
    notices: WorkerInboxSender,
    streams: InboundStreams,
) -> Result<RpcServer<WorkerEndpoint>, RpcError> {
    let server = service
        .start_server(name, WorkerEndpoint { notices, streams })
        .await?;
    server.start().await?;
    Ok(server)
}

impl Actor for WorkerEndpoint {
    type Context = Context<Self>;
}

impl Handler<PushNotice> for WorkerEndpoint {
    type Result = ();

    fn handle(&mut self, PushNotice(notice): PushNotice, _: &mut Context<Self>) {
        self.notices.push(notice);
    }
}

impl Handler<StreamFrame> for WorkerEndpoint {
    type Result = ResponseFuture<Result<(), StreamRefusal>>;

    fn handle(&mut self, message: StreamFrame, _: &mut Context<Self>) -> Self::Result {
        let StreamFrame {
            attempt,
            worker_epoch,
            channel,
            number,
            frame,
        } = message;
        let generation = Generation {
            attempt,
            worker_epoch,
        };
        let channel = usize::try_from(channel).unwrap_or(usize::MAX);
        let stream = self.streams.find(generation, channel);
        Box::pin(async move { Arc::clone(&stream?).deliver(number, frame).await })
    }
}
