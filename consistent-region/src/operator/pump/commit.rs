//! The second phase of a cut in one instance, and what must wait for it.

use crate::operator::control::InstanceEvent;
use crate::operator::jobs;
use crate::operator::{Operator, OperatorError};

use super::{Done, Fault, Pump, Turn, guarded};

impl<A: Operator> Pump<A> {
    pub(super) fn begin_commit(&mut self, actor: &mut A, seq: u64, oldest_retained: u64) -> Turn {
        let staged = self.staged.take_if(|(staged, _)| *staged == seq);
        let (Some((_, staged)), Some(committer)) = (staged, actor.committer()) else {
            return self.committed(actor, seq, oldest_retained, Ok(()));
        };
        self.committing = Some(seq);
        let (context, stamp) = (self.context.clone(), self.stamp);
        self.run(
            move || jobs::commit(&context, &*committer, seq, &staged.token),
            move |result| Done::Committed {
                stamp,
                seq,
                oldest_retained,
                result,
            },
        );
        Turn::Again
    }

    pub(super) fn committed(
        &mut self,
        actor: &mut A,
        seq: u64,
        oldest_retained: u64,
        result: Result<(), OperatorError>,
    ) -> Turn {
        if let Err(error) = result {
            return self.fault(Fault::Error(error));
        }
        self.completed = self.completed.max(seq);
        if let Err(fault) = guarded(|| actor.region_checkpointed(seq, oldest_retained)) {
            return self.fault(fault);
        }
        self.keeper.complete(seq);
        self.report(InstanceEvent::Committed { seq });
        self.committing.take_if(|committing| *committing == seq);
        self.let_held_go()
    }

    /// Whether what was staged for a cut is not committed yet.
    ///
    /// Until then no later cut may be durable: a restart from that one would commit what it has staged,
    /// and nothing before (P6).
    pub(super) fn owes_commit(&self) -> bool {
        self.staged.is_some() || self.committing.is_some()
    }

    /// Goes on with the cut that waited for the commit of the one before.
    pub(super) fn let_held_go(&mut self) -> Turn {
        if self.owes_commit() {
            return Turn::Again;
        }
        match self.held.take() {
            Some((stamp, durable)) => self.durable(stamp, Ok(durable)),
            None => Turn::Again,
        }
    }
}
