//! What all benches of calls share: the cells with their loops, the roles of a peer's program, and figures with their
//! goals.

pub mod cell;
pub mod machine;
pub mod maven;
pub mod report;
mod roles;

pub use roles::{parent_gone, peer_main, runtime, tell_ready, tell_result};

/// Whatever went wrong; a bench ends with it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
