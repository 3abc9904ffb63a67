//! Where the election and the register of these tests are.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_fencing::driver::{Etcd, ZooKeeper};
use lockkeeper_fencing::election::{ComponentId, LeaderElectionOptions, LeaderElectionService};
use lockkeeper_fencing::guard::{EtcdGuardStore, GuardStore, ZooKeeperGuardStore};
use lockkeeper_fencing::retrieval::{LeaderRetrieval, LeaderRetrievalService};

/// How long a store's answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
const ROOT: &str = "/partition";

pub(super) fn component() -> ComponentId {
    ComponentId::new("register").unwrap()
}

/// What decides, its servers as host:port, separated by commas, and how long a session is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    driver: Driver,
    servers: String,
    session: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    Etcd,
    ZooKeeper,
}

impl Place {
    pub(super) fn new(driver: Driver, servers: &[String], session: Duration) -> Self {
        Place {
            driver,
            servers: servers.join(","),
            session,
        }
    }

    /// As [`from_text`](Self::from_text) reads it.
    pub(super) fn to_text(&self) -> String {
        format!(
            "{:?}|{}|{}",
            self.driver,
            self.servers,
            self.session.as_secs()
        )
    }

    pub(super) fn from_text(text: &str) -> Self {
        let parts: Vec<&str> = text.split('|').collect();
        let [driver, servers, session] = parts[..] else {
            panic!("{text} is no place")
        };
        let known = [Driver::Etcd, Driver::ZooKeeper];
        Place {
            driver: known
                .into_iter()
                .find(|known| format!("{known:?}") == driver)
                .unwrap(),
            servers: servers.to_owned(),
            session: Duration::from_secs(session.parse().unwrap()),
        }
    }

    fn urls(&self) -> impl Iterator<Item = String> + '_ {
        self.servers
            .split(',')
            .map(|server| format!("http://{server}"))
    }

    fn etcd(&self) -> Etcd {
        Etcd::new(self.urls(), ROOT).with_session(self.session)
    }

    fn zookeeper(&self) -> ZooKeeper {
        let ensemble = ZooKeeper::new(&self.servers, ROOT).unwrap();
        ensemble.with_session(self.session)
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
                Arc::new(store.with_timeout(PATIENCE))
            }
            Driver::ZooKeeper => {
                let root = format!("{ROOT}/register");
                let store = ZooKeeperGuardStore::new(&self.servers, root).unwrap();
                Arc::new(store.with_timeout(PATIENCE))
            }
        }
    }
}
