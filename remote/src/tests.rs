//! Services of this crate against each other, and against strangers, over real sockets.
//!
//! Endpoints are stand-ins here; `tests/it` does it with actors and processes.

mod calls;
#[cfg(feature = "testing")]
mod faults;
mod fixture;
mod flow;
mod links;
mod security;
mod strangers;
