//! SIGTERM and Ctrl-C, by which every program here ends in peace: what is under way is finished,
//! endpoints and connections are closed, the exit code is 0.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask this process to end, from when this was made: they do not kill it any
/// more.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes both from now on, for the rest of the process. Within a Tokio runtime.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn take() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
