//! The ZooKeeper driver on a real server, whose address is in `LOCKKEEPER_ZOOKEEPER`.

use std::time::Duration;

use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::driver::{SuspensionPolicy, ZooKeeper};
use lockkeeper_fencing::election::ComponentId;
use uuid::Uuid;
use zookeeper_client::Client;

use super::address;
use crate::link::Link;
use crate::told::{Told, contend, granted, next};

const SERVER: &str = "LOCKKEEPER_ZOOKEEPER";

struct Ensemble {
    address: String,
    root: String,
}

impl Ensemble {
    fn new(address: &str) -> Self {
        let root = format!("/lockkeeper-test-{}", Uuid::new_v4());
        Ensemble {
            address: address.to_owned(),
            root,
        }
    }
}

impl ElectionStore for Ensemble {
    type Factory = ZooKeeper;

    fn factory(&self) -> ZooKeeper {
        let zookeeper = ZooKeeper::new(&self.address, &self.root).unwrap();
        zookeeper.with_session(Duration::from_secs(2))
    }

    async fn depose_leader(&self) {
        let client = Client::connect(&self.address).await.unwrap();
        let election = format!("{}/election", self.root);
        let first = client
            .list_children(&election)
            .await
            .unwrap()
            .into_iter()
            .min()
            .unwrap();
        client
            .delete(&format!("{election}/{first}"), None)
            .await
            .unwrap();
    }

    async fn erase_information(&self, component: &ComponentId) {
        let client = Client::connect(&self.address).await.unwrap();
        let node = format!("{}/information/{component}", self.root);
        client.delete(&node, None).await.unwrap();
    }
}

#[tokio::test]
async fn the_zookeeper_driver_keeps_the_contract() {
    let Some(address) = address(SERVER, "the_zookeeper_driver_keeps_the_contract") else {
        return;
    };
    election::all(|| Ensemble::new(&address)).await;
}

fn driver(address: &str, root: &str) -> ZooKeeper {
    let zookeeper = ZooKeeper::new(address, root).unwrap();
    zookeeper.with_session(Duration::from_secs(2))
}

#[tokio::test]
async fn a_leader_whose_link_goes_silent_has_stopped_before_the_next_one_leads() {
    let test = "a_leader_whose_link_goes_silent_has_stopped_before_the_next_one_leads";
    let Some(address) = address(SERVER, test) else {
        return;
    };
    let root = format!("/lockkeeper-test-{}", Uuid::new_v4());
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
    let root = format!("/lockkeeper-test-{}", Uuid::new_v4());
    let link = Link::to(&address);
    let session = Duration::from_secs(4);
    let driver = driver(&link.address, &root)
        .with_session(session)
        .with_suspension(SuspensionPolicy::KeepWorkingWithoutEffects);
    let (service, mut told) = contend(driver).await;
    let leadership = granted(&mut told).await;
    // Cut until the own deadline has passed, and back before the ensemble's session has.
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
