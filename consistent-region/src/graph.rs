//! The graph of a region: which operators it has, how wide they are, and what flows between them.
//!
//! [`Region::builder`] is the way in: it joins operators by typed streams, so that a graph whose
//! types do not fit does not compile. [`topology`](mod@topology) holds the same graph as plain data with the rules
//! that a consistent region must keep, [`plan`](mod@plan) spreads it out into instances and connections.
//! Every process of a region builds the same graph; its [fingerprint](Region::fingerprint) proves it.

mod builder;
mod error;
mod key;
pub mod plan;
pub(crate) mod spec;
pub mod topology;

pub(crate) use builder::Factory;
pub use builder::{Inputs, Region, RegionBuilder, Stream};
pub use error::TopologyError;
pub use key::{KEY_GROUPS, groups_of_instance, instance_of_group, key_group, stable_hash};
