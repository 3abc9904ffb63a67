//! What most users need: `use lockkeeper_canal::prelude::*`.

#[cfg(feature = "zookeeper")]
pub use crate::ClusterNodeAccessStrategy;
pub use crate::{
    Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, CanalError,
    ChangeKind, ClientIdentity, Entry, EntryType, EventType, Filter, Message, Row, RowChange,
    RowError, SimpleCanalConnector,
};
