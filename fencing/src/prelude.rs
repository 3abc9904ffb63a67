//! What most users need: `use lockkeeper_fencing::prelude::*`.

#[cfg(feature = "etcd")]
pub use crate::driver::Etcd;
#[cfg(feature = "kubernetes")]
pub use crate::driver::Kubernetes;
#[cfg(feature = "zookeeper")]
pub use crate::driver::ZooKeeper;
pub use crate::{
    FencingToken, Idempotent, LeaderGateway,
    clock::LocalDeadline,
    driver::{InProcessElection, LeaseFiles, SuspensionPolicy},
    election::{
        ActorContender, ComponentId, ElectionError, ElectionFailed, GrantLeadership,
        LeaderContender, LeaderElection, LeaderElectionOptions, LeaderElectionService,
        LeaderInformation, Leadership, RevokeLeadership,
    },
    guard::{EpochGuard, FileGuardStore, GuardError, GuardStore, Guarded, MemoryGuardStore},
    retrieval::{LeaderRetrieval, LeaderRetrievalService},
};
