//! A Canal server within the process, for tests: real protocol, scripted rows, no database.
//!
//! [`CanalServer`] listens on loopback and speaks Canal's protocol to any client, Java's included. Its
//! rows come from a script, a [`RowSource`] or [`CanalServerHandle::commit`], its faults from
//! [`CanalServerHandle::inject`]; [`Statistics`] tell what clients did.
//!
//! ```
//! use lockkeeper_canal::testing::{CanalServer, Table, Transaction};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = CanalServer::builder()
//!     .destination("example")
//!     .user("canal", "secret")
//!     .start()?;
//! let orders = Table::new("shop", "orders")
//!     .key("id", "bigint(20)")
//!     .column("customer", "varchar(32)");
//! server
//!     .handle()
//!     .commit(Transaction::new(1).insert(&orders, ["1", "anna"]))?;
//! // connect a client to server.address() and let it acknowledge …
//! assert_eq!(server.handle().statistics().acked_transactions, 0);
//! server.stop();
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! To serve real clients: nothing outlives the process, and there is no database behind it.
//!
//! # What it speaks
//!
//! Everything a data client uses, as measured on servers 1.1.4 and 1.1.7 with MariaDB: handshake and
//! passwords (with the by-pass of 1.1.4 to 1.1.7, see [`ServerVersion`]), SUBSCRIPTION with filters,
//! UNSUBSCRIPTION, GET with its waits and its lock, CLIENTACK, CLIENTROLLBACK of all and of one batch
//! (with the loss that follows from the latter), the error codes and texts, idle time-outs, the store's
//! limits, two clients that share one cursor, delivery from the cursor on after a restart.
//!
//! # Differences from the real server
//!
//! - An error's text is its first line; there is no Java stack trace, and the channel has no address.
//! - Entries go into the store one by one, not by whole transactions of up to 1,024 entries: when the
//!   store is full, a batch may end within a short transaction. The real one does so with long ones.
//! - Filters are regular expressions of the crate `regex`, not of Perl5 (no look-around, no
//!   back-references). Each filtered transaction still gives its TRANSACTIONEND, where the real server
//!   sends only some. After a restart entries keep the filter under which they were made.
//! - The log is in memory: entries are kept from the persisted cursor on, so a client that never
//!   acknowledges a transaction's end, or a second client id that is forgotten, makes it grow.
//! - A client id that subscribes again after UNSUBSCRIPTION starts behind the last ack; the real server
//!   may deliver the last acknowledged entry once more.
//! - Frames above 16 MiB from a client are swallowed, not kept; the real server keeps up to 2 GiB.
//! - No canal-admin, no ZooKeeper nodes, no message queues, no GTID mode, no Prometheus.

mod client;
mod connection;
mod destination;
mod entry;
mod fault;
mod filter;
mod handle;
mod machine;
mod moment;
mod reply;
mod server;
mod shell;
mod source;
mod statistics;
mod store;
mod table;
mod transaction;
mod value;
mod version;
mod wire;

pub use self::destination::Restart;
pub use self::fault::{Fault, Request};
pub use self::handle::{CanalServerHandle, NotReached};
pub use self::server::{CanalServer, CanalServerBuilder};
pub use self::source::{RowSource, SourceError};
pub use self::statistics::Statistics;
pub use self::store::{BatchMode, StoreLimits};
pub use self::table::Table;
pub use self::transaction::{CommitError, InvalidTransaction, Transaction};
pub use self::value::Value;
pub use self::version::ServerVersion;
