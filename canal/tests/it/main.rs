//! The client against servers: a scripted peer that misbehaves, and the real Canal server.

#![allow(clippy::unwrap_used)]

mod contract;
mod faults;
mod peer;
mod real;
