//! The graph spread out: its instances, and the channels between them.

use crate::protocol::InstanceId;

use super::key::stable_hash;
use super::topology::{InputPort, Partition, Role, Topology};

/// Every instance and every channel of a region. All processes of a region compute the same one,
/// so that a channel's index means the same everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The instances, operator by operator.
    pub instances: Vec<PlannedInstance>,
    /// One entry for each pair of instances that a connection joins.
    pub channels: Vec<Channel>,
}

/// An instance of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedInstance {
    /// Who it is.
    pub id: InstanceId,
    /// Index of its operator in the topology.
    pub operator: usize,
}

/// The channel from one instance to one other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Index of its connection in the topology.
    pub connection: usize,
    /// Index of the sending instance in the plan.
    pub from: usize,
    /// Index of the receiving instance in the plan.
    pub to: usize,
}

impl Plan {
    /// Spreads out a topology: every sending instance is joined to every receiving one.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let mut instances = Vec::new();
        let mut first = Vec::with_capacity(topology.operators.len());
        for (operator, node) in topology.operators.iter().enumerate() {
            first.push(instances.len());
            instances.extend((0..node.width).map(|index| PlannedInstance {
                id: InstanceId {
                    operator: node.name.clone(),
                    index,
                },
                operator,
            }));
        }
        let of = |operator: usize| {
            let width = usize::from(topology.operators[operator].width);
            first[operator]..first[operator] + width
        };
        let mut channels = Vec::new();
        for (connection, ends) in topology.connections.iter().enumerate() {
            for from in of(ends.from) {
                channels.extend(of(ends.to).map(|to| Channel {
                    connection,
                    from,
                    to,
                }));
            }
        }
        Self {
            instances,
            channels,
        }
    }

    /// The index of an instance.
    #[must_use]
    pub fn index_of(&self, id: &InstanceId) -> Option<usize> {
        self.instances
            .iter()
            .position(|instance| &instance.id == id)
    }

    /// The channels into an instance, with their indices, in ascending order.
    pub fn into_instance(&self, instance: usize) -> impl Iterator<Item = (usize, &Channel)> {
        self.channels
            .iter()
            .enumerate()
            .filter(move |(_, channel)| channel.to == instance)
    }

    /// The channels out of an instance, with their indices, connection by connection.
    pub fn out_of_instance(&self, instance: usize) -> impl Iterator<Item = (usize, &Channel)> {
        self.channels
            .iter()
            .enumerate()
            .filter(move |(_, channel)| channel.from == instance)
    }
}

/// A number that differs when two programs' graphs do: names, roles, widths, ports, connections
/// and the names of the operators' state formats (`state_types`, one for each operator).
#[must_use]
pub fn fingerprint(region: &str, topology: &Topology, state_types: &[&str]) -> u64 {
    hash(region, topology, state_types, |width| width)
}

/// The same for graphs that differ in widths only: what one has saved the other can restore, if
/// its operators can be restored at another width.
#[must_use]
pub fn structure(region: &str, topology: &Topology, state_types: &[&str]) -> u64 {
    hash(region, topology, state_types, |_| 0)
}

fn hash(
    region: &str,
    topology: &Topology,
    state_types: &[&str],
    width: impl Fn(u16) -> u16,
) -> u64 {
    let operators: Vec<_> = topology
        .operators
        .iter()
        .map(|operator| {
            let role = match operator.role {
                Role::Start => 0_u8,
                Role::Inner => 1,
                Role::Autonomous => 2,
                Role::CannotParticipate => 3,
            };
            let kind = |port: &InputPort| match port {
                InputPort { control: true, .. } => 1_u8,
                InputPort {
                    autonomous: true, ..
                } => 2,
                _ => 0,
            };
            let ports: Vec<u8> = operator.inputs.iter().map(kind).collect();
            (
                &operator.name,
                role,
                width(operator.width),
                ports,
                operator.outputs,
            )
        })
        .collect();
    let connections: Vec<_> = topology
        .connections
        .iter()
        .map(|c| {
            (
                c.from,
                c.output,
                c.to,
                c.input,
                match c.partition {
                    Partition::RoundRobin => 0_u8,
                    Partition::Keyed => 1,
                    Partition::Broadcast => 2,
                },
            )
        })
        .collect();
    stable_hash(&(region, operators, connections, state_types))
}
