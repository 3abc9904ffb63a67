//! A graph to be drawn: what flows from where to where, and how far each node is.

use serde::{Deserialize, Serialize};

use super::Level;

/// Nodes and what connects them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusGraph {
    /// What the picture shows, in a sentence: it is read out in the picture's place.
    pub caption: String,
    /// The nodes; edges name them by their place here.
    pub nodes: Vec<StatusNode>,
    /// The edges. Loops are allowed; an edge whose end is not there is left out.
    pub edges: Vec<StatusEdge>,
}

/// A node of a [`StatusGraph`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusNode {
    /// Its name.
    pub name: String,
    /// What it is doing, in a few words.
    pub text: String,
    /// How it is.
    pub level: Level,
    /// Its instances, each with how it is; none if it has no more to say than the node itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Level>,
}

/// An edge of a [`StatusGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusEdge {
    /// Place of the node that it leaves.
    pub from: usize,
    /// Place of the node that it leads to.
    pub to: usize,
    /// Something flows at the moment.
    pub flows: bool,
}
