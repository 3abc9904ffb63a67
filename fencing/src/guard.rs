//! Fenced effects in a shared store, without locks: what a deposed leader publishes is in nobody's
//! history.
//!
//! A leader that writes checkpoints, manifests or any other numbered series into a store may be
//! stopped between "am I still leader?" and the write, for as long as the scheduler likes. A lock
//! or a lease does not help: the write comes after it was lost. [`EpochGuard`] needs from the
//! store only *create if absent*, a consistent *list* and *read*:
//!
//! 1. A new leader with epoch E creates `fence-E`, *then* lists and chooses its base, the newest
//!    manifest of the chain, then creates `base-E` and lists the fences once more. With a higher
//!    one it steps down before any consequence.
//! 2. A publisher creates `manifest-<sequence>.<E>`, *then* lists the fences. With a higher one it
//!    steps down, and nothing may follow from the manifest: it is in the history only if the new leader
//!    found it before choosing its base.
//! 3. Readers follow the chain of bases, never the greatest number.
//! 4. What cannot be taken back (commits, acknowledgements, deletions) comes after the second look.
//! 5. A leader that has entered may [remove](EpochGuard::prune) the fences and bases of former ones, from the
//!    lowest fence up. A look therefore ends with the leader's own fence: while that is there, no higher one has been
//!    removed. A base repeats what those below it say.
//!
//! Each of these rules, done the other way or left out, loses a published manifest or repeats a
//! commit; `guard/tests` walks through every interleaving of this code to show that it does not.
//!
//! ```
//! use std::sync::Arc;
//! use lockkeeper_fencing::guard::{EpochGuard, Guarded, GuardStore, MemoryGuardStore};
//!
//! # fn main() -> Result<(), lockkeeper_fencing::guard::GuardError> {
//! let store: Arc<dyn GuardStore> = Arc::new(MemoryGuardStore::new());
//! let Guarded::Done(mut old) = EpochGuard::enter(store.clone(), 1)? else { panic!("alone") };
//! assert!(old.publish(1, b"first")?.is_done());
//!
//! let Guarded::Done(new) = EpochGuard::enter(store, 2)? else { panic!("the highest epoch") };
//! assert_eq!(new.newest().map(|manifest| manifest.sequence), Some(1));
//! assert!(!old.publish(2, b"too late")?.is_done());
//! # Ok(())
//! # }
//! ```
//!
//! | store | for | what it must have |
//! |---|---|---|
//! | [`MemoryGuardStore`] | one process, tests | |
//! | [`FileGuardStore`] | the processes of one host | a local file system |
//! | `ZooKeeperGuardStore` (feature `zookeeper`) | small manifests | |
//! | `EtcdGuardStore` (feature `etcd`) | small manifests | |
//! | `RedisGuardStore` (feature `redis`) | one primary without fail-over | `appendfsync always` |
//! | `ObjectGuardStore` (feature `object-store`; `s3`) | several hosts, large manifests | conditional creation |
//!
//! Epochs of two coordination stores cannot be compared. [`EpochGuard::enter_with`] takes a whole token,
//! records its lineage, and refuses another one until an operator has [adopted](adopt_lineage) it.
//!
//! When not to use it: for effects outside the store. What cannot compare an epoch has to be made
//! harmless by the successor.

mod chain;
#[cfg(any(feature = "etcd", feature = "object-store", feature = "zookeeper"))]
mod client_thread;
mod entering;
mod epoch_guard;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod file;
mod lineage;
mod memory;
mod name;
#[cfg(feature = "object-store")]
mod object_store;
pub(crate) mod procedure;
mod reader;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod store;
#[cfg(test)]
mod tests;
#[cfg(feature = "zookeeper")]
mod zookeeper;

#[cfg(feature = "etcd")]
pub use self::etcd::EtcdGuardStore;
#[cfg(feature = "object-store")]
pub use self::object_store::ObjectGuardStore;
#[cfg(feature = "redis")]
pub use self::redis::RedisGuardStore;
#[cfg(feature = "zookeeper")]
pub use self::zookeeper::ZooKeeperGuardStore;
pub use chain::Chain;
pub use entering::{Entering, Unusable};
pub use epoch_guard::{EpochGuard, MAX_PRUNED};
pub use error::GuardError;
pub use file::FileGuardStore;
pub use lineage::{adopt_lineage, current_lineage};
pub use memory::MemoryGuardStore;
pub use name::ManifestId;
pub use reader::{highest_fence, read_newest};
pub use record::{Base, LeftOut, Segment};
#[cfg(feature = "_fuzzing")]
pub(crate) use record::{Fence, LineageRecord, PrunedRecord, decode, encode, seal};
pub use store::{Creation, GuardStore, Guarded, MAX_RECORD_BYTES};
