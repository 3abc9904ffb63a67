//! Settings of the connector actor.

use std::time::Duration;

use crate::error::CanalError;
use crate::filter::Filter;

/// How a [`CanalConnector`](crate::CanalConnector) works. The connection itself is set up by
/// [`CanalConnectorBuilder`](crate::CanalConnectorBuilder).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanalConnectorSettings {
    pub(super) filter: Filter,
    pub(super) fetch_size: u32,
    pub(super) window: usize,
    pub(super) longest_poll_pause: Duration,
    pub(super) keep_alive: Duration,
    pub(super) first_back_off: Duration,
    pub(super) longest_back_off: Duration,
    pub(super) reconnect_limit: Option<u32>,
    pub(super) stable_after: Duration,
    pub(super) stop_timeout: Duration,
    pub(super) transaction_limit: usize,
}

impl Default for CanalConnectorSettings {
    fn default() -> Self {
        Self {
            filter: Filter::keep(),
            fetch_size: 1000,
            window: 1,
            longest_poll_pause: Duration::from_millis(50),
            keep_alive: Duration::from_secs(10),
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(30),
            reconnect_limit: Some(20),
            stable_after: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(30),
            transaction_limit: 64 << 20,
        }
    }
}

impl CanalConnectorSettings {
    /// Which tables. Default: the filter that is in force at the server.
    pub fn with_filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// How much one batch has at most: KiB in the server's default mode, entries in its ITEMSIZE
    /// mode; 1 to 2,097,151. Default 1000.
    pub fn with_fetch_size(self, fetch_size: u32) -> Self {
        Self { fetch_size, ..self }
    }

    /// How many batches may be with the handler at a time. Above 1 the server is at work on the next
    /// batch while one is decoded and handled: 2 for throughput. A handler that awaits gets the next
    /// batch before it is done with the one before; give it a mailbox with room for all of them, or
    /// they can come out of order. All of them together have to fit into what the server holds
    /// unacknowledged, by default 16 MiB. Default 1.
    pub fn with_window(self, batches: usize) -> Self {
        Self {
            window: batches,
            ..self
        }
    }

    /// While nothing comes, the pause between two questions doubles from 1 ms up to this: it
    /// bounds how late a row can be. Default 50 ms, which is 20 small requests a second.
    pub fn with_longest_poll_pause(self, pause: Duration) -> Self {
        Self {
            longest_poll_pause: pause,
            ..self
        }
    }

    /// While a handler works or the connector is paused, the server is asked this often whether
    /// it lives; at most a third of the server's silence limits. Default 10 s.
    pub fn with_keep_alive(self, period: Duration) -> Self {
        Self {
            keep_alive: period,
            ..self
        }
    }

    /// Waits before connecting again, and before a failed batch is delivered again: from the
    /// first, doubling, to the longest, less up to half at random. Default 100 ms to 30 s.
    pub fn with_back_off(self, first: Duration, longest: Duration) -> Self {
        Self {
            first_back_off: first,
            longest_back_off: longest,
            ..self
        }
    }

    /// How often in a row connecting again may fail before the connector ends; `None`: without
    /// limit. A connection that lasts for 30 s starts the count anew. Default 20.
    pub fn with_reconnect_limit(self, limit: Option<u32>) -> Self {
        Self {
            reconnect_limit: limit,
            ..self
        }
    }

    /// How long stopping waits for handlers. What is not handled by then comes again after the
    /// next start. Default 30 s.
    pub fn with_stop_timeout(self, limit: Duration) -> Self {
        Self {
            stop_timeout: limit,
            ..self
        }
    }

    /// The largest transaction in bytes of its entries, when transactions are pushed: the
    /// connector ends with [`CanalError::TransactionTooLarge`] at a larger one. Default 64 MiB.
    /// It must also fit into what the server holds unacknowledged.
    pub fn with_transaction_limit(self, bytes: usize) -> Self {
        Self {
            transaction_limit: bytes,
            ..self
        }
    }

    pub(super) fn check(&self) -> Result<(), CanalError> {
        let wrong = if self.window == 0 {
            "window must be at least 1"
        } else if !(1..=crate::protocol::packet::MAX_FETCH_SIZE).contains(&self.fetch_size) {
            "fetch_size must be 1 to 2,097,151"
        } else if self.longest_poll_pause.is_zero()
            || self.keep_alive.is_zero()
            || self.first_back_off.is_zero()
        {
            "longest_poll_pause, keep_alive and the first back-off must be longer than zero"
        } else {
            return Ok(());
        };
        Err(CanalError::InvalidArgument(wrong.to_owned()))
    }
}
