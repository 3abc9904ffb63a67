//! What the instances of one worker have done for one cut.

use std::collections::BTreeSet;

use crate::manifest::{CommitToken, ObjectRecord};
use crate::operator::control::StagedToken;
use crate::protocol::{InstanceId, InstanceTimings, ProgressEvent};

/// Collects the instances' results until there is something to tell the coordinator. Instances go by the
/// number of their launch.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) seq: u64,
    unprepared: BTreeSet<u64>,
    unwritten: BTreeSet<u64>,
    objects: Vec<ObjectRecord>,
    tokens: Vec<CommitToken>,
    timings: Vec<InstanceTimings>,
}

impl Round {
    pub(crate) fn new(seq: u64, instances: BTreeSet<u64>) -> Self {
        Self {
            seq,
            unwritten: instances.clone(),
            unprepared: instances,
            objects: Vec::new(),
            tokens: Vec::new(),
            timings: Vec::new(),
        }
    }

    /// An instance has drained and prepared; the event when it was the last one.
    pub(crate) fn prepared(&mut self, launch: u64) -> Option<ProgressEvent> {
        let last = self.unprepared.remove(&launch) && self.unprepared.is_empty();
        last.then_some(ProgressEvent::BlockingCheckpointDone)
    }

    /// An instance's checkpoint is durable; the event when it was the last one.
    pub(crate) fn durable(
        &mut self,
        launch: u64,
        instance: &InstanceId,
        object: Option<ObjectRecord>,
        token: Option<StagedToken>,
        timings: InstanceTimings,
    ) -> Option<ProgressEvent> {
        if !self.unwritten.remove(&launch) {
            return None;
        }
        self.objects.extend(object);
        self.tokens.extend(token.map(
            |StagedToken {
                 token,
                 can_take_back,
             }| CommitToken {
                instance: instance.clone(),
                seq: self.seq,
                token,
                can_take_back,
            },
        ));
        self.timings.push(timings);
        self.is_complete().then(|| ProgressEvent::CheckpointDone {
            objects: std::mem::take(&mut self.objects),
            tokens: std::mem::take(&mut self.tokens),
            timings: std::mem::take(&mut self.timings),
        })
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.unprepared.is_empty() && self.unwritten.is_empty()
    }
}
