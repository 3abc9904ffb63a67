//! Blocking calls over an asynchronous client: its futures run on a thread of their own.

use std::future::Future;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How much longer than its own time limit the answer of a future is waited for: only a thread
/// that is starved of its processor comes that late.
const GRACE: Duration = Duration::from_secs(5);

/// A thread with a runtime. Its calls may be made from everywhere, inside of other runtimes too;
/// dropping it drops what still runs on it.
#[derive(Debug)]
pub(super) struct ClientThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ClientThread {
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)?;
        Ok(ClientThread {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Runs a future to its end.
    ///
    /// # Errors
    /// `TimedOut` after `limit`: the future was dropped, what it had sent may still have an effect.
    pub(super) fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {limit:?}"));
        let (sender, answer) = sync_channel(1);
        self.handle.spawn(async move {
            let _ = sender.send(tokio::time::timeout(limit, future).await);
        });
        match answer.recv_timeout(limit.saturating_add(GRACE)) {
            Ok(answered) => answered.map_err(|_| late()),
            Err(RecvTimeoutError::Timeout) => Err(late()),
            Err(RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("the client's thread has ended"))
            }
        }
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The last one to go may be a future of this very thread.
        let own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !own(thread)) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_may_be_made_inside_of_another_runtime() {
        let thread = ClientThread::start("test").unwrap();
        assert_eq!(thread.run(GRACE, async { 7 }).unwrap(), 7);
    }

    #[test]
    fn a_future_without_an_end_is_given_up() {
        let thread = ClientThread::start("test").unwrap();
        let never = thread.run(Duration::from_millis(1), std::future::pending::<()>());
        assert_eq!(never.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
