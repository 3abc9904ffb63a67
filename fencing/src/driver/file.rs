//! Election by lease files: between processes of one host, on a local file system.
//!
//! A lock is no lease: a process that is stopped keeps its locks for ever. Leadership here is the
//! highest-numbered file `lease-<epoch>`, created once by a hard link; it expires on the host's one
//! CLOCK_BOOTTIME. The lock on `alive-<session>` is only a fast notice of death: after `kill -9`
//! the next leader is there within milliseconds, after SIGSTOP when the lease has expired.
//!
//! | file | what is in it | changed |
//! |---|---|---|
//! | `lineage` | the folder's uuid | never |
//! | `lease-<epoch>` | session, boot id, time namespace, first expiry | never |
//! | `expires-<epoch>` | the renewed expiry | replaced by rename, by the holder |
//! | `alive-<session>` | nothing; locked while the holder lives | never |
//! | `information-<epoch>-<component>` | the leader's address and token | by the holder |
//!
//! The order of accesses is model-checked; [`machine`](self) holds it, one access a step.
//!
//! When not to use it: on network file systems, whose locks, links and listings promise less (NFS and
//! SMB are refused), and between hosts, which have no common clock. Processes in different time namespaces of one host
//! wait for each other's locks and never trust each other's expiry.

mod folder;
mod host;
mod machine;
mod record;
mod retrieval;
#[cfg(test)]
mod tests;
mod thread;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::{Clock, SystemClock};
use crate::election::{
    ComponentId, DriverListener, ElectionError, LeaderElectionDriver, LeaderElectionDriverFactory,
    LeaderInformation,
};
use crate::retrieval::LeaderRetrievalDriverFactory;

#[cfg(feature = "_fuzzing")]
pub(crate) use record::{Expires, Lease, Published};

use folder::Folder;

const SHORTEST_SESSION: Duration = Duration::from_millis(100);

/// Election and retrieval by lease files in a folder.
#[derive(Clone, Debug)]
pub struct LeaseFiles {
    folder: PathBuf,
    session: Duration,
    poll_interval: Duration,
    epochs_above: u64,
    clock: Arc<dyn Clock>,
}

impl LeaseFiles {
    /// Lease files in this folder, with a session of 2 s. All processes must use one session.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        LeaseFiles {
            folder: folder.into(),
            session: Duration::from_secs(2),
            poll_interval: Duration::from_millis(20),
            epochs_above: 0,
            clock: Arc::new(SystemClock),
        }
    }

    /// How long a lease holds without renewal; at least 100 ms. Renewed every quarter; the
    /// holder's own deadline is at four fifths.
    #[must_use]
    pub fn with_session(mut self, session: Duration) -> Self {
        self.session = session;
        self
    }

    /// How often standbys and retrievals look into the folder (20 ms).
    #[must_use]
    pub fn with_poll_interval(mut self, poll_interval: Duration) -> Self {
        self.poll_interval = poll_interval;
        self
    }

    /// Lets epochs begin above this one: those seen in a guard's fences
    /// ([`highest_fence`](crate::guard::highest_fence)) count as used, also if this folder was
    /// lost.
    #[must_use]
    pub fn with_epochs_above(mut self, used: u64) -> Self {
        self.epochs_above = used;
        self
    }

    fn check(&self) -> Result<(), ElectionError> {
        let invalid = |option, problem: String| ElectionError::InvalidOption { option, problem };
        if self.session < SHORTEST_SESSION {
            let problem = format!(
                "is {:?}, at least {SHORTEST_SESSION:?} is needed",
                self.session
            );
            return Err(invalid("session", problem));
        }
        if self.poll_interval.is_zero() || self.poll_interval > self.session / 4 {
            let problem = format!(
                "is {:?}, it must be above zero and at most a quarter of the session ({:?})",
                self.poll_interval, self.session,
            );
            return Err(invalid("poll_interval", problem));
        }
        Ok(())
    }
}

impl LeaderElectionDriverFactory for LeaseFiles {
    fn create(
        &self,
        listener: DriverListener,
    ) -> Result<Box<dyn LeaderElectionDriver>, ElectionError> {
        self.check()?;
        let folder = Folder::open(&self.folder)?;
        Ok(Box::new(thread::start(self, folder, listener)?))
    }
}

impl LeaderRetrievalDriverFactory for LeaseFiles {
    fn retrieve(
        &self,
        component: ComponentId,
        leader: watch::Sender<Option<LeaderInformation>>,
    ) -> Result<(), ElectionError> {
        self.check()?;
        retrieval::start(self, Folder::open(&self.folder)?, component, leader)
    }
}
