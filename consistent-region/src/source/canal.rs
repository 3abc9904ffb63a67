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
//! When the region ends, by itself or because it is stopped, everything that its last cut covers is
//! acknowledged before the region has ended: the next client of the destination gets what comes after
//! it. From then on the region can't fall back behind that cut.
//!
//! With a [`spool`](CanalSourceConfig::spool) rows are stored in the region's store first, acknowledged
//! then, and read from there after a reset; only what follows them is asked of the server again. What is
//! stored are the entries as the server sent them, all that change rows, whether the map had a use for
//! them or not: a program with another map reads them anew.
//!
//! One region for a destination: the server has one read position for all its clients.
//!
//! [`Intake`]: super::intake::Intake

mod fetch;
mod finish;
mod operator;
mod place;
mod shown;
mod spooling;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_canal::{CanalError, Entry, Filter, SimpleCanalConnector};

use super::bad_row::OnBadRow;
use super::change::OnSourceChange;

pub use operator::CanalSource;
pub(crate) use operator::describe;

/// Names the format of the state.
pub(crate) const STATE_TYPE: &str = "lockkeeper.canal-source";

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
    /// What happens to an entry that the map refuses: a change with all its rows. Positions are
    /// `JOURNAL:OFFSET`.
    pub on_bad_row: OnBadRow,
    /// What happens when the server delivers something else than was delivered before.
    pub on_source_change: OnSourceChange,
    /// Acknowledge as soon as rows lie in the region's store, instead of when the oldest retained cut
    /// covers them: for long periods between cuts, and for servers whose buffer is small. Each batch is
    /// one more object in the store before it is acknowledged. A region that was run with a spool
    /// goes on with one, and fails without; in one that began without, the spool holds only what the map
    /// had a use for. `false`.
    pub spool: bool,
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
            on_bad_row: OnBadRow::default(),
            on_source_change: OnSourceChange::default(),
            spool: false,
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
            .field("on_bad_row", &self.on_bad_row)
            .field("on_source_change", &self.on_source_change)
            .field("spool", &self.spool)
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
