//! The script's and the test's side of a running server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::destination::Restart;
use super::fault::{Fault, Request};
use super::shell::Shared;
use super::statistics::Statistics;
use super::transaction::{CommitError, Transaction};

/// Scripts one destination of a [`CanalServer`](super::CanalServer), injects faults, and tells what
/// clients did. Cheap to clone; usable from any thread, with or without a runtime.
#[derive(Debug, Clone)]
pub struct CanalServerHandle {
    shared: Arc<Shared>,
    destination: Arc<str>,
}

/// A condition that was not reached within its limit.
#[derive(Debug, thiserror::Error)]
#[error("not reached within {limit:?}; the server has seen {statistics:#?}")]
#[non_exhaustive]
pub struct NotReached {
    /// The time that was waited.
    pub limit: Duration,
    /// What clients had done by then.
    pub statistics: Box<Statistics>,
}

impl CanalServerHandle {
    pub(super) fn new(shared: Arc<Shared>, destination: &str) -> Self {
        Self {
            shared,
            destination: destination.into(),
        }
    }

    /// The destination's name.
    #[must_use]
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Commits a transaction at the scripted database: it is delivered before those that the
    /// [`RowSource`](super::RowSource) has not given yet. It waits in memory until the store has room.
    ///
    /// # Errors
    ///
    /// A row has more values than its table has columns; or 256 MiB of committed transactions wait for
    /// room already.
    pub fn commit(&self, transaction: Transaction) -> Result<(), CommitError> {
        self.shared
            .with_destination(&self.destination, |destination| {
                destination.script().push(transaction)
            })
    }

    /// What clients did so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics(&self.destination)
    }

    /// Waits until `condition` holds for the counts.
    ///
    /// # Errors
    ///
    /// [`NotReached`] after `limit`, with the counts as they are then.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time.
    pub async fn wait_until(
        &self,
        limit: Duration,
        condition: impl FnMut(&Statistics) -> bool,
    ) -> Result<Statistics, NotReached> {
        let reached = self.shared.wait_until(&self.destination, condition);
        tokio::select! {
            statistics = reached => Ok(statistics),
            () = tokio::time::sleep(limit) => Err(NotReached {
                limit,
                statistics: Box::new(self.statistics()),
            }),
        }
    }

    /// Plans a fault for the `nth` request of its kind from now on, on any connection; 1 is the next.
    pub fn inject(&self, request: Request, nth: u64, fault: Fault) {
        self.shared
            .change(|machine| machine.faults().plan(request, nth, fault));
    }

    /// Forgets the faults that have not struck.
    pub fn clear_faults(&self) {
        self.shared.change(|machine| machine.faults().clear());
    }

    /// Nothing new comes from the script, as when Canal has lost its database: GETs find nothing.
    pub fn stall(&self) {
        self.set_stalled(true);
    }

    /// The script goes on after [`stall`](Self::stall).
    pub fn resume(&self) {
        self.set_stalled(false);
    }

    fn set_stalled(&self, stalled: bool) {
        self.shared
            .with_destination(&self.destination, |destination| {
                destination.script().set_stalled(stalled);
            });
    }

    /// The destination runs on this server or not, as when another node of a cluster has it. While it
    /// does not, requests are refused with "should start first".
    pub fn set_running(&self, running: bool) {
        self.shared
            .with_destination(&self.destination, |destination| {
                destination.running = running;
            });
    }

    /// Closes all connections of the server; clients may connect again at once.
    pub fn disconnect_all(&self) {
        self.shared.disconnect_all();
    }

    /// The server process ends and another takes its place at once: all connections are closed,
    /// outstanding batches are void, ids start at 1, and delivery goes back as `how` says.
    ///
    /// For a server that stays away for a while call [`stop_listening`](Self::stop_listening) first.
    pub fn restart(&self, how: Restart) {
        self.shared.restart(how);
    }

    /// New connections are refused from now on; those that exist stay.
    ///
    /// # Errors
    ///
    /// The server was stopped.
    pub fn stop_listening(&self) -> io::Result<()> {
        self.shared.listen(false)
    }

    /// Listens again, on the same address.
    ///
    /// # Errors
    ///
    /// The address is taken meanwhile, or the server was stopped.
    pub fn start_listening(&self) -> io::Result<()> {
        self.shared.listen(true)
    }
}
