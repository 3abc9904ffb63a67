//! What most users need: `use lockkeeper_consistent_region::prelude::*`.

#[cfg(feature = "sql")]
pub use crate::sink::{SqlSettings, SqlSink, Statement};
#[cfg(feature = "canal")]
pub use crate::source::canal::{CanalSource, CanalSourceConfig, Mapped};
#[cfg(feature = "kafka")]
pub use crate::source::queue::KafkaSource;
#[cfg(feature = "mq")]
pub use crate::source::queue::{QueueMessage, QueueSource, QueueSourceConfig};
#[cfg(feature = "remote")]
pub use crate::{coordinator::ElectedCoordinator, link::remote::RemoteLink, worker::WorkerProgram};
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
    process::{LocalProcesses, ProcessSpawner, Supervisor},
    sink::{FileSink, IdempotentSink, SinkOperator, TwoPhaseSink},
    source::bad_row::OnBadRow,
    source::file::{FileSource, FileSourceConfig},
    source::replayable::{ReplayBuffer, ReplayableStart},
    store::{CheckpointStore, FileStore, MemoryStore},
    worker::{RegionWorker, WorkerConfig, WorkerEnd, WorkerHandle},
};
