//! A cut as one instance goes through it: drain, prepare, send the marker on, write.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::manifest::ObjectRecord;
use crate::operator::control::InstanceEvent;
use crate::operator::jobs::{self, Durable, StateLabel, microseconds_between};
use crate::operator::{Cut, Operator, OperatorError};
use crate::point::Point;
use crate::protocol::{InstanceTimings, Stamp};
use crate::stream::Marker;

use super::{Done, Fault, Pump, Turn, Waiting, guarded};

/// Changes to a state are written at most so often before the whole state is written again.
const MOST_CHANGES: usize = 64;

/// Whether another object of changes may follow: together, and as long as the last was, they stay
/// shorter than the whole state that they belong to (S29).
fn may_grow(record: &ObjectRecord) -> bool {
    let mut lengths = record.parts().map(|part| part.length);
    let whole = lengths.next().unwrap_or(0);
    let changes: u64 = lengths.sum();
    let next = if record.base.is_empty() {
        0
    } else {
        record.length
    };
    record.base.len() < MOST_CHANGES && changes + next < whole
}

impl<A: Operator> Pump<A> {
    /// No permit is given out any more; those who have one may still emit for this cut, so that a
    /// start operator goes on until they have given it back.
    pub(super) fn drain(&mut self, marker: Marker) {
        self.keeper.close();
        self.waiting = Some(Waiting::Cut(marker));
    }

    /// Every tuple of the cut has been processed: drain, prepare, send the marker on, and let the
    /// jobs run while tuples of the next cut may come.
    pub(super) fn cut(&mut self, actor: &mut A, marker: Marker) -> Turn {
        let began = Instant::now();
        if let Some(streams) = &mut self.streams {
            streams.paused = true;
        }
        if let Err(fault) = self.learn_from(actor, marker) {
            return self.fault(fault);
        }
        let since_sign = |sign| microseconds_between(sign, began);
        let start_delay = self.round_began.take().map_or(0, since_sign);
        self.stamp.seq = marker.seq;
        self.cut_wanted.store(false, Ordering::Release);
        self.context.hook().at(Point::Draining);
        let output = &mut self.output;
        let drains = Instant::now();
        if let Err(fault) = guarded(|| actor.drain(output)) {
            return self.fault(fault);
        }
        // One look at the clock ends one part and begins the next: a round may have a thousand instances.
        let prepares = Instant::now();
        self.hand_over();
        let Stamp { seq, term, attempt } = self.stamp;
        let cut = Cut {
            seq,
            term,
            attempt,
            completed: marker.completed,
            last: marker.last,
        };
        let mut prepared = match guarded(|| actor.prepare(cut)) {
            Ok(prepared) => prepared,
            Err(fault) => return self.fault(fault),
        };
        let mut base = self.base_for(cut, prepared.state.is_some());
        if !base.is_empty() {
            match guarded(|| actor.changes(cut)) {
                Ok(Some(changes)) => prepared.state = Some(changes),
                Ok(None) => base.clear(),
                Err(fault) => return self.fault(fault),
            }
        }
        let ends = Instant::now();
        self.prepared = Some((marker.seq, prepared.stage.is_some()));
        let mut queued = 0;
        if let Some(streams) = &mut self.streams {
            queued = streams.queued();
            streams.accept_marker(marker);
        }
        let timings = InstanceTimings {
            instance: self.context.instance().clone(),
            start_delay,
            blocking: microseconds_between(began, ends),
            write: 0,
            bytes: 0,
            drain: microseconds_between(drains, prepares),
            prepare: microseconds_between(prepares, ends),
            queued,
        };
        let nothing = prepared.state.is_none() && prepared.stage.is_none();
        if nothing && !self.owes_commit() {
            let timings = Box::new(timings);
            self.report(InstanceEvent::NothingToWrite { timings });
            return Turn::Again;
        }
        self.report(InstanceEvent::Prepared);
        let stamp = self.stamp;
        if nothing {
            let (object, token) = (None, None);
            let durable = Durable {
                object,
                token,
                timings,
            };
            return self.durable(stamp, Ok(Box::new(durable)));
        }
        let (context, store) = (self.context.clone(), Arc::clone(&self.store));
        let label = StateLabel {
            state_type: A::STATE_TYPE,
            state_version: A::STATE_VERSION,
            base,
        };
        let takes_back = actor
            .committer()
            .is_some_and(|committer| committer.can_take_back());
        self.run(
            move || {
                let (context, store) = (&context, &*store);
                jobs::checkpoint(context, store, cut, label, prepared, takes_back, timings)
                    .map(Box::new)
            },
            move |result| Done::Durable { stamp, result },
        );
        Turn::Again
    }

    /// The objects that what changed since the last complete cut can be added to; none when the
    /// whole state is to be written.
    fn base_for(&self, cut: Cut, has_state: bool) -> Vec<ObjectRecord> {
        let Some((seq, record)) = &self.saved else {
            return Vec::new();
        };
        if !has_state || *seq != cut.completed || !may_grow(record) {
            return Vec::new();
        }
        let parts = record.parts().cloned();
        let part = |record: ObjectRecord| ObjectRecord {
            base: Vec::new(),
            ..record
        };
        parts.map(part).collect()
    }

    pub(super) fn durable(
        &mut self,
        stamp: Stamp,
        result: Result<Box<Durable>, OperatorError>,
    ) -> Turn {
        if self.prepared.is_none_or(|(seq, _)| seq != stamp.seq) {
            // It was abandoned meanwhile.
            return Turn::Again;
        }
        match result {
            Err(OperatorError::Retry(reason)) => {
                let event = InstanceEvent::CutFailed { reason };
                self.guard.reporter.report(stamp, event);
                Turn::Again
            }
            Err(error) => self.fault(Fault::Error(error)),
            Ok(durable) if self.owes_commit() => {
                self.held = Some((stamp, durable));
                Turn::Again
            }
            Ok(durable) => {
                let Durable {
                    object,
                    token,
                    timings,
                } = *durable;
                if let Some(object) = &object {
                    self.saved = Some((stamp.seq, object.clone()));
                }
                if let Some(token) = &token {
                    self.staged = Some((stamp.seq, token.clone()));
                }
                let event = InstanceEvent::Durable {
                    object,
                    token,
                    timings: Box::new(timings),
                };
                self.guard.reporter.report(stamp, event);
                Turn::Again
            }
        }
    }

    /// The cut came to nothing; what was prepared for it belongs to the next.
    pub(super) fn abandon(&mut self, actor: &mut A, seq: u64) -> Turn {
        match self.give_back(actor, seq) {
            Ok(()) => self.let_held_go(),
            Err(fault) => self.fault(fault),
        }
    }

    /// A marker comes by other workers, and may overtake the coordinator's word that the cut before
    /// came to nothing.
    fn learn_from(&mut self, actor: &mut A, marker: Marker) -> Result<(), Fault> {
        match self.prepared {
            Some((seq, _)) if marker.completed < seq && seq < marker.seq => {
                self.give_back(actor, seq)
            }
            _ => Ok(()),
        }
    }

    fn give_back(&mut self, actor: &mut A, seq: u64) -> Result<(), Fault> {
        self.staged.take_if(|(staged, _)| *staged == seq);
        self.held.take_if(|(stamp, _)| stamp.seq == seq);
        if let Some((_, staged)) = self.prepared.take_if(|(prepared, _)| *prepared == seq) {
            guarded(|| actor.cut_abandoned(seq, staged))?;
            self.keeper.abandon(seq);
        }
        Ok(())
    }
}
