//! The client against servers: the embedded one, a scripted peer that misbehaves, and the real
//! Canal server.

#![allow(clippy::unwrap_used)]

mod actor;
mod ahead;
mod contract;
mod decoding;
mod embedded;
mod faults;
#[cfg(feature = "mq")]
mod mq;
mod pages;
mod peer;
mod real;
mod recorder;
mod repair;
