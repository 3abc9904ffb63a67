//! The machine as seen from outside.

use super::{Machine, State};
use crate::coordinator::status::{RegionState, RegionStatus, WorkerStatus};
use crate::process::ProcessIdentity;

impl Machine {
    pub(crate) fn state_now(&self) -> RegionState {
        match &self.state {
            State::Opening => RegionState::Opening,
            State::Started { .. } => RegionState::Started,
            State::Processing { .. } => RegionState::Processing,
            State::Round(round) if round.is_resumed() => RegionState::CheckpointPending,
            State::Round(_) => RegionState::Draining,
            State::Resetting(_) => RegionState::Resetting,
            State::Unhealthy { .. } => RegionState::Unhealthy,
            State::Failed { .. } => RegionState::Failed,
            State::Ending { .. } => RegionState::Ending,
            State::Completed => RegionState::Completed,
        }
    }

    pub(super) fn reason(&self) -> Option<String> {
        match &self.state {
            State::Unhealthy { reason, .. } | State::Failed { reason } => Some(reason.clone()),
            State::Resetting(resetting) => Some(resetting.reason().to_owned()),
            _ => None,
        }
    }

    pub(crate) fn status(&self) -> RegionStatus {
        let worker = |(name, member): (&str, &crate::coordinator::members::Member)| WorkerStatus {
            worker: name.to_owned(),
            worker_epoch: member.worker_epoch,
            address: member.address.clone(),
            instances: self.placed.get(name).cloned().unwrap_or_default(),
        };
        RegionStatus {
            region: self.settings.region.clone(),
            term: self.term,
            state: self.state_now(),
            reason: self.reason(),
            seq: self.seq,
            completed: self.record.completed,
            oldest_retained: self.record.oldest_retained(),
            attempt: self.record.attempt,
            consecutive_resets: self.record.consecutive_resets,
            workers: self.members.iter().map(worker).collect(),
            waiting: self.waiting(),
            stale_messages: self.stale,
            finished: self.is_finished(),
            round: match &self.state {
                State::Round(round) => Some(round.status()),
                _ => None,
            },
            sources_paused_since_unix_ms: self.paused_since_unix_ms,
        }
    }

    /// The processes whose end would be news, with the registration they belong to.
    pub(crate) fn processes(&self) -> Vec<(String, u64, ProcessIdentity)> {
        self.members.processes()
    }

    /// A completed region whose workers all know so.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self.state, State::Completed)
            && self.members.is_empty()
            && self.durable >= self.record.number
    }
}
