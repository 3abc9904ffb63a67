//! Opens the streams that cross the worker's border.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use lockkeeper_core::RpcService;

use crate::graph::Region;
use crate::operator::Place;
use crate::protocol::Stamp;
use crate::worker::wiring::Wiring;

use super::outbound::{Crossing, send_stream};
use super::{Generation, InboundStreams};

/// What a worker with streams to other processes has besides.
pub(crate) struct Border {
    pub(crate) service: RpcService,
    pub(crate) streams: InboundStreams,
}

impl Border {
    /// Opens the streams from other workers and makes those to others; `None` when types differ.
    pub(crate) fn open(
        &self,
        region: &Region,
        place: &Place,
        stamp: Stamp,
        wiring: &mut Wiring,
    ) -> Option<FuturesUnordered<BoxFuture<'static, Option<String>>>> {
        let attempt = stamp.attempt;
        let worker_epoch = wiring.worker_epoch;
        let mut inbound = HashMap::new();
        for (channel, sender) in wiring.inbound.drain() {
            let connection = region.plan().channels[channel].connection;
            inbound.insert(
                channel,
                region.connection(connection).inbound(channel, sender)?,
            );
        }
        self.streams.open(
            Generation {
                attempt,
                worker_epoch,
            },
            inbound,
        );
        let leaving = FuturesUnordered::new();
        for stream in wiring.outbound.drain(..) {
            let items = region
                .connection(stream.connection)
                .outbound(stream.receiver)?;
            let crossing = Crossing {
                place: place.clone(),
                service: self.service.clone(),
                address: stream.address,
                generation: Generation {
                    attempt,
                    worker_epoch: stream.worker_epoch,
                },
                channel: u32::try_from(stream.channel).ok()?,
            };
            leaving.push(Box::pin(send_stream(crossing, items)) as BoxFuture<'static, _>);
        }
        Some(leaving)
    }
}
