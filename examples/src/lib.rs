//! Shared parts of the example clusters.
