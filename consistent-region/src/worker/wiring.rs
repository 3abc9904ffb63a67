//! The streams of one attempt: which instance sends to which, and by what.

use std::collections::{BTreeMap, HashMap};

use crate::graph::Region;
use crate::graph::plan::Channel;
use crate::graph::spec::Erased;
use crate::protocol::{InstanceId, Placement};
use crate::stream::BATCHES_PER_SENDER;

/// The ends that one instance gets.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) input: Option<Erased>,
    pub(crate) sides: Vec<Erased>,
    pub(crate) channels: Vec<usize>,
    pub(crate) routes: Vec<Erased>,
}

/// A stream that leaves the worker.
#[cfg_attr(
    not(feature = "remote"),
    expect(dead_code, reason = "needs a transport")
)]
pub(crate) struct Leaving {
    pub(crate) channel: usize,
    pub(crate) connection: usize,
    pub(crate) receiver: Erased,
    pub(crate) worker_epoch: u64,
    pub(crate) address: String,
}

/// The streams of one attempt, as far as they touch one worker.
#[derive(Default)]
#[cfg_attr(
    not(feature = "remote"),
    expect(dead_code, reason = "needs a transport")
)]
pub(crate) struct Wiring {
    /// The worker's registration in the placement; 0 when nothing is placed on it.
    pub(crate) worker_epoch: u64,
    pub(crate) ends: BTreeMap<InstanceId, Ends>,
    /// Streams from other workers: where their batches go, by channel.
    pub(crate) inbound: HashMap<usize, Erased>,
    /// Streams to other workers.
    pub(crate) outbound: Vec<Leaving>,
}

/// A placement that this worker can't carry out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WiringError {
    #[error("{0} is placed nowhere")]
    NotPlaced(InstanceId),
    #[error("the streams of {0} do not fit: this is a defect")]
    Types(InstanceId),
}

/// Makes the channels of every instance in `mine`.
pub(crate) fn wire(
    region: &Region,
    placement: &Placement,
    mine: &[InstanceId],
) -> Result<Wiring, WiringError> {
    let plan = region.plan();
    let local: Vec<usize> = mine.iter().filter_map(|id| plan.index_of(id)).collect();
    let here = placement
        .instances
        .iter()
        .find(|placed| mine.contains(&placed.instance));
    let worker_epoch = here.map_or(0, |placed| placed.worker_epoch);
    let mut wiring = Wiring {
        worker_epoch,
        ..Wiring::default()
    };
    let mut senders: HashMap<usize, Erased> = HashMap::new();
    for &to in &local {
        let id = &plan.instances[to].id;
        let operator = plan.instances[to].operator;
        let is_member = region.members().all.contains(&operator);
        // A producer has no ordinary port.
        let ordinary = u16::from(!region.operator(operator).is_producer());
        let port = |planned: &Channel| region.topology().connections[planned.connection].input;
        let mut into: Vec<_> = plan.into_instance(to).collect();
        into.sort_by_key(|(channel, planned)| (port(planned), *channel));
        let ends = wiring.ends.entry(id.clone()).or_default();
        for feeds in into.chunk_by(|(_, one), (_, other)| port(one) == port(other)) {
            let first = feeds[0].1;
            let is_ordinary = port(first) < ordinary;
            // A sender may hold a slot that it does not use: each needs some of its own.
            let capacity = feeds.len() * BATCHES_PER_SENDER;
            let (sender, receiver) = region.connection(first.connection).channel(capacity);
            match is_ordinary {
                true => ends.input = Some(receiver),
                false => ends.sides.push(receiver),
            }
            for (channel, planned) in feeds {
                let clone = region.connection(planned.connection).clone_sender(&sender);
                let clone = clone.ok_or_else(|| WiringError::Types(id.clone()))?;
                // Who is not part of the region waits for no marker.
                if is_ordinary && is_member {
                    ends.channels.push(*channel);
                }
                match local.contains(&planned.from) {
                    true => senders.insert(*channel, clone),
                    false => wiring.inbound.insert(*channel, clone),
                };
            }
        }
    }
    for &from in &local {
        let id = &plan.instances[from].id;
        let mut routes: BTreeMap<usize, Vec<(usize, Erased)>> = BTreeMap::new();
        for (channel, planned) in plan.out_of_instance(from) {
            let sender = match senders.remove(&channel) {
                Some(sender) => sender,
                None => {
                    let (sender, receiver) = region
                        .connection(planned.connection)
                        .channel(BATCHES_PER_SENDER);
                    let to = &plan.instances[planned.to].id;
                    let placed = placement
                        .instances
                        .iter()
                        .find(|placed| &placed.instance == to);
                    let placed = placed.ok_or_else(|| WiringError::NotPlaced(to.clone()))?;
                    wiring.outbound.push(Leaving {
                        channel,
                        connection: planned.connection,
                        receiver,
                        worker_epoch: placed.worker_epoch,
                        address: placed.address.clone(),
                    });
                    sender
                }
            };
            routes
                .entry(planned.connection)
                .or_default()
                .push((channel, sender));
        }
        let ends = wiring.ends.entry(id.clone()).or_default();
        for (connection, senders) in routes {
            let route = region.connection(connection).route(senders);
            ends.routes
                .push(route.ok_or_else(|| WiringError::Types(id.clone()))?);
        }
    }
    Ok(wiring)
}
