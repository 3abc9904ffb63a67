//! A region's graph as plain data, and the rules that it must keep.
//!
//! [`check`] is a pure function: the rules of §2.2 of the reference (IBM Streams' compiler),
//! each with its own [`TopologyError`].

use std::collections::BTreeSet;

use super::error::TopologyError;

/// The greatest number of instances of one operator: every instance owns at least one key group.
pub const MAX_WIDTH: u16 = super::key::KEY_GROUPS;
/// The greatest number of operators of a region.
pub const MAX_OPERATORS: usize = 4_096;
/// The greatest number of connections of a region.
pub const MAX_CONNECTIONS: usize = 16_384;
/// The longest name of a region or operator, in characters.
pub const MAX_NAME: usize = 64;

/// Operators and what connects them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The operators; connections name them by their index here.
    pub operators: Vec<OperatorNode>,
    /// The streams. Two equal ones are two connections.
    pub connections: Vec<Connection>,
}

/// One operator of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorNode {
    /// Unique in the region.
    pub name: String,
    /// What it is to the region.
    pub role: Role,
    /// How many instances it has.
    pub width: u16,
    /// Its input ports.
    pub inputs: Vec<InputPort>,
    /// How many output ports it has.
    pub outputs: u16,
    /// The labels that a worker must have to run its instances. Not part of the fingerprint: where
    /// an operator runs changes nothing about what it does.
    pub labels: Vec<String>,
}

/// What an operator is to the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Tuples enter the region by it.
    Start,
    /// Part of the region if a start operator reaches it.
    Inner,
    /// Never part of the region: the walk from the start operators ends before it.
    Autonomous,
    /// Says of itself that it can't be drained and reset.
    CannotParticipate,
}

/// An input port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputPort {
    /// A control port may close a loop; its tuples change how the operator works and are not
    /// forwarded.
    pub control: bool,
    /// An autonomous port takes streams from outside the region, and takes no part in cuts.
    pub autonomous: bool,
}

/// A stream from an output port to an input port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Index of the sending operator.
    pub from: usize,
    /// Its output port.
    pub output: u16,
    /// Index of the receiving operator.
    pub to: usize,
    /// Its input port.
    pub input: u16,
    /// How tuples are shared out among the receiver's instances.
    pub partition: Partition,
}

/// How tuples are shared out among the instances of the receiving operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partition {
    /// Batch by batch, in turn.
    RoundRobin,
    /// By key group: one key always goes to one instance.
    Keyed,
    /// Every batch to every instance.
    Broadcast,
}

/// Who decides when a cut is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerKind {
    /// The coordinator's clock, and on demand.
    Periodic,
    /// The only start operator.
    OperatorDriven,
}

/// What a valid graph's region consists of, as indices of operators in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// Every operator that a start operator reaches without passing an autonomous one.
    pub all: Vec<usize>,
    /// The start operators.
    pub starts: Vec<usize>,
    /// Members without a member downstream.
    pub ends: Vec<usize>,
}

/// Checks every rule and says who is part of the region. The first broken rule is the error.
pub fn check(topology: &Topology, trigger: TriggerKind) -> Result<Members, TopologyError> {
    check_sizes(topology)?;
    check_ports(topology)?;
    let members = reach(topology);
    check_trigger(topology, &members, trigger)?;
    for &member in &members {
        check_member(topology, &members, member)?;
    }
    check_loops(topology, &members)?;
    let is_start = |&member: &usize| topology.operators[member].role == Role::Start;
    let is_end = |&member: &usize| {
        !topology
            .connections
            .iter()
            .any(|c| c.from == member && members.contains(&c.to))
    };
    Ok(Members {
        starts: members.iter().copied().filter(is_start).collect(),
        ends: members.iter().copied().filter(is_end).collect(),
        all: members.into_iter().collect(),
    })
}

/// Checks the name of a region or operator: it becomes a part of object names.
pub fn check_name(name: &str) -> Result<(), TopologyError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(fits) {
        return Err(TopologyError::BadName {
            name: name.to_owned(),
            limit: MAX_NAME,
        });
    }
    Ok(())
}

fn check_sizes(topology: &Topology) -> Result<(), TopologyError> {
    let limits = [
        ("operators", topology.operators.len(), MAX_OPERATORS),
        ("connections", topology.connections.len(), MAX_CONNECTIONS),
    ];
    for (what, count, limit) in limits {
        if count > limit {
            return Err(TopologyError::TooLarge { what, count, limit });
        }
    }
    let mut names = BTreeSet::new();
    for operator in &topology.operators {
        check_name(&operator.name)?;
        if !names.insert(&operator.name) {
            return Err(TopologyError::DuplicateName {
                operator: operator.name.clone(),
            });
        }
        if operator.width == 0 || operator.width > MAX_WIDTH {
            return Err(TopologyError::BadWidth {
                operator: operator.name.clone(),
                width: operator.width,
                limit: MAX_WIDTH,
            });
        }
    }
    Ok(())
}

fn check_ports(topology: &Topology) -> Result<(), TopologyError> {
    for connection in &topology.connections {
        let ends = [
            (connection.from, connection.output, Side::Output),
            (connection.to, connection.input, Side::Input),
        ];
        for (index, port, side) in ends {
            let Some(operator) = topology.operators.get(index) else {
                return Err(TopologyError::UnknownPort {
                    operator: format!("#{index}"),
                    port,
                });
            };
            let exists = match side {
                Side::Output => port < operator.outputs,
                Side::Input => usize::from(port) < operator.inputs.len(),
            };
            if !exists {
                return Err(TopologyError::UnknownPort {
                    operator: operator.name.clone(),
                    port,
                });
            }
        }
    }
    for (index, operator) in topology.operators.iter().enumerate() {
        if operator.inputs.is_empty() && operator.role == Role::Inner {
            return Err(TopologyError::NoInput {
                operator: operator.name.clone(),
            });
        }
        for port in 0..operator.inputs.len() {
            let port = u16::try_from(port).unwrap_or(u16::MAX);
            if !topology
                .connections
                .iter()
                .any(|c| c.to == index && c.input == port)
            {
                let operator = operator.name.clone();
                return Err(TopologyError::NotConnected { operator, port });
            }
        }
    }
    Ok(())
}

enum Side {
    Input,
    Output,
}

/// The region: what the start operators reach. The walk ends before autonomous operators.
fn reach(topology: &Topology) -> BTreeSet<usize> {
    let starts = topology
        .operators
        .iter()
        .enumerate()
        .filter(|(_, o)| o.role == Role::Start);
    let mut open: Vec<usize> = starts.map(|(index, _)| index).collect();
    let mut members: BTreeSet<usize> = open.iter().copied().collect();
    while let Some(member) = open.pop() {
        for connection in topology.connections.iter().filter(|c| c.from == member) {
            let autonomous = topology.operators[connection.to].role == Role::Autonomous;
            if !autonomous && members.insert(connection.to) {
                open.push(connection.to);
            }
        }
    }
    members
}

fn check_trigger(
    topology: &Topology,
    members: &BTreeSet<usize>,
    trigger: TriggerKind,
) -> Result<(), TopologyError> {
    let starts: Vec<_> = members
        .iter()
        .map(|&member| &topology.operators[member])
        .filter(|operator| operator.role == Role::Start)
        .collect();
    let instances: u32 = starts
        .iter()
        .map(|operator| u32::from(operator.width))
        .sum();
    match trigger {
        _ if starts.is_empty() => Err(TopologyError::NoStartOperator),
        TriggerKind::OperatorDriven if instances > 1 => Err(TopologyError::SeveralTriggers {
            operators: starts
                .iter()
                .map(|o| format!("{}[{}]", o.name, o.width))
                .collect(),
        }),
        _ => Ok(()),
    }
}

fn check_member(
    topology: &Topology,
    members: &BTreeSet<usize>,
    member: usize,
) -> Result<(), TopologyError> {
    let operator = &topology.operators[member];
    let name = || operator.name.clone();
    if operator.role == Role::CannotParticipate {
        return Err(TopologyError::CannotParticipate { operator: name() });
    }
    let mut ordinary = 0;
    for (port, input) in operator.inputs.iter().enumerate() {
        let port = u16::try_from(port).unwrap_or(u16::MAX);
        let mut feeds = topology
            .connections
            .iter()
            .filter(|c| c.to == member && c.input == port)
            .map(|c| members.contains(&c.from));
        let first = feeds.next();
        // A start operator may take what lies outside; the region does not drain that.
        if feeds.any(|consistent| Some(consistent) != first) {
            return Err(TopologyError::MixedPort {
                operator: name(),
                port,
            });
        }
        if first == Some(true) && input.autonomous {
            return Err(TopologyError::ConsistentIntoAutonomousPort {
                operator: name(),
                port,
            });
        }
        if first == Some(true) && !input.control {
            ordinary += 1;
        }
    }
    if operator.role != Role::Start && ordinary == 0 {
        return Err(TopologyError::OnlyControlPorts { operator: name() });
    }
    Ok(())
}

/// Looks for a loop that no control port closes.
fn check_loops(topology: &Topology, members: &BTreeSet<usize>) -> Result<(), TopologyError> {
    let mut waiting: Vec<usize> = vec![0; topology.operators.len()];
    let flows = |c: &&Connection| {
        members.contains(&c.from)
            && members.contains(&c.to)
            && !topology.operators[c.to].inputs[usize::from(c.input)].control
    };
    let connections: Vec<&Connection> = topology.connections.iter().filter(flows).collect();
    for connection in &connections {
        waiting[connection.to] += 1;
    }
    let mut ready: Vec<usize> = members
        .iter()
        .copied()
        .filter(|&m| waiting[m] == 0)
        .collect();
    let mut left = members.clone();
    while let Some(member) = ready.pop() {
        left.remove(&member);
        for connection in connections.iter().filter(|c| c.from == member) {
            waiting[connection.to] -= 1;
            if waiting[connection.to] == 0 {
                ready.push(connection.to);
            }
        }
    }
    match left.first() {
        None => Ok(()),
        Some(&first) => Err(TopologyError::Loop {
            operators: walk_back(&connections, &left, first)
                .into_iter()
                .map(|index| topology.operators[index].name.clone())
                .collect(),
        }),
    }
}

/// Every operator that is left has one before it that is left: going back must meet itself.
fn walk_back(connections: &[&Connection], left: &BTreeSet<usize>, from: usize) -> Vec<usize> {
    let mut path = vec![from];
    let mut at = from;
    while let Some(back) = connections
        .iter()
        .find(|c| c.to == at && left.contains(&c.from))
    {
        at = back.from;
        if let Some(start) = path.iter().position(|&seen| seen == at) {
            let mut circle: Vec<usize> = path.drain(start..).collect();
            circle.push(at);
            circle.reverse();
            return circle;
        }
        path.push(at);
    }
    path
}

#[cfg(test)]
mod tests;
