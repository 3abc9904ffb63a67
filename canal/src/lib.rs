//! A client of Alibaba Canal's server: row changes of MySQL and MariaDB.
//!
//! | module | subject |
//! |---|---|
//! | `protocol` | frames, packets, entries on the wire |
//! | `session` | one connection's protocol as a pure machine |
//! | `connector` | the connectors: socket and actor around the machine |
//! | `access` | which server to dial |
//! | `message`, `entry`, `row` | batches, entries, rows |
//! | `filter` | which tables to ask for |
//! | `identity`, `error` | who asks; what can go wrong |
//! | `testing` (feature `testing`) | a server within the process, for tests |

mod access;
mod connector;
mod entry;
mod error;
mod filter;
mod identity;
mod message;
mod protocol;
mod row;
mod session;
#[cfg(feature = "testing")]
pub mod testing;

pub use access::{CanalNodeAccessStrategy, SimpleNodeAccessStrategy};
pub use connector::{
    Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings,
    ConnectorEnd, ConnectorState, ConnectorStatus, GetStatus, Pause, Resume, SimpleCanalConnector,
    Stop, WaitForEnd,
};
pub use entry::{Entry, EntryFingerprint, EntryType, EventType, Position};
pub use error::{CanalError, EpochEnd, SessionPhase};
pub use filter::Filter;
pub use identity::{ClientIdentity, Password};
pub use message::{BatchId, Message};
pub use row::{ChangeKind, Column, Columns, RawRow, Row, RowChange, RowError};
