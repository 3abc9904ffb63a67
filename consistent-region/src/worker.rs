//! The worker side of a region: one a process. Runs the instances that are placed on it.
//!
//! `Machine` is the protocol, without I/O, clock or actix; [`RegionWorker`] is the actor that
//! carries out what it decides. [`Lease`] is what sources and sinks check before each effect.
//! `WorkerProgram` (feature `remote`) is what a worker process's `main` does.

mod actor;
mod config;
mod feed;
mod handle;
mod lease;
mod machine;
#[cfg(feature = "remote")]
mod program;
#[cfg(feature = "remote")]
mod remote;
mod round;
mod shown;
mod wiring;

pub use actor::RegionWorker;
pub use config::WorkerConfig;
pub use handle::{GetStatus, WorkerEnd, WorkerHandle, WorkerStatus};
pub use lease::{Lease, LeaseLost};
pub use machine::Dropped;
#[cfg(feature = "remote")]
pub use program::{WorkerProgram, WorkerProgramError};
#[cfg(feature = "remote")]
pub use remote::{StreamFrame, StreamGateway};

#[cfg(test)]
mod tests;
