//! The driver and the guarded store that were chosen.

use std::sync::Arc;
#[cfg(feature = "kubernetes")]
use std::time::Duration;

use anyhow::{Context as _, bail};
#[cfg(feature = "etcd")]
use lockkeeper_fencing::driver::Etcd;
#[cfg(feature = "kubernetes")]
use lockkeeper_fencing::driver::Kubernetes;
use lockkeeper_fencing::driver::{LeaseFiles, ZooKeeper};
use lockkeeper_fencing::election::{
    ComponentId, DriverListener, ElectionError, LeaderElectionDriver, LeaderElectionDriverFactory,
    LeaderInformation,
};
#[cfg(feature = "etcd")]
use lockkeeper_fencing::guard::EtcdGuardStore;
use lockkeeper_fencing::guard::{FileGuardStore, GuardStore, ZooKeeperGuardStore};
use lockkeeper_fencing::retrieval::LeaderRetrievalDriverFactory;

use super::options::{DriverName, PlaceOptions};

/// One of the drivers: each elects and finds.
#[derive(Clone, Debug)]
pub enum Driver {
    /// Lease files.
    File(LeaseFiles),
    /// A ZooKeeper ensemble.
    ZooKeeper(ZooKeeper),
    /// An etcd cluster.
    #[cfg(feature = "etcd")]
    Etcd(Etcd),
    /// A Lease of a Kubernetes cluster.
    #[cfg(feature = "kubernetes")]
    Kubernetes(Kubernetes),
}

impl Driver {
    /// The driver that was chosen.
    ///
    /// # Errors
    /// Options that do not fit together.
    pub fn new(place: &PlaceOptions) -> anyhow::Result<Self> {
        let session = place.session();
        Ok(match place.driver {
            DriverName::File => {
                let folder = place.data.as_ref().context("--data is missing")?;
                Driver::File(LeaseFiles::new(folder.join("election")).with_session(session))
            }
            DriverName::Zookeeper => {
                let (server, root) = server(place)?;
                let ensemble = ZooKeeper::new(server, format!("{root}/election"))?;
                Driver::ZooKeeper(ensemble.with_session(session))
            }
            #[cfg(feature = "etcd")]
            DriverName::Etcd => {
                let (server, root) = server(place)?;
                let cluster = Etcd::new([format!("http://{server}")], format!("{root}/election"));
                Driver::Etcd(cluster.with_session(session))
            }
            #[cfg(not(feature = "etcd"))]
            DriverName::Etcd => return without_etcd(),
            #[cfg(feature = "kubernetes")]
            DriverName::Kubernetes => Driver::Kubernetes(kubernetes(place)?),
            #[cfg(not(feature = "kubernetes"))]
            DriverName::Kubernetes => {
                bail!("built without Kubernetes: run it with `--features kubernetes`")
            }
        })
    }
}

/// Looks often enough for the session.
#[cfg(feature = "kubernetes")]
fn kubernetes(place: &PlaceOptions) -> anyhow::Result<Kubernetes> {
    let (session, lease) = (place.session(), place.lease.as_ref());
    let cluster = Kubernetes::new(&place.namespace, lease.context("--lease is missing")?)
        .with_session(session)
        .with_poll_interval((session / 8).min(Duration::from_secs(1)));
    Ok(match &place.server {
        Some(server) => cluster.with_url(format!("http://{server}")),
        None => cluster,
    })
}

/// The store that keeps the counter.
///
/// # Errors
/// Options that do not fit together, and what the store says.
pub fn store(place: &PlaceOptions) -> anyhow::Result<Arc<dyn GuardStore>> {
    Ok(match place.driver {
        // a Lease is no store: the processes are of one host, and share a folder
        DriverName::File | DriverName::Kubernetes => {
            let folder = place.data.as_ref().context("--data is missing")?;
            Arc::new(FileGuardStore::open(folder.join("counter"))?)
        }
        DriverName::Zookeeper => {
            let (server, root) = server(place)?;
            Arc::new(ZooKeeperGuardStore::new(server, format!("{root}/counter"))?)
        }
        #[cfg(feature = "etcd")]
        DriverName::Etcd => {
            let (server, root) = server(place)?;
            let endpoints = [format!("http://{server}")];
            Arc::new(EtcdGuardStore::new(endpoints, format!("{root}/counter/"))?)
        }
        #[cfg(not(feature = "etcd"))]
        DriverName::Etcd => return without_etcd(),
    })
}

fn server(place: &PlaceOptions) -> anyhow::Result<(&str, &str)> {
    let Some(server) = &place.server else {
        bail!(
            "--driver {} needs --server host:port",
            place.driver.as_str()
        );
    };
    let root = place.root.as_ref().context("--root is missing")?;
    Ok((server, root))
}

#[cfg(not(feature = "etcd"))]
fn without_etcd<T>() -> anyhow::Result<T> {
    bail!("built without etcd: run it with `--features etcd`, which needs protoc to be built")
}

impl LeaderElectionDriverFactory for Driver {
    fn create(
        &self,
        listener: DriverListener,
    ) -> Result<Box<dyn LeaderElectionDriver>, ElectionError> {
        match self {
            Driver::File(leases) => leases.create(listener),
            Driver::ZooKeeper(ensemble) => ensemble.create(listener),
            #[cfg(feature = "etcd")]
            Driver::Etcd(cluster) => cluster.create(listener),
            #[cfg(feature = "kubernetes")]
            Driver::Kubernetes(cluster) => cluster.create(listener),
        }
    }
}

impl LeaderRetrievalDriverFactory for Driver {
    fn retrieve(
        &self,
        component: ComponentId,
        leader: tokio::sync::watch::Sender<Option<LeaderInformation>>,
    ) -> Result<(), ElectionError> {
        match self {
            Driver::File(leases) => leases.retrieve(component, leader),
            Driver::ZooKeeper(ensemble) => ensemble.retrieve(component, leader),
            #[cfg(feature = "etcd")]
            Driver::Etcd(cluster) => cluster.retrieve(component, leader),
            #[cfg(feature = "kubernetes")]
            Driver::Kubernetes(cluster) => cluster.retrieve(component, leader),
        }
    }
}
