//! Work on the service's executor, which is no endpoint's thread.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{task::JoinHandle, time::MissedTickBehavior};

use super::RpcService;
use crate::error::{RpcError, RpcErrorKind};

/// Work that was handed over. Resolves to its result. Dropping it lets the work go on;
/// [`cancel`](Self::cancel) ends it.
#[derive(Debug)]
pub struct Scheduled<T> {
    task: JoinHandle<T>,
}

impl<T> Scheduled<T> {
    /// Ends the work at its next await, or before it has begun.
    pub fn cancel(&self) {
        self.task.abort();
    }
}

impl<T> Future for Scheduled<T> {
    type Output = Result<T, RpcError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(context).map(|result| {
            result.map_err(|error| {
                let kind = if error.is_panic() {
                    RpcErrorKind::Panicked
                } else {
                    RpcErrorKind::Cancelled
                };
                RpcError::new(kind, error.to_string())
            })
        })
    }
}

impl RpcService {
    /// Runs a future on the service's executor: the runtime on which the service was built.
    pub fn execute<F>(&self, work: F) -> Scheduled<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Scheduled {
            task: self.inner.shared.runtime.spawn(work),
        }
    }

    /// Runs what `work` makes, first after `delay` and then once a `period`, counted from begin to
    /// begin; a run that takes longer than a period delays those after it, and none is made up for.
    /// Goes on until it is cancelled, or one panics.
    ///
    /// # Errors
    /// The handle resolves to `InvalidConfiguration` at once if the period is zero.
    pub fn schedule_at_fixed_rate<F>(
        &self,
        delay: Duration,
        period: Duration,
        mut work: impl FnMut() -> F + Send + 'static,
    ) -> Scheduled<Result<(), RpcError>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.execute(async move {
            if period.is_zero() {
                let text = "a fixed rate needs a period longer than zero";
                return Err(RpcError::new(RpcErrorKind::InvalidConfiguration, text));
            }
            tokio::time::sleep(delay).await;
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                work().await;
            }
        })
    }

    /// Runs what `work` makes again and again, first after `first` and then `delay` after the end of
    /// the run before. Goes on until it is cancelled, or one panics.
    pub fn schedule_with_fixed_delay<F>(
        &self,
        first: Duration,
        delay: Duration,
        mut work: impl FnMut() -> F + Send + 'static,
    ) -> Scheduled<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.execute(async move {
            tokio::time::sleep(first).await;
            loop {
                work().await;
                tokio::time::sleep(delay).await;
            }
        })
    }

    /// The same as [`execute`](Self::execute), not before `delay` is over. `Duration::MAX` is never.
    pub fn schedule<F>(&self, delay: Duration, work: F) -> Scheduled<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.execute(async move {
            tokio::time::sleep(delay).await;
            work.await
        })
    }
}
