//! Work on the service's executor, which is no endpoint's thread.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::task::JoinHandle;

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

    /// The same, not before `delay` is over. `Duration::MAX` is never.
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
