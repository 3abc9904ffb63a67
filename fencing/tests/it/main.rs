//! The contracts on every driver and store, and elections between real processes.
#![allow(clippy::unwrap_used)]

mod contracts;
mod leader_gateway;
mod processes;
mod real;
mod registration;
