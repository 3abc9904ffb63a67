//! Leader election, retrieval and fenced effects.
