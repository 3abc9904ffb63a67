//! How workers and the coordinator reach each other, whatever lies between them.
//!
//! Both directions may lose, repeat and reorder messages: the machines on both sides heal that
//! (S23, issue 7). `local` joins them inside one process, `remote` between processes.

pub mod local;
#[cfg(feature = "remote")]
pub mod remote;

use futures_util::future::BoxFuture;

use crate::protocol::{
    Heartbeat, HeartbeatAnswer, Notice, Progress, Refusal, Register, Registered,
};

/// The worker's way to its coordinator.
///
/// A call that is dropped or fails as [`LinkError::Unreachable`] may have arrived: the worker says
/// it again, the coordinator takes it once.
pub trait CoordinatorLink: Send + Sync + 'static {
    /// Offers the worker. [`Refusal`] tells what to do next.
    fn register(&self, register: Register) -> BoxFuture<'_, Result<Registered, LinkError>>;

    /// Renews the lease; brings the notices that were not acknowledged.
    fn heartbeat(&self, heartbeat: Heartbeat) -> BoxFuture<'_, Result<HeartbeatAnswer, LinkError>>;

    /// Tells what happened. `Ok` means that the coordinator has taken it (or knows it to be
    /// stale): the worker repeats it until then.
    fn progress(&self, progress: Progress) -> BoxFuture<'_, Result<(), LinkError>>;
}

/// Why the coordinator did not take a message. Typed by what the worker does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The coordinator answered, and said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No answer; the message may have arrived. Say it again after a pause.
    #[error("the coordinator can't be reached: {0}")]
    Unreachable(String),
}

/// The coordinator's way to one worker. Never waits: what does not arrive comes with the answer to
/// the worker's next heartbeat.
pub trait WorkerLink: Send + Sync + 'static {
    /// Sends a notice, as well as can be.
    fn push(&self, notice: Notice);
}
