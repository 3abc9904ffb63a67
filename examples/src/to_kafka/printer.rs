//! A queue that prints.

use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use lockkeeper_canal::mq::{MqError, MqProducer};
use tokio::sync::oneshot;

/// Partitions that each topic seems to have.
const PARTITIONS: u32 = 3;

/// Prints each message on a line, behind its topic and partition: JSON as it is, anything else as
/// hexadecimal digits.
///
/// It takes so many messages; the others are refused, and come again to the next reader. So are all that come
/// when nobody reads any longer.
#[derive(Debug)]
pub(super) struct Printer(Mutex<State>);

#[derive(Debug)]
struct State {
    left: usize,
    /// Until it is told.
    ended: Option<oneshot::Sender<io::Result<()>>>,
}

impl Printer {
    /// The other value is told when `limit` messages are printed, when nobody reads any longer (as of `head`),
    /// or why they can't be printed.
    pub(super) fn new(limit: usize) -> (Self, oneshot::Receiver<io::Result<()>>) {
        let (sender, ended) = oneshot::channel();
        let state = State {
            left: limit,
            ended: Some(sender),
        };
        (Self(Mutex::new(state)), ended)
    }
}

impl State {
    fn end(&mut self, how: io::Result<()>) {
        if let Some(ended) = self.ended.take() {
            // who does not wait for it ends by itself
            let _ = ended.send(how);
        }
    }

    fn print(&mut self, topic: &str, partition: u32, messages: &[Bytes]) -> Result<(), MqError> {
        let mut output = io::stdout().lock();
        for message in messages {
            let Some(rest) = self.left.checked_sub(1) else {
                return Err(MqError::Refused("the limit is reached".to_owned()));
            };
            self.left = rest;
            let text = match std::str::from_utf8(message) {
                Ok(text) if text.starts_with('{') => text.to_owned(),
                _ => message.iter().map(|byte| format!("{byte:02x}")).collect(),
            };
            let written =
                writeln!(output, "{topic}/{partition} {text}").and_then(|()| output.flush());
            if let Err(error) = written {
                let refused = MqError::Refused(format!("standard output: {error}"));
                let is_closed = error.kind() == io::ErrorKind::BrokenPipe;
                self.end(if is_closed { Ok(()) } else { Err(error) });
                return Err(refused);
            }
            if rest == 0 {
                self.end(Ok(()));
            }
        }
        Ok(())
    }
}

impl MqProducer for Printer {
    async fn partitions(&self, _topic: &str) -> Result<u32, MqError> {
        Ok(PARTITIONS)
    }

    async fn produce(
        &self,
        topic: &str,
        partition: u32,
        messages: Vec<Bytes>,
    ) -> Result<(), MqError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.print(topic, partition, &messages)
    }
}
