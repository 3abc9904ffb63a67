//! Actors in two services, most often in two processes: each way in which a call can end, and that
//! the process answers the next good call.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    missing_debug_implementations
)]

mod calls;
mod fencing;
mod flow;
mod handles;
mod handshake;
mod hostile;
mod leaks;
mod peer;
mod processes;
mod python;
mod status;
mod support;
mod trace;
