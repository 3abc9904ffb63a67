//! The last commit, and the failed state.

use std::collections::BTreeSet;

use super::{Machine, Moment, State};
use crate::coordinator::status::RegionEvent;
use crate::protocol::Order;

impl Machine {
    /// The last cut is complete: the region ends when everybody has committed it.
    pub(super) fn begin_ending(&mut self, now: Moment, seq: u64, for_good: bool) {
        let deadline = now + self.settings.drain_timeout;
        self.state = State::Ending {
            seq,
            for_good,
            committed: BTreeSet::new(),
            deadline,
        };
    }

    pub(super) fn committed(&mut self, worker: &str, seq: u64) -> bool {
        let participants = self.participants();
        let State::Ending {
            seq: last,
            for_good,
            committed,
            ..
        } = &mut self.state
        else {
            return seq <= self.record.completed;
        };
        if seq != *last {
            return seq < *last;
        }
        let (news, for_good) = (committed.insert(worker.to_owned()), *for_good);
        if *committed == participants {
            self.tell(RegionEvent::CutCommitted { seq });
            self.end(seq, for_good);
        }
        news
    }

    /// Everything is committed. A region that was stopped may be started again; one whose start
    /// operators have ended has ended for good.
    pub(super) fn end(&mut self, seq: u64, for_good: bool) {
        if for_good {
            self.record.ended = true;
            self.append();
        }
        self.order_everybody(&Order::End);
        self.state = State::Completed;
        self.tell(RegionEvent::Completed { seq });
    }

    /// Stays paused until somebody forces a reset.
    pub(super) fn fail(&mut self, reason: String) {
        self.drop_held();
        self.refuse_savepoint(&reason);
        self.record.failed = Some(reason.clone());
        self.append();
        self.order_participants(&Order::ResetFailed {
            reason: reason.clone(),
        });
        self.tell(RegionEvent::Failed {
            reason: reason.clone(),
        });
        self.state = State::Failed { reason };
    }
}
