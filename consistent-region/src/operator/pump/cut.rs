//! A cut as one instance goes through it: drain, prepare, send the marker on, write, commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::operator::control::InstanceEvent;
use crate::operator::jobs::{self, Durable, StateLabel, microseconds};
use crate::operator::{Cut, Operator, OperatorError};
use crate::point::Point;
use crate::protocol::{InstanceTimings, Stamp};
use crate::stream::Marker;

use super::{Done, Fault, Pump, Turn, Waiting, guarded};

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
        let start_delay = self.round_began.take().map_or(0, microseconds);
        self.stamp.seq = marker.seq;
        self.cut_wanted.store(false, Ordering::Release);
        self.context.hook().at(Point::Draining);
        let output = &mut self.output;
        if let Err(fault) = guarded(|| actor.drain(output)) {
            return self.fault(fault);
        }
        self.hand_over();
        let Stamp { seq, term, attempt } = self.stamp;
        let cut = Cut {
            seq,
            term,
            attempt,
            completed: marker.completed,
            last: marker.last,
        };
        let prepared = match guarded(|| actor.prepare(cut)) {
            Ok(prepared) => prepared,
            Err(fault) => return self.fault(fault),
        };
        self.prepared = Some((marker.seq, prepared.stage.is_some()));
        if let Some(streams) = &mut self.streams {
            streams.accept_marker(marker);
        }
        let timings = InstanceTimings {
            instance: self.context.instance().clone(),
            start_delay,
            blocking: microseconds(began),
            write: 0,
            bytes: 0,
        };
        self.report(InstanceEvent::Prepared { last: marker.last });
        let stamp = self.stamp;
        let (context, store) = (self.context.clone(), Arc::clone(&self.store));
        let label = StateLabel {
            state_type: A::STATE_TYPE,
            state_version: A::STATE_VERSION,
        };
        let takes_back = actor
            .committer()
            .is_some_and(|committer| committer.can_take_back());
        if prepared.state.is_none() && prepared.stage.is_none() {
            let durable = Durable {
                object: None,
                token: None,
                timings,
            };
            return self.durable(stamp, Ok(Box::new(durable)));
        }
        self.run(
            move || {
                jobs::checkpoint(&context, &*store, cut, label, prepared, takes_back, timings)
                    .map(Box::new)
            },
            move |result| Done::Durable { stamp, result },
        );
        Turn::Again
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
            Ok(durable) => {
                let Durable {
                    object,
                    token,
                    timings,
                } = *durable;
                if let Some(token) = &token {
                    self.staged = Some((stamp.seq, token.clone()));
                }
                let event = InstanceEvent::Durable {
                    object,
                    token,
                    timings,
                };
                self.guard.reporter.report(stamp, event);
                Turn::Again
            }
        }
    }

    /// The cut came to nothing; what was prepared for it belongs to the next.
    pub(super) fn abandon(&mut self, actor: &mut A, seq: u64) -> Turn {
        let Some((_, staged)) = self.prepared.take_if(|(prepared, _)| *prepared == seq) else {
            return Turn::Again;
        };
        self.staged.take_if(|(staged, _)| *staged == seq);
        if let Err(fault) = guarded(|| actor.cut_abandoned(seq, staged)) {
            return self.fault(fault);
        }
        self.keeper.abandon(seq);
        Turn::Again
    }

    pub(super) fn begin_commit(&mut self, actor: &mut A, seq: u64, oldest_retained: u64) {
        let stamp = self.stamp;
        let done = move |result| Done::Committed {
            stamp,
            seq,
            oldest_retained,
            result,
        };
        let staged = self.staged.take_if(|(staged, _)| *staged == seq);
        match (staged, actor.committer()) {
            (Some((_, staged)), Some(committer)) => {
                let context = self.context.clone();
                self.run(
                    move || jobs::commit(&context, &*committer, seq, &staged.token),
                    done,
                );
            }
            _ => self.jobs.push(Box::pin(std::future::ready(done(Ok(()))))),
        }
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
        Turn::Again
    }
}
