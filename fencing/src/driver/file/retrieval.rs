//! Retrieval from lease files: looks into the folder at intervals.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;

use super::LeaseFiles;
use super::folder::Folder;
use super::host::ClockIdentity;
use crate::clock::Clock;
use crate::driver::on_own_thread;
use crate::election::{ComponentId, ElectionError, LeaderInformation};
use crate::retrieval::show;

pub(super) fn start(
    options: &LeaseFiles,
    folder: Folder,
    component: ComponentId,
    leader: watch::Sender<Option<LeaderInformation>>,
) -> Result<(), ElectionError> {
    let interval = options.poll_interval;
    let looker = Looker {
        folder,
        component,
        clock: options.clock.clone(),
        identity: ClockIdentity::of_this_process(),
    };
    on_own_thread("lockkeeper-retrieval", async move {
        while !leader.is_closed() {
            match looker.look() {
                Ok(found) => show(&leader, found),
                // What was known stays: the folder is looked into again.
                Err(error) => tracing::debug!(%error, "the lease folder cannot be read"),
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = leader.closed() => {}
            }
        }
    })
}

struct Looker {
    folder: Folder,
    component: ComponentId,
    clock: Arc<dyn Clock>,
    identity: ClockIdentity,
}

impl Looker {
    /// What the holder of the highest lease has published, as long as that lease holds.
    fn look(&self) -> io::Result<Option<LeaderInformation>> {
        let Some(epoch) = self.folder.leases()?.into_iter().max() else {
            return Ok(None);
        };
        let now = self.clock.now();
        let Some(lease) = self.folder.lease(epoch)? else {
            return Ok(None);
        };
        if lease.clock == self.identity && now >= lease.expires {
            return Ok(None);
        }
        if lease.clock.boot != self.identity.boot {
            return Ok(None);
        }
        self.folder.information(epoch, &self.component)
    }
}
