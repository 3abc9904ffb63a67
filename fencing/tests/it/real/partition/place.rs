//! Where the election and the register of these tests are.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_fencing::driver::{Etcd, ZooKeeper};
use lockkeeper_fencing::election::{ComponentId, LeaderElectionOptions, LeaderElectionService};
use lockkeeper_fencing::guard::{EtcdGuardStore, GuardStore, ZooKeeperGuardStore};
use lockkeeper_fencing::retrieval::{LeaderRetrieval, LeaderRetrievalService};

const SESSION: Duration = Duration::from_secs(2);
const ROOT: &str = "/partition";

pub(super) fn component() -> ComponentId {
    ComponentId::new("register").unwrap()
}

/// `etcd` or `zookeeper`, and its servers as host:port, separated by commas.
#[derive(Clone, Debug)]
pub(super) struct Place {
    driver: Driver,
    servers: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    Etcd,
    ZooKeeper,
}

impl Place {
    pub(super) fn new(driver: Driver, servers: &[String]) -> Self {
        Place {
            driver,
            servers: servers.join(","),
        }
    }

    /// As [`from_text`](Self::from_text) reads it.
    pub(super) fn to_text(&self) -> String {
        format!("{:?}|{}", self.driver, self.servers)
    }

    pub(super) fn from_text(text: &str) -> Self {
        let (driver, servers) = text.split_once('|').unwrap();
        let known = [Driver::Etcd, Driver::ZooKeeper];
        Place {
            driver: known
                .into_iter()
                .find(|known| format!("{known:?}") == driver)
                .unwrap(),
            servers: servers.to_owned(),
        }
    }

    fn urls(&self) -> impl Iterator<Item = String> + '_ {
        self.servers
            .split(',')
            .map(|server| format!("http://{server}"))
    }

    fn etcd(&self) -> Etcd {
        Etcd::new(self.urls(), ROOT).with_session(SESSION)
    }

    fn zookeeper(&self) -> ZooKeeper {
        let ensemble = ZooKeeper::new(&self.servers, ROOT).unwrap();
        ensemble.with_session(SESSION)
    }

    pub(super) fn elections(&self) -> LeaderElectionService {
        let options = LeaderElectionOptions::default();
        match self.driver {
            Driver::Etcd => LeaderElectionService::start(self.etcd(), options),
            Driver::ZooKeeper => LeaderElectionService::start(self.zookeeper(), options),
        }
        .unwrap()
    }

    pub(super) fn retrieval(&self) -> LeaderRetrieval {
        let service = match self.driver {
            Driver::Etcd => LeaderRetrievalService::new(self.etcd()),
            Driver::ZooKeeper => LeaderRetrievalService::new(self.zookeeper()),
        };
        service.retrieve(component()).unwrap()
    }

    pub(super) fn store(&self) -> Arc<dyn GuardStore> {
        match self.driver {
            Driver::Etcd => {
                let store = EtcdGuardStore::new(self.urls(), format!("{ROOT}/register/")).unwrap();
                Arc::new(store.with_timeout(SESSION))
            }
            Driver::ZooKeeper => {
                let root = format!("{ROOT}/register");
                let store = ZooKeeperGuardStore::new(&self.servers, root).unwrap();
                Arc::new(store.with_timeout(SESSION))
            }
        }
    }
}
