//! What a session is told, and the checks that need it.

use std::sync::Arc;
use std::time::Duration;

use crate::error::CanalError;
use crate::identity::{ClientIdentity, Password};
use crate::message::BatchId;
use crate::protocol::packet::{MAX_FETCH_SIZE, ServerAck, Subscriber};

/// What a session is told.
#[derive(Debug, Clone)]
pub(crate) struct SessionConfig {
    pub(crate) identity: ClientIdentity,
    pub(crate) destination: Arc<str>,
    pub(crate) subscriber: Subscriber,
    pub(crate) username: String,
    pub(crate) password: Password,
    /// For each of dialling, handshake and authentication.
    pub(crate) connect_timeout: Duration,
    /// From a request to its answer.
    pub(crate) request_timeout: Duration,
    /// After how much silence of ours the server closes.
    pub(crate) net_read_timeout: Duration,
    /// After how much silence of its own the server closes.
    pub(crate) net_write_timeout: Duration,
}

impl SessionConfig {
    /// A session of `identity`, with limits to be set.
    pub(crate) fn new(identity: ClientIdentity, username: String, password: Password) -> Self {
        let subscriber = Subscriber {
            destination: identity.destination().to_owned(),
            client_id: identity.client_id().to_string(),
        };
        Self {
            destination: Arc::from(identity.destination()),
            subscriber,
            identity,
            username,
            password,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            net_read_timeout: Duration::from_secs(3600),
            net_write_timeout: Duration::from_secs(3600),
        }
    }

    /// The limits have to be in this order, or a slow answer would look like a dead connection:
    /// GET's time-out < the time for an answer < the silence after which the server closes.
    pub(crate) fn check(&self) -> Result<(), CanalError> {
        if self.identity.destination().is_empty() {
            return invalid("the destination's name is empty");
        }
        if self.connect_timeout.is_zero() || self.request_timeout.is_zero() {
            return invalid("connect_timeout and request_timeout must be longer than zero");
        }
        let silence = self.net_read_timeout.min(self.net_write_timeout);
        if self.request_timeout >= silence {
            return invalid(&format!(
                "request_timeout ({:?}) must be shorter than net_read_timeout and \
                 net_write_timeout ({silence:?})",
                self.request_timeout
            ));
        }
        if silence.as_millis() > i32::MAX.unsigned_abs().into() {
            return invalid("net_read_timeout and net_write_timeout must be below 24 days");
        }
        Ok(())
    }

    /// The time-out of a GET in milliseconds as it goes to the server.
    pub(crate) fn check_get(
        &self,
        fetch_size: u32,
        timeout: Option<Duration>,
    ) -> Result<i64, CanalError> {
        if !(1..=MAX_FETCH_SIZE).contains(&fetch_size) {
            return invalid(&format!(
                "fetch_size {fetch_size} is not in 1..={MAX_FETCH_SIZE}"
            ));
        }
        let Some(timeout) = timeout else {
            return Ok(-1);
        };
        if timeout.is_zero() {
            return invalid(
                "a GET with time-out zero blocks the destination for ever: use None for no wait",
            );
        }
        if timeout >= self.request_timeout {
            return invalid(&format!(
                "a GET's time-out ({timeout:?}) must be shorter than request_timeout ({:?})",
                self.request_timeout
            ));
        }
        let milliseconds = timeout.as_nanos().div_ceil(1_000_000);
        i64::try_from(milliseconds).or_else(|_| invalid("a GET's time-out is too long"))
    }

    /// The error for a request that needs a subscription.
    pub(crate) fn not_subscribed(&self) -> CanalError {
        CanalError::NotSubscribed {
            destination: self.subscriber.destination.clone(),
            client_id: self.identity.client_id(),
        }
    }

    /// The typed error for a refused authentication.
    pub(crate) fn refusal(&self, ack: &ServerAck) -> CanalError {
        let message = first_line(&ack.message);
        // A race within the server: it read our answer before it had kept the seeds it sent. The
        // password may be right, so this may be tried again.
        if ack.message.contains("seed is null") {
            return CanalError::Server {
                code: ack.code,
                message,
            };
        }
        CanalError::AuthFailed {
            user: self.username.clone(),
            message,
        }
    }

    /// The typed error for an error packet. `batch` is the acknowledgement it is put down to.
    pub(crate) fn server_error(&self, ack: &ServerAck, batch: Option<BatchId>) -> CanalError {
        let text = &ack.message;
        let message = first_line(text);
        if text.contains("should start first") {
            let destination = self.subscriber.destination.clone();
            return CanalError::NotRunningHere {
                destination,
                message,
            };
        }
        if text.contains("should subscribe first") {
            return self.not_subscribed();
        }
        if text.contains("auth failed") {
            return CanalError::AuthFailed {
                user: self.username.clone(),
                message,
            };
        }
        if text.contains("NumberFormatException") {
            return CanalError::InvalidClientId(self.identity.client_id().into());
        }
        match batch {
            Some(batch) if text.contains("is not exist") || text.contains("no match ack") => {
                CanalError::UnknownBatch { batch, message }
            }
            Some(batch) if text.contains("is not the firstly") => {
                CanalError::NotTheFirst { batch, message }
            }
            _ => CanalError::Server {
                code: ack.code,
                message,
            },
        }
    }
}

/// The first line of a server's text, at most 300 characters: the rest is a Java stack trace.
pub(crate) fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect()
}

/// Milliseconds for the wire; [`SessionConfig::check`] has looked at the range.
pub(crate) fn wire_milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn invalid<T>(why: &str) -> Result<T, CanalError> {
    Err(CanalError::InvalidArgument(why.to_owned()))
}
