//! A client of Alibaba Canal's server: row changes of MySQL and MariaDB as typed rows.
//!
//! Canal's server reads a database's binlog as a replica does and hands out what changed, in
//! batches that are acknowledged. This crate is its client:
//!
//! - [`SimpleCanalConnector`] is pulled: connect, subscribe, then get and acknowledge in turn.
//! - [`ClusterCanalConnector`] is pulled too, and connects and subscribes again by itself.
//! - [`CanalConnector`] is an actix actor that pushes batches to a handler, acknowledges what was
//!   handled, and connects again by itself.
//! - [`RowChange::rows`] turns the rows of an entry into values of a type of yours.
//!
//! Rows come **at least once**: after a broken connection everything that was not acknowledged
//! comes again. A server keeps one read pointer a destination, so there must be one consumer a
//! destination; when there are two, each connector notices and says [`CanalError::EpochEnded`].
//!
//! It talks to servers 1.0.25 to 1.1.8; its tests run on the real 1.1.4 and 1.1.7, and on the
//! embedded server as four generations.
//!
//! When not to use it: to read a table's present rows (Canal hands out changes from its position
//! on, not what was there before), and over networks that others can listen to (Canal's server has
//! no TLS, and below 1.1.8 its password protects nothing).
//!
//! ```no_run
//! use lockkeeper_canal::prelude::*;
//!
//! #[derive(serde::Deserialize)]
//! struct Order { id: u64, customer: String }
//!
//! # async fn follow() -> Result<(), Box<dyn std::error::Error>> {
//! let mut connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
//!     .address("127.0.0.1:11111")
//!     .build()?;
//! connector.connect().await?;
//! connector.subscribe(&Filter::table("shop", "orders")).await?;
//! loop {
//!     let Some(message) = connector.get_without_ack(1000, None).await? else {
//!         tokio::time::sleep(std::time::Duration::from_millis(20)).await;
//!         continue;
//!     };
//!     for entry in message.entries() {
//!         let Some(change) = entry?.row_change()? else { continue };
//!         for row in change.rows::<Order>() {
//!             if let Some(order) = row?.after {
//!                 println!("order {} of {}", order.id, order.customer);
//!             }
//!         }
//!     }
//!     connector.ack(message.id()).await?;
//! }
//! # }
//! ```
//!
//! | feature | brings | default |
//! |---|---|---|
//! | `kafka` | `mq::KafkaForwarder` and `mq::KafkaConnector`: Kafka in both directions | no |
//! | `mq` | [`mq`]'s actors over the traits `MqProducer` and `MqConsumer`, for any message queue | no |
//! | `sql` | `snapshot::SnapshotThenStream`: the rows from before, and then the stream | no |
//! | `testing` | `testing::CanalServer`, a server within the process, for tests | no |
//! | `zookeeper` | `ClusterNodeAccessStrategy`, which finds the servers of a cluster, and `ClientRunningMonitor`, by which one of several clients is served | no |
//!
//! The house, room by room:
//!
//! | module | subject |
//! |---|---|
//! | `protocol` | frames, packets, entries on the wire |
//! | `session` | one connection's protocol as a pure machine |
//! | `connector` | the connectors: socket and actor around the machine |
//! | `access` | which server to dial |
//! | `role`, `running` | which of several clients is served |
//! | `message`, `entry`, `row` | batches, entries, rows |
//! | `transaction` | transactions, put together across batches |
//! | `filter` | which tables to ask for |
//! | `identity`, `error` | who asks; what can go wrong |
//! | `mq` (feature `mq`) | message queues: batches to them, and from them |
//! | `snapshot` (feature `sql`) | rows from before the start, merged into the stream |
//! | `testing` (feature `testing`) | a server within the process, for tests |

mod access;
mod connector;
mod entry;
mod error;
mod filter;
#[cfg(feature = "_fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod message;
#[cfg(feature = "mq")]
pub mod mq;
#[cfg(any(feature = "mq", feature = "sql"))]
mod parsed;
pub mod prelude;
mod protocol;
#[cfg_attr(
    not(feature = "zookeeper"),
    expect(dead_code, reason = "roles come from the running monitor")
)]
mod role;
mod row;
#[cfg(feature = "zookeeper")]
mod running;
mod session;
#[cfg(feature = "sql")]
pub mod snapshot;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;

#[cfg(feature = "zookeeper")]
pub use access::ClusterNodeAccessStrategy;
pub use access::{CanalNodeAccessStrategy, SimpleNodeAccessStrategy};
pub use connector::{
    Batch, BatchResult, BinlogAnswer, BinlogPosition, BinlogProbe, CanalConnector,
    CanalConnectorBuilder, CanalConnectorSettings, CanalConnectors, ClusterCanalConnector,
    ConnectorEnd, ConnectorState, ConnectorStatus, DeadRow, DecodedBatch, DecodedChange,
    DecodedRow, GetStatus, OnDecodeError, Pause, Resume, RowDecoding, SimpleCanalConnector, Stop,
    WaitForEnd,
};
pub use entry::{Entry, EntryFingerprint, EntryType, EventType, Position};
pub use error::{CanalError, EpochEnd, SessionPhase};
pub use filter::Filter;
pub use identity::{ClientIdentity, Password};
pub use message::{BatchId, Message};
pub use role::ClientRole;
pub use row::{ChangeKind, Column, Columns, RawRow, Row, RowChange, RowError};
#[cfg(feature = "zookeeper")]
pub use running::{
    ClientRunningData, ClientRunningListener, ClientRunningMonitor, ClientRunningMonitorBuilder,
    RunningState, ServerCursor,
};
pub use transaction::{CommittedTransaction, TransactionAssembler};
