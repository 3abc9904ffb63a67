//! A reset of one instance: its streams close, its state is read, and it stands at the cut.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::stream::FuturesUnordered;

use crate::operator::control::{InstanceEvent, Reset, Restore};
use crate::operator::jobs;
use crate::operator::{Operator, OperatorError};

use super::streams::Streams;
use super::{Done, Fault, Pump, Turn, Waiting, guarded};

impl<A: Operator> Pump<A> {
    /// Ends the attempt before; the state is touched only when every permit is given back.
    pub(super) fn begin_reset(&mut self, reset: Box<Reset>) {
        // First of all: neighbours that wait for room must wake.
        self.streams = None;
        self.jobs = FuturesUnordered::new();
        self.output.take();
        (self.staged, self.committing, self.held) = (None, None, None);
        self.round_began = None;
        self.cut_wanted.store(false, Ordering::Release);
        self.prepared = None;
        self.resetting = None;
        self.stamp = reset.stamp;
        self.guard.stamp = reset.stamp;
        self.keeper.supersede(reset.stamp.attempt);
        self.waiting = Some(Waiting::Reset(reset));
    }

    pub(super) fn restore(&mut self, actor: &mut A, reset: Box<Reset>) -> Turn {
        let attempt = reset.stamp;
        let (context, store) = (self.context.clone(), Arc::clone(&self.store));
        let (committer, restore) = (actor.committer(), reset.restore.clone());
        let loader = actor.loader();
        self.resetting = Some(reset);
        self.run(
            move || jobs::restore(&context, &*store, committer.as_ref(), &restore, loader),
            move |result| Done::Restored { attempt, result },
        );
        Turn::Again
    }

    pub(super) fn restored(
        &mut self,
        actor: &mut A,
        reset: Reset,
        state: Result<jobs::State, OperatorError>,
    ) -> Turn {
        let state = match state {
            Ok(state) => state,
            Err(error) => return self.fault(Fault::Error(error)),
        };
        let Reset {
            input,
            sides,
            channels,
            routes,
            restore,
            ..
        } = reset;
        let set = guarded(|| {
            if restore == Restore::Keep {
                return Ok(());
            }
            match state {
                jobs::State::Whole { bytes, version } => actor.reset(&mut &bytes[..], version)?,
                jobs::State::Loaded(loaded) => actor.loaded(loaded)?,
                jobs::State::None if restore == Restore::First => {}
                // An operator that wrote no state for the cut has none.
                jobs::State::None => actor.reset_to_initial_state()?,
            }
            actor.resumed_at(restore.seq(), restore.oldest_retained())
        });
        if let Err(fault) = set {
            return self.fault(fault);
        }
        self.completed = restore.seq();
        self.saved = match &restore {
            // Only the instance's own state can be added to.
            Restore::Cut {
                seq,
                objects,
                rescaled: false,
                ..
            } => objects.first().map(|object| (*seq, object.record.clone())),
            _ => None,
        };
        // Ports and receivers come from one graph: there are as many of both.
        let sides = self.sides.iter().zip(sides).map(|(open, side)| open(side));
        match Streams::open(input, sides.collect(), channels, routes) {
            Some(mut streams) => {
                // Who is not part of the region waits for nobody.
                if restore == Restore::Keep {
                    streams.paused = false;
                    self.keeper.open(0);
                }
                self.streams = Some(streams);
            }
            None => {
                let what = "a stream of this operator has another type: this is a defect";
                return self.fault(Fault::Error(OperatorError::Permanent(what.to_owned())));
            }
        }
        self.report(InstanceEvent::ResetDone);
        Turn::Again
    }
}
