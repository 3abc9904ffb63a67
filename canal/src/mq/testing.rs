//! A queue in memory, and the tests that every implementation of the traits has to pass.

pub mod contract;
mod memory;

pub use memory::{MemoryQueue, QueueFault};
