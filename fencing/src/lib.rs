//! Leader election and retrieval, leader tokens, registration, and effects that a deposed leader
//! cannot make.
//!
//! | module | what is in it |
//! |---|---|
//! | [`clock`] | a clock that goes on while the machine sleeps, and the deadline of a leadership |
//! | [`election`] | contenders, the service, and the border to drivers |
//! | [`retrieval`] | a watch of who leads |
//! | [`driver`] | the drivers: in process, lease files, ZooKeeper, etcd, Kubernetes |
//! | [`LeaderGateway`] | calls that follow the leader |
//! | [`registration`] | registering at a leader, until it is accepted or rejected |
//! | [`heartbeat`] | does the other endpoint still work? |
//! | [`guard`] | fenced effects in a shared store, without locks |
//!
//! A leader that was stopped (by the scheduler, a debugger, a sleeping laptop) does not know that
//! it has been replaced. Nothing in here trusts that it would: what it may do is decided by its
//! own clock right before each effect ([`clock::LocalDeadline`]), by the token that endpoints
//! compare, and by the store ([`guard::EpochGuard`]).

pub mod clock;
#[cfg(feature = "testing")]
pub mod contract;
pub mod driver;
pub mod election;
#[cfg(feature = "_fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod heartbeat;
mod leader_gateway;
pub mod prelude;
pub mod registration;
pub mod retrieval;
#[cfg(test)]
mod searching;
mod status;

pub use leader_gateway::{Idempotent, LeaderGateway};
pub use lockkeeper_core::token::{FencingToken, Lineage, TokenRelation};
