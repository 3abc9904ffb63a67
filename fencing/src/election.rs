//! Leader election: which one of several processes acts, and under which token.
//!
//! ```text
//! contender (your actor)      one component id each
//!    ▲ grant, revoke │ start, confirm, close
//! LeaderElection     ▼
//! LeaderElectionService       one a process: one leadership for all its components
//!    ▲ granted, lost │ publish, withdraw, close
//! LeaderElectionDriver        in process, lease files, ZooKeeper, or yours
//! ```
//!
//! The contract: a grant carries a [`FencingToken`](lockkeeper_core::token::FencingToken) that is
//! above all former ones. The contender starts what it serves under that token and then confirms
//! with its address, which is when others can find it. It checks
//! [`Leadership::deadline`] right before each effect. Callbacks come one after another on a task
//! of their own, never under a lock: confirming, closing and starting anew inside of them is fine.

mod contender;
mod driver;
mod error;
mod information;
mod machine;
mod service;

pub use contender::{
    ActorContender, Callback, ElectionFailed, GrantLeadership, LeaderContender, Leadership,
    RevokeLeadership,
};
pub use driver::{DriverListener, LeaderElectionDriver, LeaderElectionDriverFactory};
pub use error::ElectionError;
pub use information::{ComponentId, LeaderInformation};
pub use service::{LeaderElection, LeaderElectionOptions, LeaderElectionService};
