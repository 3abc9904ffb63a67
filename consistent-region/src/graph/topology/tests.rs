//! The rules of a region's topology, each broken once.

use proptest::prelude::*;

use super::*;

fn node(name: &str, role: Role, inputs: usize) -> OperatorNode {
    OperatorNode {
        name: name.to_owned(),
        role,
        width: 1,
        inputs: vec![InputPort::default(); inputs],
        outputs: 1,
        labels: Vec::new(),
    }
}

fn join(from: usize, to: usize) -> Connection {
    to_port(from, to, 0)
}

fn to_port(from: usize, to: usize, input: u16) -> Connection {
    Connection {
        from,
        output: 0,
        to,
        input,
        partition: Partition::RoundRobin,
    }
}

/// source -> left, right -> join: a diamond.
fn diamond() -> Topology {
    Topology {
        operators: vec![
            node("source", Role::Start, 0),
            node("left", Role::Inner, 1),
            node("right", Role::Inner, 1),
            node("join", Role::Inner, 1),
        ],
        connections: vec![join(0, 1), join(0, 2), join(1, 3), join(2, 3)],
    }
}

fn error(topology: &Topology) -> TopologyError {
    check(topology, TriggerKind::Periodic).unwrap_err()
}

#[test]
fn s1_a_diamond_is_a_region() {
    let members = check(&diamond(), TriggerKind::Periodic).unwrap();
    assert_eq!(
        members,
        Members {
            all: vec![0, 1, 2, 3],
            starts: vec![0],
            ends: vec![3]
        }
    );
}

#[test]
fn s1_names_and_widths_are_checked() {
    let mut topology = diamond();
    topology.operators[2].name = "left".to_owned();
    assert_eq!(
        error(&topology),
        TopologyError::DuplicateName {
            operator: "left".to_owned()
        }
    );
    topology.operators[2].name = "a/b".to_owned();
    assert!(matches!(error(&topology), TopologyError::BadName { name, .. } if name == "a/b"));
    topology.operators[2].name = "right".to_owned();
    topology.operators[2].width = 0;
    assert!(matches!(
        error(&topology),
        TopologyError::BadWidth { width: 0, .. }
    ));
    topology.operators[2].width = MAX_WIDTH + 1;
    assert!(
        matches!(error(&topology), TopologyError::BadWidth { operator, .. } if operator == "right")
    );
}

#[test]
fn s1_ports_must_exist_and_be_connected() {
    let mut topology = diamond();
    topology.operators[3].inputs.push(InputPort::default());
    let operator = "join".to_owned();
    assert_eq!(
        error(&topology),
        TopologyError::NotConnected { operator, port: 1 }
    );
    topology.connections.push(to_port(2, 3, 2));
    let operator = "join".to_owned();
    assert_eq!(
        error(&topology),
        TopologyError::UnknownPort { operator, port: 2 }
    );
    let mut topology = diamond();
    topology.operators.push(node("lost", Role::Inner, 0));
    assert_eq!(
        error(&topology),
        TopologyError::NoInput {
            operator: "lost".to_owned()
        }
    );
    topology.connections.push(join(9, 1));
    assert!(
        matches!(error(&topology), TopologyError::UnknownPort { operator, .. } if operator == "#9")
    );
}

#[test]
fn s1_a_region_needs_a_start_operator() {
    assert_eq!(error(&Topology::default()), TopologyError::NoStartOperator);
}

#[test]
fn s1_a_loop_is_named_and_a_control_port_may_close_it() {
    let mut topology = diamond();
    topology.connections.push(join(3, 1));
    let TopologyError::Loop { operators } = error(&topology) else {
        panic!("no loop found")
    };
    assert_eq!(operators.first(), operators.last());
    assert_eq!(operators.len(), 3, "{operators:?}");
    topology.connections.pop();
    topology.operators[1].inputs.push(InputPort {
        control: true,
        ..InputPort::default()
    });
    topology.connections.push(to_port(3, 1, 1));
    assert!(check(&topology, TriggerKind::Periodic).is_ok());
}

#[test]
fn s1_a_port_takes_either_consistent_or_autonomous_streams() {
    let mut topology = diamond();
    topology
        .operators
        .push(node("outside", Role::Autonomous, 0));
    topology.connections.push(join(4, 3));
    let operator = "join".to_owned();
    assert_eq!(
        error(&topology),
        TopologyError::MixedPort { operator, port: 0 }
    );
    topology.operators[3].inputs.push(InputPort::default());
    topology.connections.pop();
    topology.connections.push(to_port(4, 3, 1));
    assert!(check(&topology, TriggerKind::Periodic).is_ok());
}

#[test]
fn s1_control_ports_alone_drain_nobody() {
    let mut topology = diamond();
    topology.operators[3].inputs[0].control = true;
    let operator = "join".to_owned();
    assert_eq!(
        error(&topology),
        TopologyError::OnlyControlPorts { operator }
    );
}

#[test]
fn s1_an_operator_that_cannot_be_reset_is_refused() {
    let mut topology = diamond();
    topology.operators[1].role = Role::CannotParticipate;
    let operator = "left".to_owned();
    assert_eq!(
        error(&topology),
        TopologyError::CannotParticipate { operator }
    );
}

#[test]
fn s1_an_operator_driven_region_has_one_start_instance() {
    let mut topology = diamond();
    assert!(check(&topology, TriggerKind::OperatorDriven).is_ok());
    topology.operators[0].width = 2;
    let operators = vec!["source[2]".to_owned()];
    assert_eq!(
        check(&topology, TriggerKind::OperatorDriven),
        Err(TopologyError::SeveralTriggers { operators })
    );
}

proptest! {
    /// In a graph whose connections go from lower to higher indices the region is what can be
    /// reached from a start operator without passing an autonomous one.
    #[test]
    fn s1_the_region_is_reachability_without_autonomous_operators(
        roles in prop::collection::vec(0_u8..4, 2..12),
        edges in prop::collection::vec((0_usize..12, 0_usize..12), 0..30),
    ) {
        let mut topology = Topology::default();
        for (index, role) in roles.iter().enumerate() {
            let role = match role { 0 => Role::Start, 1 => Role::Autonomous, _ => Role::Inner };
            topology.operators.push(node(&format!("o{index}"), role, 0));
        }
        for (a, b) in edges {
            let (from, to) = (a.min(b), a.max(b));
            if from == to || to >= roles.len() || roles[to] == 0 {
                continue;
            }
            // A port for each connection: mixed ones have a test of their own.
            let input = u16::try_from(topology.operators[to].inputs.len()).unwrap();
            topology.operators[to].inputs.push(InputPort::default());
            topology.connections.push(to_port(from, to, input));
        }
        let mut reached: Vec<bool> = roles.iter().map(|role| *role == 0).collect();
        for to in 0..roles.len() {
            let fed = topology.connections.iter().any(|c| c.to == to && reached[c.from]);
            reached[to] |= fed && roles[to] != 1;
        }
        let expected: Vec<usize> = (0..roles.len()).filter(|&index| reached[index]).collect();
        let unfed = topology.operators.iter().any(|o| o.role == Role::Inner && o.inputs.is_empty());
        match check(&topology, TriggerKind::Periodic) {
            Ok(members) => prop_assert_eq!(members.all, expected),
            Err(TopologyError::NoInput { .. }) => prop_assert!(unfed),
            Err(TopologyError::NoStartOperator) => prop_assert!(expected.is_empty()),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
