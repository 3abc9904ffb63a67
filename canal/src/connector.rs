//! Connectors: they own the connection and carry out what the machines say.
//!
//! [`SimpleCanalConnector`] is pulled; [`ClusterCanalConnector`] too, and repairs itself. [`CanalConnector`] is an actor that pushes; its task
//! (`driver`) owns a simple connector, and what it does next is decided by the machines `delivery`
//! and `backoff`.

mod actor;
mod backoff;
mod builder;
mod cluster;
mod connection;
mod connectors;
mod delivery;
mod driver;
mod measure;
mod pausing;
mod rows;
mod settings;
mod simple;
mod spans;
mod stall;
mod status;

pub use actor::{Batch, BatchResult, CanalConnector, GetStatus, Pause, Resume, Stop, WaitForEnd};
#[cfg(any(feature = "zookeeper", feature = "mq", feature = "sql"))]
pub(crate) use backoff::Backoff;
pub use builder::CanalConnectorBuilder;
pub use cluster::ClusterCanalConnector;
pub use connectors::CanalConnectors;
#[cfg(feature = "sql")]
pub(crate) use driver::decode_error;
pub use rows::{DeadRow, DecodedBatch, DecodedChange, DecodedRow, OnDecodeError, RowDecoding};
pub use settings::CanalConnectorSettings;
pub use simple::SimpleCanalConnector;
#[cfg(any(feature = "mq", feature = "sql"))]
pub(crate) use simple::first_epoch;
pub use stall::{BinlogAnswer, BinlogPosition, BinlogProbe};
pub use status::{ConnectorEnd, ConnectorState, ConnectorStatus};
