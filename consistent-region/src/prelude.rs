//! What most users need: `use lockkeeper_consistent_region::prelude::*`.

#[cfg(feature = "canal")]
pub use crate::source::canal::{CanalSource, CanalSourceConfig, Mapped};
#[cfg(feature = "remote")]
pub use crate::{coordinator::ElectedCoordinator, link::remote::RemoteLink};
pub use crate::{
    coordinator::{
        CoordinatorEnd, CoordinatorHandle, CoordinatorSettings, RegionCoordinator, RegionEvent,
        RegionState, Shape,
    },
    graph::{Region, RegionBuilder, TopologyError},
    operator::{
        Committer, Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced,
        RegionHandle, StartOperator,
    },
    point::Hook,
    sink::FileSink,
    store::{CheckpointStore, FileStore, MemoryStore},
    worker::{RegionWorker, WorkerConfig, WorkerEnd, WorkerHandle},
};
