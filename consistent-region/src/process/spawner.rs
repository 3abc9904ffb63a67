//! Starting worker processes, wherever they run.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// Between two looks at a process whose spawner can't tell its end by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Starts and stops worker processes by their workers' names.
///
/// [`LocalProcesses`](super::LocalProcesses) is the one for this host. Others stand for what
/// already starts processes: `systemctl start worker@NAME.service` for a template unit, a pod of
/// that name in Kubernetes. A name has at most one process, so that a started one can always take
/// the registration of the one before it.
///
/// Nothing here is trusted by a region: whether a worker may act is decided by its lease, and a
/// process that was believed dead and is not can't do harm.
///
/// # When not to use it
/// Where somebody starts the processes already and starts them again: a unit with
/// `Restart=on-failure`, a Deployment.
pub trait ProcessSpawner: fmt::Debug + Send + Sync + 'static {
    /// Starts the process of `worker`. Resolves when it was started, not when it has registered.
    ///
    /// # Errors
    /// [`SpawnError::Runs`] when it runs already, [`SpawnError::NotStarted`] when it can't be
    /// started.
    fn start<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), SpawnError>>;

    /// Asks the process of `worker` to end, kills it when it does not in time, and resolves when
    /// it is gone. One that does not run is what is wanted.
    ///
    /// # Errors
    /// [`SpawnError::Unavailable`] when whoever runs it can't be asked.
    fn stop<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), SpawnError>>;

    /// Whether the process of `worker` runs.
    ///
    /// # Errors
    /// [`SpawnError::Unavailable`] when whoever runs it can't be asked.
    fn is_alive<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<bool, SpawnError>>;

    /// Waits until the process of `worker` has ended, and tells how; at once when it does not run.
    ///
    /// Unless a spawner knows better, it is looked at once a second, and how it ended is
    /// [`ProcessEnd::Unknown`].
    ///
    /// # Errors
    /// As [`is_alive`](Self::is_alive).
    fn ended<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<ProcessEnd, SpawnError>> {
        Box::pin(async move {
            while self.is_alive(worker).await? {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Ok(ProcessEnd::Unknown)
        })
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessEnd {
    /// By itself, with this exit code; 0: in peace.
    Exited(i32),
    /// By this signal; 9 is SIGKILL.
    Signaled(i32),
    /// Nobody can tell.
    Unknown,
}

impl ProcessEnd {
    /// It ended by itself and said that all is well: nobody has to start it again.
    #[must_use]
    pub fn is_peaceful(self) -> bool {
        self == Self::Exited(0)
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with exit code {code}"),
            Self::Signaled(signal) => write!(f, "was ended by signal {signal}"),
            Self::Unknown => write!(f, "has ended"),
        }
    }
}

/// Why a process can't be started, stopped or asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// It runs already: stop it first, or leave it alone.
    #[error("the process of worker {worker} runs already")]
    Runs {
        /// The worker.
        worker: String,
    },
    /// It can't be started.
    #[error("the process of worker {worker} can't be started: {reason}")]
    NotStarted {
        /// The worker.
        worker: String,
        /// What the system said.
        reason: String,
    },
    /// Whoever runs the processes does not answer: try again.
    #[error("nobody can say how the process of worker {worker} stands: {reason}")]
    Unavailable {
        /// The worker.
        worker: String,
        /// Why.
        reason: String,
    },
}
