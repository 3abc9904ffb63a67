//! A worker that is stopped says so: what it ran need not wait for the end of its lease.

use crate::protocol::{Progress, ProgressEvent, Stamp};
use crate::worker::WorkerEnd;

use super::{Action, Machine, Registration};

impl Machine {
    /// Nothing acts from now on, and then the coordinator is told, if there is one. It is told once: what
    /// is lost is made up for by the lease.
    pub(super) fn stop(&mut self) {
        let (term, worker_epoch) = match self.registration {
            Registration::Valid { term, epoch, .. } => (term, epoch),
            Registration::Over => return,
            Registration::None { .. } | Registration::Asked { .. } => {
                return self.finish(WorkerEnd::Stopped);
            }
        };
        self.abandon_for_good();
        let stamp = self.stamp;
        self.actions.push(Action::Leave(Progress {
            worker: self.setup.worker.clone(),
            worker_epoch,
            stamp: Stamp { term, ..stamp },
            event: ProgressEvent::Left,
        }));
    }

    /// The coordinator knows, or can't be told.
    pub(super) fn left(&mut self) {
        self.actions.push(Action::Finish(WorkerEnd::Stopped));
    }

    /// The worker is over.
    pub(super) fn finish(&mut self, end: WorkerEnd) {
        self.abandon_for_good();
        self.actions.push(Action::Finish(end));
    }

    fn abandon_for_good(&mut self) {
        self.registration = Registration::Over;
        self.lease_until = None;
        self.forget_instances();
        self.actions.push(Action::Abandon);
    }
}
