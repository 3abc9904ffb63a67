//! What the region is held against: the same four operators as bare actors, each with one future that moves batches
//! between bounded channels. No cuts, no orders, no limits; nothing survives.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Instant;

use actix::{Actor, ActorFuture, AsyncContext, Context};
use actix_rt::{Arbiter, ArbiterHandle};
use bench_harness::Failure;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;

use crate::outcome::Outcome;
use crate::work::{BATCH, Seen, key};

/// Batches in front of an operator.
const CAPACITY: usize = 8;
/// Batches before other tasks of the arbiter get their turn.
const TURNS: usize = 4;

/// Takes `tuples` through the four.
pub async fn run(tuples: u64, arbiters: usize) -> Result<Outcome, Failure> {
    let arbiters: Vec<Arbiter> = (0..arbiters).map(|_| Arbiter::new()).collect();
    let seen = Seen::new();
    let (first, last) = (arbiters[0].handle(), arbiters[arbiters.len() - 1].handle());
    let began = Instant::now();

    let (turns, turn) = mpsc::channel(CAPACITY);
    let (numbers, numbered) = mpsc::channel(CAPACITY);
    let (pairs, paired) = mpsc::channel(CAPACITY);
    let (counts, counted) = mpsc::channel(CAPACITY);
    let mut next = 0;
    start(&first, turn, Some(numbers), None, move |_: Vec<()>| {
        let from = next;
        next = tuples.min(from + BATCH);
        (from..next).collect()
    });
    start(&first, numbered, Some(pairs), None, |batch: Vec<u64>| {
        let pair = |number| (key(number), number);
        batch.into_iter().map(pair).collect()
    });
    let mut by_key = HashMap::<u64, u64, Multiplied>::default();
    start(
        &last,
        paired,
        Some(counts),
        None,
        move |batch: Vec<(u64, u64)>| {
            let count = |(key, _)| {
                let count = by_key.entry(key).or_default();
                *count += 1;
                (key, *count)
            };
            batch.into_iter().map(count).collect()
        },
    );
    let (done, finished) = oneshot::channel();
    let taken = Arc::clone(&seen);
    start(
        &last,
        counted,
        None,
        Some(done),
        move |batch: Vec<(u64, u64)>| {
            taken.take(&batch);
            Vec::<()>::new()
        },
    );

    for _ in 0..tuples.div_ceil(BATCH) {
        turns.send(Vec::new()).await?;
    }
    drop(turns);
    finished.await?;
    let seconds = began.elapsed().as_secs_f64();
    let outcome = Outcome::now(seconds, tuples)?;
    Ok(outcome.correct(seen.tuples() == tuples && seen.correct(tuples)))
}

fn start<I: Send + 'static, O: Send + 'static>(
    arbiter: &ArbiterHandle,
    input: mpsc::Receiver<Vec<I>>,
    output: Option<mpsc::Sender<Vec<O>>>,
    done: Option<oneshot::Sender<()>>,
    apply: impl FnMut(Vec<I>) -> Vec<O> + Send + Unpin + 'static,
) {
    let output = output.map(PollSender::new);
    Bare::start_in_arbiter(arbiter, move |context| {
        context.spawn(Pump {
            input,
            output,
            done,
            apply,
        });
        Bare
    });
}

struct Bare;

impl Actor for Bare {
    type Context = Context<Self>;
}

struct Pump<I, O, F> {
    input: mpsc::Receiver<Vec<I>>,
    output: Option<PollSender<Vec<O>>>,
    done: Option<oneshot::Sender<()>>,
    apply: F,
}

impl<I, O, F> ActorFuture<Bare> for Pump<I, O, F>
where
    I: 'static,
    O: Send + 'static,
    F: FnMut(Vec<I>) -> Vec<O> + Unpin + 'static,
{
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        _: &mut Bare,
        _: &mut Context<Bare>,
        task: &mut Task<'_>,
    ) -> Poll<()> {
        let pump = self.get_mut();
        for _ in 0..TURNS {
            if let Some(output) = &mut pump.output
                && output.poll_reserve(task).is_pending()
            {
                return Poll::Pending;
            }
            match pump.input.poll_recv(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    pump.output = None;
                    if let Some(done) = pump.done.take() {
                        let _ = done.send(());
                    }
                    return Poll::Ready(());
                }
                Poll::Ready(Some(batch)) => {
                    let batch = (pump.apply)(batch);
                    if let Some(output) = &mut pump.output {
                        // A receiver that is gone has said so.
                        let _ = output.send_item(batch);
                    }
                }
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The cheapest hash that spreads these keys.
#[derive(Clone, Copy, Default)]
struct Multiplied(u64);

impl Hasher for Multiplied {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl BuildHasher for Multiplied {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}
