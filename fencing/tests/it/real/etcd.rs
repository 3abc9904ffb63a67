//! The etcd driver on a real server, whose address is in `LOCKKEEPER_ETCD`.

use std::time::Duration;

use etcd_client::{Client, GetOptions, SortOrder, SortTarget};
use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::driver::{Etcd, SuspensionPolicy};
use lockkeeper_fencing::election::ComponentId;
use uuid::Uuid;

use super::address;
use crate::link::Link;
use crate::told::{Told, contend, granted, next};

const SERVER: &str = "LOCKKEEPER_ETCD";

struct Cluster {
    address: String,
    root: String,
}

impl Cluster {
    fn new(address: &str) -> Self {
        Cluster {
            address: format!("http://{address}"),
            root: root(),
        }
    }

    async fn client(&self) -> Client {
        Client::connect([&self.address], None).await.unwrap()
    }
}

fn root() -> String {
    format!("/lockkeeper-test-{}", Uuid::new_v4())
}

fn driver(address: &str, root: &str) -> Etcd {
    Etcd::new([format!("http://{address}")], root).with_session(Duration::from_secs(2))
}

impl ElectionStore for Cluster {
    type Factory = Etcd;

    fn factory(&self) -> Etcd {
        Etcd::new([&self.address], &self.root).with_session(Duration::from_secs(2))
    }

    async fn depose_leader(&self) {
        let mut client = self.client().await;
        let lowest = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Ascend)
            .with_limit(1);
        let candidates = format!("{}/candidate/", self.root);
        let found = client.get(candidates, Some(lowest)).await.unwrap();
        let leader = found.kvs()[0].key().to_vec();
        client.delete(leader, None).await.unwrap();
    }

    async fn erase_information(&self, component: &ComponentId) {
        let key = format!("{}/information/{component}", self.root);
        let erased = self.client().await.delete(key, None).await.unwrap();
        assert_eq!(erased.deleted(), 1);
    }
}

#[tokio::test]
async fn the_etcd_driver_keeps_the_contract() {
    let Some(address) = address(SERVER, "the_etcd_driver_keeps_the_contract") else {
        return;
    };
    election::all(|| Cluster::new(&address)).await;
}

#[tokio::test]
async fn a_leader_whose_link_to_etcd_goes_silent_has_stopped_before_the_next_one_leads() {
    let test = "a_leader_whose_link_to_etcd_goes_silent_has_stopped_before_the_next_one_leads";
    let Some(address) = address(SERVER, test) else {
        return;
    };
    let root = root();
    let link = Link::to(&address);
    let (old, mut old_told) = contend(driver(&link.address, &root)).await;
    let first = granted(&mut old_told).await;
    let (new, mut new_told) = contend(driver(&address, &root)).await;
    link.silence();
    let second = granted(&mut new_told).await;
    assert!(first.deadline.check().is_err(), "two may act at once");
    assert!(matches!(next(&mut old_told).await, Told::Revoked));
    assert!(second.token.epoch > first.token.epoch);
    assert_eq!(second.token.lineage, first.token.lineage);
    // Back on the link, it contends again and comes after the other one.
    link.restore();
    new.close().await;
    let third = granted(&mut old_told).await;
    assert!(third.token.epoch > second.token.epoch);
    old.close().await;
}

/// A leader that nobody replaced keeps its token over an outage, and makes no effect meanwhile.
#[tokio::test]
async fn a_leader_may_outlast_a_suspension_without_effects() {
    let test = "a_leader_may_outlast_a_suspension_without_effects";
    let Some(address) = address(SERVER, test) else {
        return;
    };
    let root = root();
    let link = Link::to(&address);
    let keeping = SuspensionPolicy::KeepWorkingWithoutEffects;
    let session = Duration::from_secs(8);
    let driver = driver(&link.address, &root)
        .with_session(session)
        .with_suspension(keeping);
    let (service, mut told) = contend(driver).await;
    let leadership = granted(&mut told).await;
    // Cut until the own deadline has passed, and back before the cluster's lease has.
    link.silence();
    let began = std::time::Instant::now();
    while leadership.deadline.check().is_ok() {
        assert!(began.elapsed() < session * 5, "the deadline does not pass");
        tokio::time::sleep(leadership.deadline.remaining()).await;
    }
    link.restore();
    while leadership.deadline.check().is_err() {
        while let Ok(told) = told.try_recv() {
            assert!(matches!(told, Told::Failed(_)), "told was {told:?}");
        }
        assert!(began.elapsed() < session * 5, "effects do not go on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    service.close().await;
}
