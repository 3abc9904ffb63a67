//! What can go wrong with an election, by what the caller can do.

use std::sync::Arc;

use lockkeeper_core::token::Lineage;

use super::ComponentId;

/// An error of an election or a retrieval. It is `Clone`: one error of a driver goes to all
/// contenders.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// The coordination store cannot be reached; the driver goes on trying.
    #[error("the coordination store cannot be reached for {what}: {source}; it is tried again")]
    Unavailable {
        /// What was asked of it.
        what: String,
        /// What it said.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Another contender of this process has this component id.
    #[error("component {component} has a contender already; close that election first")]
    ComponentTaken {
        /// The component.
        component: ComponentId,
    },
    /// The service or this election is closed.
    #[error("the election service is closed; start a new one")]
    Closed,
    /// A component id has other characters than a store takes, or is too long.
    #[error("{name:?} is no component id: use 1 to 100 of A-Z a-z 0-9 - _ . and no leading .")]
    InvalidComponent {
        /// The name.
        name: String,
    },
    /// The store counts epochs anew: another data directory, a restored backup. Tokens of the two
    /// lineages cannot be compared; an operator has to adopt the new one.
    #[error("the coordination store is another one: lineage {found}, expected {expected}")]
    LineageChanged {
        /// The lineage that was expected.
        expected: Lineage,
        /// The one that the store has.
        found: Lineage,
    },
    /// A record in the store is not what was written; somebody has to look.
    #[error("{name} in the coordination store is damaged: {reason}")]
    Corrupt {
        /// The record.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// An option has a value that cannot work.
    #[error("{option} {problem}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong with the value.
        problem: String,
    },
}

impl ElectionError {
    pub(crate) fn unavailable(
        what: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        ElectionError::Unavailable {
            what: what.into(),
            source: Arc::new(source),
        }
    }
}
