//! A queue that prints.

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lockkeeper_canal::mq::{MqError, MqProducer};
use tokio::sync::Notify;

/// Partitions that each topic seems to have.
const PARTITIONS: u32 = 3;

/// Prints each message on a line, behind its topic and partition: JSON as it is, anything else as
/// hexadecimal digits.
///
/// It takes so many messages; the others are refused, and come again to the next reader.
#[derive(Debug)]
pub(super) struct Printer {
    left: Mutex<usize>,
    done: Arc<Notify>,
}

impl Printer {
    /// `done` is notified when `limit` messages are printed.
    pub(super) fn new(limit: usize, done: Arc<Notify>) -> Self {
        Self {
            left: Mutex::new(limit),
            done,
        }
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
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut output = io::stdout().lock();
        for message in messages {
            let Some(rest) = left.checked_sub(1) else {
                return Err(MqError::Refused("the limit is reached".to_owned()));
            };
            *left = rest;
            if rest == 0 {
                self.done.notify_one();
            }
            let text = match std::str::from_utf8(&message) {
                Ok(text) if text.starts_with('{') => text.to_owned(),
                _ => message.iter().map(|byte| format!("{byte:02x}")).collect(),
            };
            writeln!(output, "{topic}/{partition} {text}").map_err(|e| refused(&e))?;
        }
        output.flush().map_err(|e| refused(&e))
    }
}

fn refused(error: &io::Error) -> MqError {
    MqError::Refused(format!("standard output: {error}"))
}
