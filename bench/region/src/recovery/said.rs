//! Lines that a process prints for the bench, with the moment at which each came.

use std::io::Write as _;
use std::time::Instant;

use bench_harness::Failure;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::LIMIT;

/// Says a line to who has started this process.
pub fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    // Who does not listen any more has killed this process.
    let _ = writeln!(out, "{what}").and_then(|()| out.flush());
}

/// What processes say, in the order in which it came.
pub struct Said {
    lines: mpsc::UnboundedReceiver<(String, Instant)>,
    sender: mpsc::UnboundedSender<(String, Instant)>,
}

impl Said {
    pub fn new() -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        Self { lines, sender }
    }

    /// By which [`listen`] hands lines on.
    pub fn sender(&self) -> mpsc::UnboundedSender<(String, Instant)> {
        self.sender.clone()
    }

    /// Forgets what was said until now.
    pub fn forget(&mut self) {
        while self.lines.try_recv().is_ok() {}
    }

    /// Waits for a line that begins like this.
    pub async fn wait_for(&mut self, beginning: &str) -> Result<(String, Instant), Failure> {
        let found = async {
            while let Some((line, at)) = self.lines.recv().await {
                if line.starts_with(beginning) {
                    return Ok((line, at));
                }
            }
            Err(Failure::from("the process is gone"))
        };
        timeout(LIMIT, found)
            .await
            .map_err(|_| format!("{beginning:?} was not said within {LIMIT:?}"))?
    }
}

/// Hands on what comes out of a process until it ends.
pub fn listen(
    output: impl AsyncRead + Unpin + 'static,
    said: mpsc::UnboundedSender<(String, Instant)>,
) -> impl Future<Output = ()> {
    async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if said.send((line, Instant::now())).is_err() {
                return;
            }
        }
    }
}
