//! A region's graph, with how far each instance is in the round that flows through it.

use lockkeeper_core::status::{Level, StatusEdge, StatusGraph, StatusNode};

use super::{phase_name, phase_of};
use crate::coordinator::status::{RegionState, RegionStatus, RoundPhase};
use crate::graph::topology::{OperatorNode, Topology};

/// The picture of a region in this state.
pub(super) fn of(topology: &Topology, status: &RegionStatus) -> StatusGraph {
    let flows = matches!(
        status.state,
        RegionState::Processing | RegionState::CheckpointPending
    );
    let nodes = topology.operators.iter();
    let edges = topology.connections.iter().map(|connection| StatusEdge {
        from: connection.from,
        to: connection.to,
        flows,
    });
    StatusGraph {
        caption: caption(status),
        nodes: nodes.map(|operator| node(operator, status)).collect(),
        edges: edges.collect(),
    }
}

fn caption(status: &RegionStatus) -> String {
    let Some(round) = &status.round else {
        return match status.state {
            RegionState::Processing => "tuples flow, no round is under way".to_owned(),
            RegionState::Resetting => "the operators are set back".to_owned(),
            state => format!("{state:?}"),
        };
    };
    let seq = round.seq;
    let at = |phase| round.workers.iter().filter(|(_, is)| *is >= phase).count();
    let all = round.workers.len();
    if round.publishing {
        format!("round {seq}: the manifest is being written")
    } else {
        let (drained, durable) = (at(RoundPhase::Writing), at(RoundPhase::Durable));
        format!("round {seq}: {drained} of {all} workers drained, {durable} durable")
    }
}

fn node(operator: &OperatorNode, status: &RegionStatus) -> StatusNode {
    let instances = (0..operator.width).map(|index| instance(&operator.name, index, status));
    let instances: Vec<(&'static str, Level)> = instances.collect();
    // The node is as far as the instance that is least far.
    let level = instances.iter().map(|(_, level)| *level).max();
    let least = instances.iter().max_by_key(|(_, level)| *level);
    let least = least.map_or("", |(text, _)| *text);
    let count = instances.iter().filter(|(text, _)| *text == least).count();
    let text = if count == instances.len() {
        least.to_owned()
    } else {
        format!("{least}: {count} of {}", instances.len())
    };
    StatusNode {
        name: operator.name.clone(),
        text,
        level: level.unwrap_or_default(),
        parts: instances.into_iter().map(|(_, level)| level).collect(),
    }
}

fn instance(operator: &str, index: u16, status: &RegionStatus) -> (&'static str, Level) {
    let is_it = |instance: &crate::protocol::InstanceId| {
        instance.operator == operator && instance.index == index
    };
    if status.waiting.iter().any(is_it) {
        return ("no place", Level::Bad);
    }
    let mut workers = status.workers.iter();
    let Some(worker) = workers.find(|worker| worker.instances.iter().any(is_it)) else {
        // Not a member of the region, or nothing is placed yet.
        return ("", Level::Neutral);
    };
    match status.state {
        RegionState::Processing => ("flows", Level::Good),
        RegionState::Resetting => ("set back", Level::Warning),
        RegionState::Completed => ("completed", Level::Good),
        RegionState::Draining | RegionState::CheckpointPending => {
            match phase_of(status, &worker.worker) {
                Some(RoundPhase::Durable) => (phase_name(RoundPhase::Durable), Level::Good),
                Some(phase) => (phase_name(phase), Level::Busy),
                None => ("takes no part", Level::Neutral),
            }
        }
        RegionState::Failed => ("failed", Level::Bad),
        RegionState::Opening
        | RegionState::Started
        | RegionState::Unhealthy
        | RegionState::Ending => ("paused", Level::Busy),
    }
}
