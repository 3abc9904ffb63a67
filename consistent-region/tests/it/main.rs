//! Whole regions: a coordinator, workers, operators and a store, as a user puts them together.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[cfg(feature = "canal")]
mod canal;
mod child;
mod contract;
mod damage;
mod full;
mod graphs;
mod numbers;
mod one_process;
mod permits;
mod place;
mod real;
mod rescale;
mod sinks;
#[cfg(all(feature = "canal", feature = "remote"))]
mod stopped;
#[cfg(any(feature = "object-store", feature = "redis"))]
mod stores;
