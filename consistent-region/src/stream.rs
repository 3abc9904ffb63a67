//! The data plane: bounded channels of batches between operators.
//!
//! A channel lives for one reset attempt. Batches and drain markers keep their order on it. A
//! receiving instance has one channel that all its senders share; every sender holds a slot in it
//! before it takes more input, which is what back-pressure is made of.

mod element;
#[cfg(feature = "remote")]
mod frame;
mod route;

pub(crate) use element::{Element, Item, Marker};
#[cfg(feature = "remote")]
pub use frame::{Frame, Payload, StreamRefusal};
#[cfg(feature = "remote")]
pub(crate) use frame::{Inbound, Outbound, TypedInbound, TypedOutbound};
pub(crate) use route::{Closed, Partitioner, Route, Target};

/// The greatest number of tuples in a batch.
pub const BATCH_TUPLES: usize = 1_024;

/// Batches that a channel holds for each of its senders.
pub(crate) const BATCHES_PER_SENDER: usize = 8;
