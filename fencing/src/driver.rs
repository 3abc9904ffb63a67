//! The drivers: where leadership is decided.
//!
//! | driver | decided by | session | for |
//! |---|---|---|---|
//! | [`InProcessElection`] | a queue in memory | none | one process, tests |
//! | [`LeaseFiles`] | files in a folder of one host | 2 s by default | several processes of one host |
//! | `ZooKeeper` (feature `zookeeper`) | an ensemble | 10 s by default | several hosts |
//! | `Etcd` (feature `etcd`) | a cluster | 10 s by default | several hosts |
//! | `Kubernetes` (feature `kubernetes`) | a Lease object | 15 s by default | the pods of a cluster |

#[cfg(any(feature = "etcd", feature = "kubernetes"))]
mod candidate;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod file;
mod in_process;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(any(feature = "etcd", feature = "kubernetes", feature = "zookeeper"))]
mod renewal;
mod suspension;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

#[cfg(feature = "etcd")]
pub use self::etcd::{Etcd, EtcdTls};
#[cfg(feature = "kubernetes")]
pub use self::kubernetes::Kubernetes;
pub use file::LeaseFiles;
pub use in_process::InProcessElection;
pub use suspension::SuspensionPolicy;
#[cfg(feature = "zookeeper")]
pub use zookeeper::ZooKeeper;

use std::future::Future;

use crate::election::ElectionError;

/// Runs a future to its end on a thread of its own.
pub(crate) fn on_own_thread(
    name: &str,
    future: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ElectionError> {
    let unavailable = |error| ElectionError::unavailable("starting its thread", error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(unavailable)?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread
        .spawn(move || runtime.block_on(future))
        .map_err(unavailable)?;
    Ok(())
}
