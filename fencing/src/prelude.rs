//! What most users need: `use lockkeeper_fencing::prelude::*`.

#[cfg(feature = "zookeeper")]
pub use crate::driver::ZooKeeper;
pub use crate::{
    FencingToken, Idempotent, LeaderGateway,
    clock::LocalDeadline,
    driver::{InProcessElection, LeaseFiles},
    election::{
        ActorContender, ComponentId, ElectionError, ElectionFailed, GrantLeadership,
        LeaderContender, LeaderElection, LeaderElectionOptions, LeaderElectionService,
        LeaderInformation, Leadership, RevokeLeadership,
    },
    guard::{EpochGuard, FileGuardStore, GuardError, GuardStore, Guarded, MemoryGuardStore},
    retrieval::{LeaderRetrieval, LeaderRetrievalService},
};
