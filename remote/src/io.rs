//! Where a service's sockets live: on a thread of their own, or on the one that starts the service.
//!
//! By default a thread of their own, which is no arbiter of an endpoint: a handler that blocks its
//! own arbiter must not keep pings of the connections from being answered. It needs no actix
//! System. On the starter's thread a call to an endpoint of that thread crosses no thread, and
//! whatever holds that thread holds up the connections.

use std::future::Future;
use std::io;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The tasks of a service's sockets; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Io {
    tasks: IoTasks,
    stop: CancellationToken,
}

/// Starts tasks beside the sockets.
#[derive(Clone, Debug)]
pub(crate) struct IoTasks {
    handle: Handle,
    /// On a shared thread: ends the tasks. A thread of their own ends with them.
    stop: Option<CancellationToken>,
}

impl Io {
    /// Starts a thread for the sockets.
    pub(crate) fn own_thread() -> io::Result<Self> {
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
        Ok(Self {
            tasks: IoTasks { handle, stop: None },
            stop,
        })
    }

    /// Shares the caller's runtime.
    pub(crate) fn this_thread() -> io::Result<Self> {
        let handle = Handle::try_current().map_err(io::Error::other)?;
        let stop = CancellationToken::new();
        Ok(Self {
            tasks: IoTasks {
                handle,
                stop: Some(stop.clone()),
            },
            stop,
        })
    }

    /// Starts tasks beside the sockets.
    pub(crate) fn tasks(&self) -> &IoTasks {
        &self.tasks
    }

    /// Drops all tasks, and ends the thread if it is their own.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        self.stop();
    }
}

impl IoTasks {
    /// Runs `task` beside the sockets; `None`, or an error of the handle, when they were stopped
    /// before it ended.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.stop.clone() {
            Some(stop) => self.handle.spawn(stop.run_until_cancelled_owned(task)),
            None => self.handle.spawn(async move { Some(task.await) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::thread;

    fn here() -> thread::ThreadId {
        thread::current().id()
    }

    #[tokio::test]
    async fn tasks_run_on_a_thread_of_their_own_or_on_the_starters() {
        let own = Io::own_thread().unwrap();
        let ran = own.tasks().spawn(async { here() }).await.unwrap();
        assert!(ran.is_some_and(|ran| ran != here()));
        let shared = Io::this_thread().unwrap();
        let ran = shared.tasks().spawn(async { here() }).await.unwrap();
        assert_eq!(ran, Some(here()));
    }

    #[tokio::test]
    async fn tasks_end_when_their_home_is_dropped() {
        let own = Io::own_thread().unwrap();
        let endless = own.tasks().spawn(pending::<()>());
        drop(own);
        assert!(endless.await.is_err_and(|error| error.is_cancelled()));
        let shared = Io::this_thread().unwrap();
        let endless = shared.tasks().spawn(pending::<()>());
        drop(shared);
        assert_eq!(endless.await.unwrap(), None);
    }

    #[test]
    fn without_a_runtime_there_is_no_thread_to_share() {
        assert!(Io::this_thread().is_err());
    }
}
