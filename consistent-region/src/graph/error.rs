//! Why a graph is no consistent region.

/// A rule of the topology that a graph breaks. Each names the operator, and the port where there
/// is one. All are mistakes in the program: none can be cured by trying again.
///
/// The rules are those of IBM Streams' compiler for consistent regions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Nothing enters the region.
    #[error("the region has no start operator: add one with `start`")]
    NoStartOperator,
    /// Two operators have one name.
    #[error("two operators are named {operator}: names must be unique in a region")]
    DuplicateName {
        /// The name.
        operator: String,
    },
    /// Names become parts of object names.
    #[error(
        "the name {name:?} does not fit: 1 to {limit} characters, letters, digits, `_` and `-` only"
    )]
    BadName {
        /// The name of the region or operator.
        name: String,
        /// The longest name in characters.
        limit: usize,
    },
    /// An operator needs 1 to [`MAX_WIDTH`](super::topology::MAX_WIDTH) instances.
    #[error("operator {operator} has width {width}: 1 to {limit} instances are possible")]
    BadWidth {
        /// The operator.
        operator: String,
        /// Its width.
        width: u16,
        /// The greatest width.
        limit: u16,
    },
    /// The graph is larger than a region may be.
    #[error("the region has {count} {what}: at most {limit} are possible")]
    TooLarge {
        /// "operators" or "connections".
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Something is said of an operator that the graph does not have.
    #[error("the region has no operator {operator}")]
    UnknownOperator {
        /// The name.
        operator: String,
    },
    /// A connection names an operator or port that does not exist.
    #[error("a connection of {operator} uses port {port}, which it does not have")]
    UnknownPort {
        /// The operator, or its index when there is no such operator.
        operator: String,
        /// The port.
        port: u16,
    },
    /// An input port that nothing flows into.
    #[error("input port {port} of {operator} is not connected")]
    NotConnected {
        /// The operator.
        operator: String,
        /// The port.
        port: u16,
    },
    /// An operator that is neither a start operator nor fed by anything.
    #[error("operator {operator} has no input and is no start operator")]
    NoInput {
        /// The operator.
        operator: String,
    },
    /// Tuples could run round for ever, and a drain would never end.
    #[error("the operators {} form a loop: only a control port may close one", .operators.join(" -> "))]
    Loop {
        /// The loop in the direction of flow.
        operators: Vec<String>,
    },
    /// Markers come on some streams of the port only, so that it would never be drained.
    #[error(
        "input port {port} of {operator} is fed by consistent and autonomous streams: give them \
         ports of their own"
    )]
    MixedPort {
        /// The operator.
        operator: String,
        /// The port.
        port: u16,
    },
    /// An autonomous port is not drained: tuples of the region would be lost there by a reset.
    #[error(
        "input port {port} of {operator} is autonomous and fed by operators of the region: use an \
         ordinary port"
    )]
    ConsistentIntoAutonomousPort {
        /// The operator.
        operator: String,
        /// The port.
        port: u16,
    },
    /// A port was added to an operator of another type.
    #[error("operator {operator} is no {expected}: it can't have such a port")]
    WrongOperator {
        /// The operator's name.
        operator: String,
        /// The type that was said.
        expected: &'static str,
    },
    /// A region operator can take part in a cut only if it is drained through an ordinary port.
    #[error("operator {operator} is fed by control ports only: it would never be drained")]
    OnlyControlPorts {
        /// The operator.
        operator: String,
    },
    /// The operator says that it can't be drained and reset.
    #[error("operator {operator} can't be part of a consistent region")]
    CannotParticipate {
        /// The operator.
        operator: String,
    },
    /// With the operator driven trigger one operator decides when to cut.
    #[error(
        "an operator driven region has exactly one start operator with one instance, this one has \
         {}", .operators.join(", ")
    )]
    SeveralTriggers {
        /// The start operators.
        operators: Vec<String>,
    },
}
