//! The contracts on every driver and store, and elections between real processes.
#![allow(clippy::unwrap_used)]

mod contract_table;
mod contracts;
mod fenced_endpoint;
mod heartbeat;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod leader_gateway;
#[cfg(any(feature = "etcd", feature = "kubernetes", feature = "zookeeper"))]
mod link;
mod processes;
mod real;
mod registration;
mod stopped;
#[cfg(any(feature = "etcd", feature = "kubernetes", feature = "zookeeper"))]
mod told;
