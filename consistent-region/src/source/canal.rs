//! A start operator that reads row changes from a Canal server, exactly once for the region.
//!
//! Canal can't be rewound to a position, and an acknowledgement can't be taken back. So a batch is
//! acknowledged only when the *oldest retained* cut covers it, and after a reset everything that
//! is not acknowledged comes again and is recognised by its content ([`Intake`]). Any sign that
//! somebody else moved the server ends the connection and resets the region. A replay that fits
//! nothing is rolled back again, in case somebody else's GET took its beginning; when three in a row
//! fit nothing it is a permanent error, never a silent skip.
//!
//! The server stops delivering when its buffer is full of what is not acknowledged. The source asks
//! for a cut before that ([`CanalSourceConfig::server_buffer_entries`]) and whenever nothing comes
//! while something is unacknowledged, whatever the region's period.
//!
//! One region for a destination: the server has one read position for all its clients.
//!
//! [`Intake`]: super::intake::Intake

mod fetch;
mod operator;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_canal::{CanalError, Entry, Filter, SimpleCanalConnector};

pub use operator::CanalSource;

/// Makes the connector of one attempt; see [`CanalSourceConfig::connector`].
pub type MakeConnector = Arc<dyn Fn() -> Result<SimpleCanalConnector, CanalError> + Send + Sync>;

/// Makes tuples of an entry; see [`CanalSource::new`].
pub type MapEntry<T> =
    Box<dyn FnMut(&Entry) -> Result<Mapped<T>, Box<dyn std::error::Error + Send + Sync>> + Send>;

/// What an entry is to the region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapped<T> {
    /// These tuples, none for an entry that is of no interest.
    Tuples(Vec<T>),
    /// These tuples are the last: nothing after them is read.
    End(Vec<T>),
}

/// How a [`CanalSource`] is set up.
#[derive(Clone)]
pub struct CanalSourceConfig {
    /// Makes a connector for each attempt: address, destination, client id, password.
    pub connector: MakeConnector,
    /// The tables.
    pub filter: Filter,
    /// How much a batch asks for; KiB of entries in the server's default mode. 256.
    pub fetch_size: u32,
    /// `canal.instance.memory.buffer.size` of the server. 16,384.
    pub server_buffer_entries: u64,
    /// The server's `memory.buffer.size` × `memory.buffer.memunit`, in bytes. 16 MiB.
    pub server_buffer_bytes: u64,
    /// A cut is asked for when nothing came for so long while something is unacknowledged. 250 ms.
    pub idle_before_cut: Duration,
    /// Longest pause between two empty fetches. 20 ms.
    pub longest_pause: Duration,
    /// Longest pause between two attempts to connect. 5 s.
    pub longest_back_off: Duration,
    /// Wrong behaviour on purpose; see [`SourceSabotage`].
    pub sabotage: SourceSabotage,
}

impl CanalSourceConfig {
    /// Defaults for everything but the server.
    #[must_use]
    pub fn new(connector: MakeConnector, filter: Filter) -> Self {
        Self {
            connector,
            filter,
            fetch_size: 256,
            server_buffer_entries: 16_384,
            server_buffer_bytes: 16 << 20,
            idle_before_cut: Duration::from_millis(250),
            longest_pause: Duration::from_millis(20),
            longest_back_off: Duration::from_secs(5),
            sabotage: SourceSabotage::None,
        }
    }
}

impl fmt::Debug for CanalSourceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanalSourceConfig")
            .field("filter", &self.filter)
            .field("fetch_size", &self.fetch_size)
            .field("server_buffer_entries", &self.server_buffer_entries)
            .field("server_buffer_bytes", &self.server_buffer_bytes)
            .field("sabotage", &self.sabotage)
            .finish_non_exhaustive()
    }
}

/// Wrong behaviour on purpose, for tests that show that a judge notices lost and doubled rows.
/// Never for anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SourceSabotage {
    /// None.
    #[default]
    None,
    /// Acknowledges each batch when it arrives, and takes what comes after a reset as new.
    AcknowledgeEarly,
    /// Takes what comes after a reset as new without recognising what comes again.
    NoRollback,
}

impl SourceSabotage {
    fn skips_checks(self) -> bool {
        self != Self::None
    }
}

#[cfg(test)]
mod tests;
