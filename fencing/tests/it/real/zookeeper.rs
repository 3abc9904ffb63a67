//! The ZooKeeper driver on a real server, whose address is in `LOCKKEEPER_ZOOKEEPER`.

use std::time::Duration;

use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::driver::{SuspensionPolicy, ZooKeeper};
use lockkeeper_fencing::election::ComponentId;
use uuid::Uuid;
use zookeeper_client::Client;

use super::servers::{self, Server};
use super::{address, suspension};

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

fn root() -> String {
    format!("/lockkeeper-test-{}", Uuid::new_v4())
}

#[tokio::test]
async fn a_leader_whose_link_goes_silent_has_stopped_before_the_next_one_leads() {
    let test = "a_leader_whose_link_goes_silent_has_stopped_before_the_next_one_leads";
    let (Some(address), root) = (address(SERVER, test), root()) else {
        return;
    };
    let connect = |address: &str| driver(address, &root);
    suspension::a_silent_link_stops_the_leader_before_the_next_one_leads(&address, connect).await;
}

#[tokio::test]
async fn a_leader_may_outlast_a_suspension_without_effects() {
    let test = "a_leader_may_outlast_a_suspension_without_effects";
    let (Some(server), root) = (own_server(test), root()) else {
        return;
    };
    let connect = |address: &str| {
        driver(address, &root)
            .with_session(Duration::from_secs(20))
            .with_suspension(SuspensionPolicy::KeepWorkingWithoutEffects)
    };
    suspension::a_leader_may_outlast_a_suspension_without_effects(server, connect).await;
}

/// One of the test's own, where there are ZooKeepers at all.
fn own_server(test: &str) -> Option<Server> {
    address(SERVER, test)?;
    let address = format!("127.0.0.1:{}", servers::free_port());
    let alone = servers::Ensemble::default();
    Some(servers::zookeeper(address, None, alone, Vec::new()))
}

#[tokio::test]
async fn a_leader_keeps_its_token_over_a_restart_of_zookeeper() {
    let test = "a_leader_keeps_its_token_over_a_restart_of_zookeeper";
    let (Some(server), root) = (own_server(test), root()) else {
        return;
    };
    let connect = |address: &str| {
        driver(address, &root)
            .with_session(Duration::from_secs(60))
            .with_suspension(SuspensionPolicy::KeepWorkingWithoutEffects)
    };
    suspension::a_leader_keeps_its_token_over_a_restart(server, connect).await;
}

#[tokio::test]
async fn a_candidate_does_not_lead_at_a_zookeeper_that_lost_its_data() {
    let test = "a_candidate_does_not_lead_at_a_zookeeper_that_lost_its_data";
    let (Some(server), root) = (own_server(test), root()) else {
        return;
    };
    let connect = |address: &str| driver(address, &root);
    suspension::a_candidate_does_not_lead_at_a_server_that_lost_its_data(server, connect).await;
}
