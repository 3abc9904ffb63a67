//! Who leads a component, and where it is found.

use std::fmt;

use lockkeeper_core::token::FencingToken;
use serde::{Deserialize, Serialize};

use super::ElectionError;

/// Where the leader of a component is and which token it serves under.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaderInformation {
    /// What the leader confirmed with, for instance the address of its endpoint.
    pub address: String,
    /// The token of its leadership.
    pub token: FencingToken,
}

/// Names one thing that is led: all components of a service share one leadership.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(String);

const LONGEST: usize = 100;

impl ComponentId {
    /// A component id of 1 to 100 of `A-Z a-z 0-9 - _ .`, the first no `.`.
    ///
    /// # Errors
    /// [`ElectionError::InvalidComponent`].
    pub fn new(name: impl Into<String>) -> Result<Self, ElectionError> {
        let name = name.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let fits = !name.is_empty() && name.len() <= LONGEST && !name.starts_with('.');
        if fits && name.bytes().all(allowed) {
            Ok(ComponentId(name))
        } else {
            Err(ElectionError::InvalidComponent {
                name: name.chars().take(LONGEST).collect(),
            })
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ComponentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
