//! What most users need: `use lockkeeper_canal::prelude::*`.

pub use crate::{
    Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, CanalError,
    ChangeKind, ClientIdentity, ClientRole, ClusterCanalConnector, CommittedTransaction, Entry,
    EntryType, EventType, Filter, Message, Row, RowChange, RowError, SimpleCanalConnector,
};
#[cfg(feature = "zookeeper")]
pub use crate::{ClientRunningMonitor, ClusterNodeAccessStrategy};
