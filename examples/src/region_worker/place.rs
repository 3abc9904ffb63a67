//! The place of the election that was chosen.

use anyhow::{Context as _, bail};
#[cfg(feature = "etcd")]
use lockkeeper_fencing::driver::Etcd;
#[cfg(feature = "kubernetes")]
use lockkeeper_fencing::driver::Kubernetes;
use lockkeeper_fencing::driver::{LeaseFiles, ZooKeeper};
use lockkeeper_fencing::election::{LeaderElectionOptions, LeaderElectionService};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;

/// Where leadership is decided.
#[derive(Debug, Clone)]
pub(super) enum Election {
    File(LeaseFiles),
    ZooKeeper(ZooKeeper),
    #[cfg(feature = "etcd")]
    Etcd(Etcd),
    #[cfg(feature = "kubernetes")]
    Kubernetes(Kubernetes),
}

impl Election {
    /// From what a person writes.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::File(LeaseFiles::new(text)));
        };
        if scheme == "file" {
            return Ok(Self::File(LeaseFiles::new(rest)));
        }
        if scheme == "kubernetes" {
            return kubernetes(rest);
        }
        let root = rest.find('/').with_context(|| {
            format!("{text} has no root: it is {scheme}://HOST:PORT/ROOT, a root for each region")
        })?;
        let (servers, root) = rest.split_at(root);
        match scheme {
            "zookeeper" => Ok(Self::ZooKeeper(ZooKeeper::new(servers, root)?)),
            "etcd" => etcd(servers, root),
            _ => bail!(
                "no election is reached by {scheme}: give a folder, or a URL that begins with file, \
                 zookeeper, etcd or kubernetes"
            ),
        }
    }

    /// For one that contends; `used` is the highest epoch that the store has seen.
    pub(super) fn elections(self, used: u64) -> anyhow::Result<LeaderElectionService> {
        let options = LeaderElectionOptions::default();
        Ok(match self {
            // a store that is older than its folder of lease files has used epochs already
            Self::File(files) => {
                LeaderElectionService::start(files.with_epochs_above(used), options)?
            }
            Self::ZooKeeper(zookeeper) => LeaderElectionService::start(zookeeper, options)?,
            #[cfg(feature = "etcd")]
            Self::Etcd(etcd) => LeaderElectionService::start(etcd, options)?,
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes(cluster) => LeaderElectionService::start(cluster, options)?,
        })
    }

    /// For one that looks for the leader.
    pub(super) fn retrieval(self) -> LeaderRetrievalService {
        match self {
            Self::File(files) => LeaderRetrievalService::new(files),
            Self::ZooKeeper(zookeeper) => LeaderRetrievalService::new(zookeeper),
            #[cfg(feature = "etcd")]
            Self::Etcd(etcd) => LeaderRetrievalService::new(etcd),
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes(cluster) => LeaderRetrievalService::new(cluster),
        }
    }
}

#[cfg(feature = "etcd")]
fn etcd(servers: &str, root: &str) -> anyhow::Result<Election> {
    let endpoints = servers.split(',').map(|server| format!("http://{server}"));
    Ok(Election::Etcd(Etcd::new(endpoints, root)))
}

#[cfg(not(feature = "etcd"))]
fn etcd(_: &str, _: &str) -> anyhow::Result<Election> {
    bail!("this program was built without etcd: build it with --features etcd")
}

#[cfg(feature = "kubernetes")]
fn kubernetes(rest: &str) -> anyhow::Result<Election> {
    Ok(Election::Kubernetes(crate::kubernetes::lease(rest)?))
}

#[cfg(not(feature = "kubernetes"))]
fn kubernetes(_: &str) -> anyhow::Result<Election> {
    bail!("this program was built without Kubernetes: build it with --features kubernetes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_and_urls_are_told_apart_and_a_missing_root_is_named() {
        let parsed = |text| Election::parse(text);
        assert!(matches!(parsed("/a/b"), Ok(Election::File(_))));
        assert!(matches!(parsed("file:///a/b"), Ok(Election::File(_))));
        let ensemble = parsed("zookeeper://a:2181,b:2181/words");
        assert!(matches!(ensemble, Ok(Election::ZooKeeper(_))));
        let error = parsed("zookeeper://a:2181").unwrap_err().to_string();
        assert!(error.contains("has no root"), "{error}");
        let lease = parsed("kubernetes://shop/words");
        #[cfg(feature = "kubernetes")]
        assert!(matches!(lease, Ok(Election::Kubernetes(_))));
        #[cfg(not(feature = "kubernetes"))]
        assert!(lease.unwrap_err().to_string().contains("--features"));
        let error = parsed("consul://a/b").unwrap_err().to_string();
        assert!(error.contains("consul"), "{error}");
    }
}
