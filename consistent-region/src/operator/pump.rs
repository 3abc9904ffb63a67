//! What moves tuples through an operator: one future on the actor's own thread.
//!
//! Each turn takes an order if there is one, then the result of a job, and only then a batch; and
//! a batch only while everything emitted before is handed over and every receiver has room for one
//! more. So back-pressure never keeps an order waiting, and a reset never waits for a slow
//! neighbour.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Poll};
use std::time::Instant;

use actix::{ActorContext, ActorFuture, Context};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use crate::graph::spec::Erased;
use crate::point::Point;
use crate::protocol::{InstanceTimings, Stamp};
use crate::store::CheckpointStore;
use crate::stream::{BATCH_TUPLES, Closed, Element, Item, Marker, Route};

use super::control::{Control, InstanceEvent, Reporter, Reset, Restore, StagedToken};
use super::jobs::{self, Durable, StateLabel, microseconds, panic_text};
use super::markers::{Arrival, Markers};
use super::{Cut, InstanceContext, Operator, OperatorError, Output, Produced, Producer};

/// Turns before other tasks of the arbiter get theirs.
const TURNS: usize = 4;
/// Times a start operator is asked for a batch before it is sent although it is not full.
const ASKS: usize = 8;

/// The pump of one instance.
pub(crate) struct Pump<A: Operator> {
    pub(crate) context: InstanceContext,
    pub(crate) store: Arc<dyn CheckpointStore>,
    pub(crate) control: mpsc::Receiver<Control>,
    pub(crate) producer: Option<Producer<A>>,
    pub(crate) guard: Guard,
    pub(crate) streams: Option<Streams<A>>,
    pub(crate) jobs: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The reset whose restore job is under way.
    pub(crate) resetting: Option<Box<Reset>>,
    /// Term and attempt of the last reset, sequence number of the last round.
    pub(crate) stamp: Stamp,
    pub(crate) completed: u64,
    pub(crate) staged: Option<(u64, StagedToken)>,
    /// When the first sign of the current round came.
    pub(crate) round_began: Option<Instant>,
    /// A cut was asked for and did not begin yet.
    pub(crate) cut_wanted: Arc<AtomicBool>,
    pub(crate) output: Output<A::Output>,
}

/// The open streams of one attempt.
pub(crate) struct Streams<A: Operator> {
    input: Option<mpsc::Receiver<Element<A::Input>>>,
    routes: Vec<Route<A::Output>>,
    markers: Markers,
    paused: bool,
    ended: bool,
    /// The last cut that a start operator began.
    drained: u64,
}

/// A job's result.
pub(crate) enum Done {
    Restored {
        attempt: Stamp,
        result: Result<Option<Vec<u8>>, OperatorError>,
    },
    Durable {
        stamp: Stamp,
        result: Result<Box<Durable>, OperatorError>,
    },
    Committed {
        stamp: Stamp,
        seq: u64,
        oldest_retained: u64,
        result: Result<(), OperatorError>,
    },
}

/// Reports that the instance is gone when it goes without having said why.
pub(crate) struct Guard {
    pub(crate) reporter: Reporter,
    pub(crate) stamp: Stamp,
    pub(crate) armed: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            let reason = "the operator's actor has stopped".to_owned();
            let event = InstanceEvent::Failed {
                reason,
                permanent: false,
                alive: false,
            };
            self.reporter.report(self.stamp, event);
        }
    }
}

/// How the pump goes on.
enum Turn {
    Again,
    /// Every source of wake-ups is registered.
    Wait,
    /// The actor is over.
    Stop,
}

/// Why an operator's method gave nothing.
enum Fault {
    Error(OperatorError),
    Panic(String),
}

impl<A: Operator> ActorFuture<A> for Pump<A> {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut A,
        actix: &mut Context<A>,
        task: &mut task::Context<'_>,
    ) -> Poll<()> {
        let pump = self.get_mut();
        for _ in 0..TURNS {
            match pump.turn(actor, task) {
                Turn::Again => {}
                Turn::Wait => return Poll::Pending,
                Turn::Stop => {
                    pump.guard.armed = false;
                    actix.terminate();
                    return Poll::Ready(());
                }
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<A: Operator> Pump<A> {
    fn turn(&mut self, actor: &mut A, task: &mut task::Context<'_>) -> Turn {
        match self.control.poll_recv(task) {
            Poll::Ready(Some(control)) => return self.obey(actor, control),
            Poll::Ready(None) => return Turn::Stop,
            Poll::Pending => {}
        }
        if let Poll::Ready(Some(done)) = self.jobs.poll_next_unpin(task) {
            return self.job_done(actor, done);
        }
        let Some(streams) = &mut self.streams else {
            return Turn::Wait;
        };
        match streams.poll_room(task) {
            Poll::Pending => Turn::Wait,
            // Who closed it reports why, and a reset follows.
            Poll::Ready(Err(closed)) => {
                tracing::debug!(instance = %self.context.instance(), ?closed, "stream closed");
                self.streams = None;
                Turn::Wait
            }
            Poll::Ready(Ok(())) => match self.producer {
                Some(producer) => self.produce(actor, producer, task),
                None => self.consume(actor, task),
            },
        }
    }

    fn obey(&mut self, actor: &mut A, control: Control) -> Turn {
        match control {
            Control::Reset(reset) => self.begin_reset(actor, reset),
            Control::Resume => {
                if let Some(streams) = &mut self.streams {
                    streams.paused = false;
                }
                Turn::Again
            }
            Control::Drain {
                stamp,
                last,
                completed,
            } => {
                let Some(streams) = &mut self.streams else {
                    return Turn::Again;
                };
                if stamp.seq <= streams.drained {
                    return Turn::Again;
                }
                streams.drained = stamp.seq;
                streams.paused = true;
                self.round_began = Some(Instant::now());
                self.cut(
                    actor,
                    Marker {
                        seq: stamp.seq,
                        last,
                        completed,
                    },
                )
            }
            Control::Checkpointed {
                seq,
                oldest_retained,
            } => {
                self.begin_commit(actor, seq, oldest_retained);
                Turn::Again
            }
        }
    }

    // Tuples.

    fn produce(
        &mut self,
        actor: &mut A,
        producer: Producer<A>,
        task: &mut task::Context<'_>,
    ) -> Turn {
        let Some(streams) = &mut self.streams else {
            return Turn::Wait;
        };
        if streams.paused || streams.ended {
            return Turn::Wait;
        }
        let (output, region) = (&mut self.output, self.context.region());
        let mut idle = false;
        for _ in 0..ASKS {
            let asked = catch_unwind(AssertUnwindSafe(|| producer(actor, task, output, region)));
            match asked {
                Err(panic) => return self.fault(Fault::Panic(panic_text(&*panic))),
                Ok(Poll::Ready(Err(error))) => return self.fault(Fault::Error(error)),
                Ok(Poll::Ready(Ok(Produced::More))) if output.len() < BATCH_TUPLES => {}
                Ok(Poll::Ready(Ok(Produced::More))) => break,
                Ok(Poll::Ready(Ok(Produced::End))) => {
                    streams.ended = true;
                    break;
                }
                Ok(Poll::Pending) => {
                    idle = true;
                    break;
                }
            }
        }
        let tuples = output.take();
        let nothing = tuples.is_empty();
        if !nothing {
            streams.accept(tuples);
            self.context.hook().at(Point::Emitting);
        }
        if streams.ended {
            self.report(InstanceEvent::Ended);
        }
        // Handing over needs another turn; the operator has kept the waker if it has nothing.
        if idle && nothing {
            Turn::Wait
        } else {
            Turn::Again
        }
    }

    fn consume(&mut self, actor: &mut A, task: &mut task::Context<'_>) -> Turn {
        let Some(streams) = &mut self.streams else {
            return Turn::Wait;
        };
        let Some(input) = &mut streams.input else {
            return Turn::Wait;
        };
        match input.poll_recv(task) {
            Poll::Pending => Turn::Wait,
            // All senders are gone: they report why, and a reset follows.
            Poll::Ready(None) => {
                self.streams = None;
                Turn::Wait
            }
            Poll::Ready(Some(Element {
                item: Item::Batch(batch),
                ..
            })) => {
                let output = &mut self.output;
                if let Err(fault) = guarded(|| actor.process(batch, output)) {
                    return self.fault(fault);
                }
                self.hand_over();
                Turn::Again
            }
            Poll::Ready(Some(Element {
                channel,
                item: Item::Marker(marker),
            })) => {
                let arrival = streams.markers.arrive(channel, marker);
                if arrival == Arrival::First
                    || (arrival == Arrival::Complete && self.round_began.is_none())
                {
                    self.round_began = Some(Instant::now());
                }
                match arrival {
                    Arrival::Complete => self.cut(actor, marker),
                    _ => Turn::Again,
                }
            }
        }
    }

    fn hand_over(&mut self) {
        let tuples = self.output.take();
        if let Some(streams) = &mut self.streams {
            streams.accept(tuples);
        }
    }

    // A cut.

    /// Every tuple of the cut has been processed: drain, prepare, send the marker on, and let the
    /// jobs run while tuples of the next cut may come.
    fn cut(&mut self, actor: &mut A, marker: Marker) -> Turn {
        let began = Instant::now();
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

    fn durable(&mut self, stamp: Stamp, result: Result<Box<Durable>, OperatorError>) -> Turn {
        match result {
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

    fn begin_commit(&mut self, actor: &mut A, seq: u64, oldest_retained: u64) {
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

    fn committed(
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
        self.report(InstanceEvent::Committed { seq });
        Turn::Again
    }

    // A reset.

    fn begin_reset(&mut self, actor: &mut A, reset: Box<Reset>) -> Turn {
        // First of all: neighbours that wait for room must wake.
        self.streams = None;
        self.jobs = FuturesUnordered::new();
        self.output.take();
        self.staged = None;
        self.round_began = None;
        self.cut_wanted.store(false, Ordering::Release);
        self.stamp = reset.stamp;
        self.guard.stamp = reset.stamp;
        let attempt = reset.stamp;
        let (context, store) = (self.context.clone(), Arc::clone(&self.store));
        let (committer, restore) = (actor.committer(), reset.restore.clone());
        self.resetting = Some(reset);
        self.run(
            move || jobs::restore(&context, &*store, committer.as_ref(), &restore),
            move |result| Done::Restored { attempt, result },
        );
        Turn::Again
    }

    fn restored(
        &mut self,
        actor: &mut A,
        reset: Reset,
        object: Result<Option<Vec<u8>>, OperatorError>,
    ) -> Turn {
        let object = match object {
            Ok(object) => object,
            Err(error) => return self.fault(Fault::Error(error)),
        };
        let Reset {
            input,
            channels,
            routes,
            restore,
            ..
        } = reset;
        let version = match &restore {
            Restore::Cut {
                object: Some(record),
                ..
            } => record.state_version,
            _ => A::STATE_VERSION,
        };
        let set = guarded(|| {
            match object {
                Some(state) => actor.reset(&mut &state[..], version)?,
                None if restore == Restore::First => {}
                // An operator that wrote no state for the cut has none.
                None => actor.reset_to_initial_state()?,
            }
            actor.resumed_at(restore.seq(), restore.oldest_retained())
        });
        if let Err(fault) = set {
            return self.fault(fault);
        }
        self.completed = restore.seq();
        match Streams::open(input, channels, routes) {
            Some(streams) => self.streams = Some(streams),
            None => {
                let what = "a stream of this operator has another type: this is a defect";
                return self.fault(Fault::Error(OperatorError::Permanent(what.to_owned())));
            }
        }
        self.report(InstanceEvent::ResetDone);
        Turn::Again
    }

    // Jobs and failures.

    fn run<T: Send + 'static>(
        &mut self,
        job: impl FnOnce() -> Result<T, OperatorError> + Send + 'static,
        done: impl FnOnce(Result<T, OperatorError>) -> Done + Send + 'static,
    ) {
        let job = tokio::task::spawn_blocking(job);
        self.jobs.push(Box::pin(async move {
            done(match job.await {
                Ok(result) => result,
                Err(error) => Err(OperatorError::Retry(match error.try_into_panic() {
                    Ok(panic) => panic_text(&*panic),
                    Err(error) => error.to_string(),
                })),
            })
        }));
    }

    fn job_done(&mut self, actor: &mut A, done: Done) -> Turn {
        match done {
            Done::Restored { attempt, result } => {
                match self.resetting.take_if(|reset| reset.stamp == attempt) {
                    Some(reset) => self.restored(actor, *reset, result),
                    None => Turn::Again,
                }
            }
            Done::Durable { stamp, result } => self.durable(stamp, result),
            Done::Committed {
                stamp,
                seq,
                oldest_retained,
                result,
            } => {
                debug_assert_eq!(
                    stamp.attempt, self.stamp.attempt,
                    "a reset drops older jobs"
                );
                self.committed(actor, seq, oldest_retained, result)
            }
        }
    }

    fn report(&self, event: InstanceEvent) {
        self.guard.reporter.report(self.stamp, event);
    }

    /// This attempt is over for the instance: closes its streams and says why. After a panic the
    /// actor's state can't be trusted and the actor ends.
    fn fault(&mut self, fault: Fault) -> Turn {
        self.streams = None;
        self.resetting = None;
        self.output.take();
        let (reason, permanent, alive) = match fault {
            Fault::Error(OperatorError::Permanent(reason)) => (reason, true, true),
            Fault::Error(error) => (error.to_string(), false, true),
            Fault::Panic(reason) => (reason, false, false),
        };
        self.report(InstanceEvent::Failed {
            reason,
            permanent,
            alive,
        });
        if alive { Turn::Again } else { Turn::Stop }
    }
}

/// Calls an operator's method; a panic harms this operator only.
fn guarded<T>(call: impl FnOnce() -> Result<T, OperatorError>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(Fault::Error),
        Err(panic) => Err(Fault::Panic(panic_text(&*panic))),
    }
}

impl<A: Operator> Streams<A> {
    fn open(input: Option<Erased>, channels: Vec<usize>, routes: Vec<Erased>) -> Option<Self> {
        let input = match input {
            None => None,
            Some(input) => Some(*input.downcast().ok()?),
        };
        let routes = routes
            .into_iter()
            .map(|route| route.downcast().ok().map(|route| *route))
            .collect::<Option<Vec<Route<A::Output>>>>()?;
        Some(Self {
            input,
            routes,
            markers: Markers::new(channels),
            paused: true,
            ended: false,
            drained: 0,
        })
    }

    fn poll_room(&mut self, task: &mut task::Context<'_>) -> Poll<Result<(), Closed>> {
        let mut all = Poll::Ready(Ok(()));
        for route in &mut self.routes {
            match route.poll_ready(task) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(closed)) => return Poll::Ready(Err(closed)),
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    }

    /// Gives every route the tuples; those that share a stream get copies.
    fn accept(&mut self, tuples: Vec<A::Output>) {
        if tuples.is_empty() || self.routes.is_empty() {
            return;
        }
        let owner = self
            .routes
            .iter()
            .position(|route| route.duplicate().is_none());
        let owner = owner.unwrap_or(self.routes.len() - 1);
        for (index, route) in self.routes.iter_mut().enumerate() {
            if let (true, Some(duplicate)) = (index != owner, route.duplicate()) {
                route.accept(tuples.iter().map(duplicate).collect());
            }
        }
        self.routes[owner].accept(tuples);
    }

    fn accept_marker(&mut self, marker: Marker) {
        for route in &mut self.routes {
            route.accept_marker(marker);
        }
    }
}
