//! The example clusters and the parts that their programs share.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod counter;
#[cfg(feature = "kubernetes")]
mod kubernetes;
pub mod leader;
pub mod lockkeeper;
pub mod orders;
pub mod region;
pub mod region_worker;
pub mod settings;
pub mod signals;
pub mod tail;
pub mod terminal;
pub mod to_kafka;
pub mod word_count;
