//! Which server to dial.

#[cfg(feature = "zookeeper")]
mod cluster;

use std::fmt;

#[cfg(feature = "zookeeper")]
pub use cluster::ClusterNodeAccessStrategy;
#[cfg(feature = "_fuzzing")]
pub(crate) use cluster::running_address;

use crate::error::CanalError;

/// Names the server to dial next. A connector asks once before every dial.
pub trait CanalNodeAccessStrategy: fmt::Debug + Send {
    /// The node that was named last.
    fn current_node(&self) -> Option<String>;

    /// The node to dial now, as `host:port`.
    ///
    /// # Errors
    /// [`CanalError::Unreachable`] when there is none.
    fn next_node(&mut self) -> Result<String, CanalError>;

    /// How many nodes there are to try: a connector's `connect` dials at most so many before it
    /// gives up. At least 1.
    fn node_count(&self) -> usize;
}

/// A fixed list of servers, taken in turn.
#[derive(Debug, Clone)]
pub struct SimpleNodeAccessStrategy {
    nodes: Vec<String>,
    next: usize,
}

impl SimpleNodeAccessStrategy {
    /// Servers as `host:port`; the first is dialled first. Names are resolved at each dial.
    pub fn new(nodes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            nodes: nodes.into_iter().map(Into::into).collect(),
            next: 0,
        }
    }
}

impl CanalNodeAccessStrategy for SimpleNodeAccessStrategy {
    fn current_node(&self) -> Option<String> {
        let last = self.next.checked_sub(1)?;
        self.nodes.get(last % self.nodes.len().max(1)).cloned()
    }

    fn next_node(&mut self) -> Result<String, CanalError> {
        let node = self.nodes.get(self.next % self.nodes.len().max(1)).cloned();
        self.next = self.next.wrapping_add(1);
        node.ok_or_else(|| CanalError::Unreachable("the list of servers is empty".to_owned()))
    }

    fn node_count(&self) -> usize {
        self.nodes.len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_taken_in_turn() {
        let mut strategy = SimpleNodeAccessStrategy::new(["a:1", "b:2"]);
        assert_eq!(strategy.current_node(), None);
        let dialled: Vec<_> = (0..3).map(|_| strategy.next_node().unwrap()).collect();
        assert_eq!(dialled, ["a:1", "b:2", "a:1"]);
        assert_eq!(strategy.current_node().as_deref(), Some("a:1"));
    }

    #[test]
    fn an_empty_list_is_an_error() {
        let mut strategy = SimpleNodeAccessStrategy::new(Vec::<String>::new());
        assert!(matches!(
            strategy.next_node(),
            Err(CanalError::Unreachable(_))
        ));
        assert_eq!(strategy.node_count(), 1);
    }
}
