//! Whole regions: a coordinator, workers, operators and a store, as a user puts them together.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod admin;
mod archive;
#[cfg(feature = "canal")]
mod canal;
mod child;
mod contract;
mod damage;
#[cfg(feature = "canal")]
mod finished;
mod full;
mod graphs;
mod host;
#[cfg(feature = "remote")]
mod lineage;
#[cfg(feature = "remote")]
mod namespaces;
mod numbers;
mod one_process;
#[cfg(feature = "canal")]
mod paused;
mod permits;
mod place;
#[cfg(feature = "remote")]
mod processes;
mod real;
mod rescale;
mod sinks;
#[cfg(feature = "canal")]
mod spool;
#[cfg(all(feature = "canal", feature = "remote"))]
mod stopped;
#[cfg(any(feature = "object-store", feature = "redis"))]
mod stores;
