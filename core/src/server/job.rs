//! Closures for the endpoint's thread, now or later, and their handles.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use actix::Context;
use tokio_util::sync::CancellationToken;

use crate::{
    address::RpcAddress,
    endpoint::{
        RpcEndpoint,
        core::Core,
        entry::{Job, panic_error},
    },
    error::{RpcError, RpcErrorKind, TimeoutPhase},
    reply::{Replier, Waiter, slot},
};

/// A closure under way to, or on, the endpoint's thread. Resolves in every case; dropping it does
/// not take the closure back, [`cancel`](Self::cancel) does.
#[derive(Debug)]
#[must_use = "await it, or drop it if its result does not matter"]
pub struct JobHandle<T> {
    waiter: Waiter<T>,
    cancelled: CancellationToken,
}

impl<T> JobHandle<T> {
    /// Takes the closure back if it has not begun.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    pub(crate) fn give_up(self, address: &RpcAddress, limit: Duration) -> Result<T, RpcError> {
        self.cancelled.cancel();
        match self.waiter.give_up() {
            Ok(answer) => answer,
            Err(may_have_run) => {
                let phase = if may_have_run {
                    TimeoutPhase::Sent
                } else {
                    TimeoutPhase::Queued
                };
                Err(RpcError::timeout(
                    &format!("call_async on {address}"),
                    limit,
                    phase,
                ))
            }
        }
    }
}

impl<T> Future for JobHandle<T> {
    type Output = Result<T, RpcError>;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.waiter.poll_answer(context)
    }
}

struct Closure<T, F> {
    work: F,
    name: &'static str,
    reply: Replier<T>,
    cancelled: CancellationToken,
}

impl<A, T, F> Job<A> for Closure<T, F>
where
    A: RpcEndpoint,
    T: Send,
    F: FnOnce(&mut A, &mut Context<A>) -> T + Send,
{
    fn claim(&self) -> bool {
        if self.cancelled.is_cancelled() {
            return false;
        }
        // A dropped handle leaves the closure to run.
        self.reply.claim();
        true
    }

    fn run(self: Box<Self>, actor: &mut A, context: &mut Context<A>) -> Result<(), RpcError> {
        let Self {
            work, name, reply, ..
        } = *self;
        match catch_unwind(AssertUnwindSafe(|| work(actor, context))) {
            Ok(value) => {
                reply.answer(Ok(value));
                Ok(())
            }
            Err(payload) => {
                let error = panic_error(name, &*payload);
                reply.answer(Err(error.clone()));
                Err(error)
            }
        }
    }

    fn refuse(self: Box<Self>, error: RpcError) {
        self.reply.answer(Err(error));
    }
}

fn closure<A, T, F>(name: &'static str, work: F) -> (Box<dyn Job<A>>, JobHandle<T>)
where
    A: RpcEndpoint,
    T: Send + 'static,
    F: FnOnce(&mut A, &mut Context<A>) -> T + Send + 'static,
{
    let (reply, waiter) = slot();
    let cancelled = CancellationToken::new();
    let job = Closure {
        work,
        name,
        reply,
        cancelled: cancelled.clone(),
    };
    (Box::new(job), JobHandle { waiter, cancelled })
}

pub(crate) fn submit<A, T, F>(core: &Arc<Core<A>>, name: &'static str, work: F) -> JobHandle<T>
where
    A: RpcEndpoint,
    T: Send + 'static,
    F: FnOnce(&mut A, &mut Context<A>) -> T + Send + 'static,
{
    let (job, handle) = closure(name, work);
    core.submit_job(name, job);
    handle
}

pub(crate) fn schedule<A, F>(core: &Arc<Core<A>>, delay: Duration, work: F) -> JobHandle<()>
where
    A: RpcEndpoint,
    F: FnOnce(&mut A, &mut Context<A>) + Send + 'static,
{
    let (job, handle) = closure::<A, (), F>("schedule_run_async", work);
    // Of now, not of when it is due: what a former leader has planned is not for the next one to do.
    let check = match core.present_check() {
        Ok(check) => check,
        Err(error) => {
            job.refuse(error);
            return handle;
        }
    };
    let cancelled = handle.cancelled.clone();
    let core = Arc::clone(core);
    let runtime = core.shared.runtime.clone();
    runtime.spawn(async move {
        let ended = Core::<A>::terminated(core.termination.subscribe());
        tokio::select! {
            biased;
            () = cancelled.cancelled() => {
                let text = "the scheduled closure was cancelled";
                let error = RpcError::new(RpcErrorKind::Cancelled, text);
                job.refuse(error.with_outcome(crate::error::Outcome::NotSent));
            }
            _ = ended => {
                let text = format!("{} ended before the delay was over", core.address);
                job.refuse(RpcError::new(RpcErrorKind::Stopped, text));
            }
            () = tokio::time::sleep(delay) => {
                core.submit_job_under(check, "schedule_run_async", job);
            }
        }
    });
    handle
}
