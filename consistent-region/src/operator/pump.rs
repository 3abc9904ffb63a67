//! What moves tuples through an operator: one future on the actor's own thread.
//!
//! Each turn takes an order if there is one, then the result of a job, and only then a batch; and
//! a batch only while everything emitted before is handed over and every receiver has room for one
//! more. So back-pressure never keeps an order waiting, and a reset never waits for a slow
//! neighbour.

mod commit;
mod cut;
mod input;
mod reset;
mod streams;

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

use crate::manifest::ObjectRecord;
use crate::point::Point;
use crate::protocol::Stamp;
use crate::store::CheckpointStore;
use crate::stream::{BATCH_TUPLES, Element, Item, Marker};

use super::control::{Control, InstanceEvent, Reporter, Reset, StagedToken};
use super::jobs::{self, Durable, panic_text};
use super::markers::Arrival;
use super::permit::Keeper;
use super::{InstanceContext, OpenSide, Operator, OperatorError, Output, Produced, Producer};

use self::streams::Streams;

/// Turns before other tasks of the arbiter get theirs.
const TURNS: usize = 4;
/// Times a start operator is asked for a batch before it is sent although it is not full.
const ASKS: usize = 8;

#[cfg(test)]
thread_local! {
    /// How often pumps of this thread were polled.
    static POLLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How often pumps of this thread were polled since they were forgotten.
#[cfg(test)]
pub(crate) fn polls() -> u64 {
    POLLS.with(std::cell::Cell::get)
}

#[cfg(test)]
pub(crate) fn forget_polls() {
    POLLS.with(|polls| polls.set(0));
}

/// The pump of one instance.
pub(crate) struct Pump<A: Operator> {
    pub(crate) context: InstanceContext,
    pub(crate) store: Arc<dyn CheckpointStore>,
    pub(crate) control: mpsc::Receiver<Control>,
    pub(crate) producer: Option<Producer<A>>,
    /// How the ports besides the ordinary one are opened.
    pub(crate) sides: Vec<OpenSide<A>>,
    /// Whose turn it is if both the ordinary port and others have something.
    pub(crate) side_turn: bool,
    pub(crate) guard: Guard,
    pub(crate) streams: Option<Streams<A>>,
    pub(crate) jobs: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The reset whose restore job is under way.
    pub(crate) resetting: Option<Box<Reset>>,
    pub(crate) keeper: Keeper,
    /// What begins when every permit is given back.
    pub(crate) waiting: Option<Waiting>,
    /// The last cut that was prepared, and whether it staged something.
    pub(crate) prepared: Option<(u64, bool)>,
    /// The newest cut whose state is in the store, and where.
    pub(crate) saved: Option<(u64, ObjectRecord)>,
    /// Term and attempt of the last reset, sequence number of the last round.
    pub(crate) stamp: Stamp,
    pub(crate) completed: u64,
    /// What was staged for a cut that is not committed yet.
    pub(crate) staged: Option<(u64, StagedToken)>,
    /// The cut whose commit is under way.
    pub(crate) committing: Option<u64>,
    /// What is durable of a cut while the one before is not committed.
    pub(crate) held: Option<(Stamp, Box<Durable>)>,
    /// When the first sign of the current round came.
    pub(crate) round_began: Option<Instant>,
    /// A cut was asked for and did not begin yet.
    pub(crate) cut_wanted: Arc<AtomicBool>,
    pub(crate) output: Output<A::Output>,
}

/// See [`Pump::waiting`].
pub(crate) enum Waiting {
    Cut(Marker),
    Reset(Box<Reset>),
}

/// A job's result.
pub(crate) enum Done {
    Restored {
        attempt: Stamp,
        result: Result<jobs::State, OperatorError>,
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
        #[cfg(test)]
        POLLS.with(|polls| polls.set(polls.get() + 1));
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
        if !self.jobs.is_empty()
            && let Poll::Ready(Some(done)) = self.jobs.poll_next_unpin(task)
        {
            return self.job_done(actor, done);
        }
        if self.waiting.is_some() && self.keeper.is_empty(task) {
            return match self.waiting.take() {
                Some(Waiting::Reset(reset)) => self.restore(actor, reset),
                Some(Waiting::Cut(marker)) => self.cut(actor, marker),
                None => Turn::Again,
            };
        }
        if !self.sides.is_empty()
            && let Some(turn) = self.take_side(actor, true, task)
        {
            return turn;
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
            Poll::Ready(Ok(())) => self.move_tuples(actor, task),
        }
    }

    /// There is room for what an operator emits.
    fn move_tuples(&mut self, actor: &mut A, task: &mut task::Context<'_>) -> Turn {
        self.side_turn = !self.side_turn && !self.sides.is_empty();
        if self.side_turn
            && let Some(turn) = self.take_side(actor, false, task)
        {
            return turn;
        }
        let turn = match self.producer {
            Some(producer) => self.produce(actor, producer, task),
            None => self.consume(actor, task),
        };
        match turn {
            Turn::Wait if !self.sides.is_empty() => {
                self.take_side(actor, false, task).unwrap_or(Turn::Wait)
            }
            turn => turn,
        }
    }

    fn obey(&mut self, actor: &mut A, control: Control) -> Turn {
        match control {
            Control::Reset(reset) => {
                self.begin_reset(reset);
                Turn::Again
            }
            Control::Resume { seq } => {
                if let Some(streams) = &mut self.streams {
                    streams.paused = false;
                    self.keeper.open(seq);
                }
                Turn::Again
            }
            Control::Hold { held } => {
                let paused = &self.context.region().paused;
                paused.store(held, Ordering::Relaxed);
                Turn::Again
            }
            Control::Abandoned { seq } => self.abandon(actor, seq),
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
                self.round_began = Some(Instant::now());
                self.drain(Marker {
                    seq: stamp.seq,
                    last,
                    completed,
                });
                Turn::Again
            }
            Control::Checkpointed {
                seq,
                oldest_retained,
            } => self.begin_commit(actor, seq, oldest_retained),
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
        let (output, region) = (&mut self.output, self.context.region());
        // by hand: in no attempt, until the region is resumed
        if streams.paused || streams.ended || region.sources_paused() {
            return Turn::Wait;
        }
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
        match input.poll_next(task) {
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
                if arrival == Arrival::Complete {
                    self.drain(marker);
                }
                Turn::Again
            }
        }
    }

    /// Takes a batch from a control port, or from an autonomous one if tuples may flow.
    fn take_side(
        &mut self,
        actor: &mut A,
        control: bool,
        task: &mut task::Context<'_>,
    ) -> Option<Turn> {
        if !control && !self.keeper.is_open() {
            return None;
        }
        let (streams, output) = (self.streams.as_mut()?, &mut self.output);
        let sides = streams.sides.iter_mut();
        for side in sides.filter(|side| side.is_control() == control) {
            let polled = catch_unwind(AssertUnwindSafe(|| side.poll(actor, output, task)));
            match polled {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(Ok(()))) => {
                    self.hand_over();
                    return Some(Turn::Again);
                }
                Ok(Poll::Ready(Err(error))) => return Some(self.fault(Fault::Error(error))),
                Err(panic) => return Some(self.fault(Fault::Panic(panic_text(&*panic)))),
            }
        }
        None
    }

    fn hand_over(&mut self) {
        let tuples = self.output.take();
        if let Some(streams) = &mut self.streams {
            streams.accept(tuples);
        }
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
        self.waiting = None;
        self.output.take();
        self.keeper.close();
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
