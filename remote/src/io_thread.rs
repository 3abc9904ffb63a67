//! The thread on which all of a service's sockets live.
//!
//! Not an actix arbiter of an endpoint: a handler that blocks its own arbiter must not keep pings
//! of the connections from being answered. It needs no actix System.

use std::future::Future;
use std::io;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A thread with a current-thread runtime; it ends, with all its tasks, when this is dropped.
#[derive(Debug)]
pub(crate) struct IoThread {
    handle: Handle,
    stop: CancellationToken,
}

impl IoThread {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("lockkeeper-io".to_owned())
            .spawn(move || {
                runtime.block_on(stopped.cancelled());
                // A name look-up that hangs in the operating system must not hold the thread.
                runtime.shutdown_background();
            })?;
        Ok(Self { handle, stop })
    }

    /// Runs `task` on the thread.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(task)
    }

    /// The thread's runtime.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the thread and drops its tasks.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.stop();
    }
}
