//! Every limit and time of the transport, with its default.

use std::time::Duration;

use lockkeeper_core::{RpcError, RpcErrorKind};
use serde::{Deserialize, Serialize};

/// The largest frame limit that can be set, in bytes.
pub const MAX_FRAME_LIMIT_BYTES: u32 = 1024 * 1024 * 1024;

/// The smallest frame limit that can be set, in bytes: a handshake has to fit.
pub const MIN_FRAME_LIMIT_BYTES: u32 = 64 * 1024;

/// Limits and times of a service's connections.
///
/// ```
/// use lockkeeper_remote::RemoteSettings;
/// let settings = RemoteSettings { frame_limit_bytes: 1024 * 1024, ..RemoteSettings::default() };
/// assert_eq!(settings.in_flight_limit, 16_384);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteSettings {
    /// The largest frame in bytes, counted without its length field; a message has about 20 bytes
    /// less. The smaller of both ends' limits is used. A larger message or reply fails with
    /// `TooLarge` before a byte of it is written. Default: 64 MiB.
    pub frame_limit_bytes: u32,
    /// Bytes of calls and one-way messages that may wait for a connection's socket. Beyond it
    /// `send` waits within its deadline and `do_send` is refused with `Full`. Messages above 60 KiB
    /// wait among themselves, with the same limit, and go in chunks between the others. Answers that wait for
    /// a peer that does not read count by themselves against the same number; beyond it the peer's
    /// calls are refused with `Full`. Default: 16 MiB.
    pub outgoing_limit_bytes: u32,
    /// Calls in flight on a connection, each way; beyond it a `send` waits within its deadline.
    /// Default: 16,384.
    pub in_flight_limit: usize,
    /// Sessions (connected gateways) that a connection's peer may have here; beyond it `connect`
    /// fails with `Full`. Default: 4,096.
    pub session_limit: usize,
    /// What one session may send here, in messages: one-way ones that wait in the endpoint's inbox or
    /// on their way to it, beyond which `try_send` is refused with `Full`; and as many asks that are
    /// not answered yet, beyond which `send` waits within its deadline, in turn. Should be no more
    /// than half the inboxes' limits divided by the sessions that send at the same time: a one-way
    /// message for which an inbox has no room is lost to the dead letters. Default: 4,096.
    pub credit_messages: u32,
    /// The same for one-way messages in bytes of payload; one message may go beyond it. Default: 8 MiB.
    pub credit_bytes: u32,
    /// Connections in all that are accepted; beyond it new ones are closed at once. Default: 1,024.
    pub connection_limit: usize,
    /// Accepted connections that have not introduced themselves yet; beyond it new ones are closed
    /// at once. Default: 64.
    pub handshake_limit: usize,
    /// Time for dialling and for the introduction of both sides. Default: 5 s.
    pub handshake_timeout: Duration,
    /// Silence of a connection after which the peer is pinged. Default: 1 s.
    pub ping_interval: Duration,
    /// Silence after a ping after which the connection is given up: calls in flight fail with
    /// `ConnectionLost`. It must be longer than the peer's I/O thread may be kept from running.
    /// Default: 4 s.
    pub ping_timeout: Duration,
    /// The first pause after a failed attempt to dial; it doubles up to
    /// [`reconnect_pause_limit`](Self::reconnect_pause_limit), with jitter. An attempt within the
    /// pause waits for its end. Default: 50 ms.
    pub reconnect_pause: Duration,
    /// The longest pause between two attempts to dial. Default: 2 s.
    pub reconnect_pause_limit: Duration,
    /// Time for calls under way when the service shuts down. Default: 5 s.
    pub shutdown_timeout: Duration,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            frame_limit_bytes: 64 * 1024 * 1024,
            outgoing_limit_bytes: 16 * 1024 * 1024,
            in_flight_limit: 16_384,
            session_limit: 4_096,
            credit_messages: 4_096,
            credit_bytes: 8 * 1024 * 1024,
            connection_limit: 1_024,
            handshake_limit: 64,
            handshake_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(1),
            ping_timeout: Duration::from_secs(4),
            reconnect_pause: Duration::from_millis(50),
            reconnect_pause_limit: Duration::from_secs(2),
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}

impl RemoteSettings {
    /// Checks each value against what is possible, as the service's start does.
    ///
    /// # Errors
    /// `InvalidConfiguration`; the text begins with the setting's name and ends with its limits.
    pub fn validate(&self) -> Result<(), RpcError> {
        let wrong = |text: String| Err(RpcError::new(RpcErrorKind::InvalidConfiguration, text));
        if !(MIN_FRAME_LIMIT_BYTES..=MAX_FRAME_LIMIT_BYTES).contains(&self.frame_limit_bytes) {
            return wrong(format!(
                "frame_limit_bytes is {}, it must be {MIN_FRAME_LIMIT_BYTES} to \
                 {MAX_FRAME_LIMIT_BYTES}",
                self.frame_limit_bytes
            ));
        }
        if self.outgoing_limit_bytes < MIN_OUTGOING_LIMIT_BYTES {
            return wrong(format!(
                "outgoing_limit_bytes is {}, it must be at least {MIN_OUTGOING_LIMIT_BYTES}",
                self.outgoing_limit_bytes
            ));
        }
        for (name, value) in [
            ("credit_messages", self.credit_messages),
            ("credit_bytes", self.credit_bytes),
        ] {
            if value == 0 || value > MAX_FRAME_LIMIT_BYTES {
                return wrong(format!(
                    "{name} is {value}, it must be 1 to {MAX_FRAME_LIMIT_BYTES}"
                ));
            }
        }
        for (name, value) in [
            ("in_flight_limit", self.in_flight_limit),
            ("session_limit", self.session_limit),
            ("connection_limit", self.connection_limit),
            ("handshake_limit", self.handshake_limit),
        ] {
            if value == 0 || value > MAX_COUNT {
                return wrong(format!("{name} is {value}, it must be 1 to {MAX_COUNT}"));
            }
        }
        for (name, value) in [
            ("handshake_timeout", self.handshake_timeout),
            ("ping_interval", self.ping_interval),
            ("ping_timeout", self.ping_timeout),
            ("reconnect_pause", self.reconnect_pause),
            ("reconnect_pause_limit", self.reconnect_pause_limit),
            ("shutdown_timeout", self.shutdown_timeout),
        ] {
            if value.is_zero() || value > MAX_TIME {
                return wrong(format!(
                    "{name} is {value:?}, it must be above 0 and at most 1 day"
                ));
            }
        }
        Ok(())
    }
}

/// Room for a few chunks.
const MIN_OUTGOING_LIMIT_BYTES: u32 = 1024 * 1024;

/// The largest number of things that a limit may allow.
const MAX_COUNT: usize = 1 << 20;

/// The longest time that a setting may have.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);
