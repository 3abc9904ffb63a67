//! The etcd driver on a real server, whose address is in `LOCKKEEPER_ETCD`.

use std::time::Duration;

use etcd_client::{Client, GetOptions, SortOrder, SortTarget};
use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::driver::{Etcd, SuspensionPolicy};
use lockkeeper_fencing::election::ComponentId;
use uuid::Uuid;

use super::servers::{self, Server};
use super::{address, free_port, suspension};

const SERVER: &str = "LOCKKEEPER_ETCD";
/// For a leader that has to keep its session while a test looks at it, however busy the machine is.
const KEPT: Duration = Duration::from_secs(6);

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

/// Its session is over soon.
fn driver(address: &str, root: &str) -> Etcd {
    Etcd::new([format!("http://{address}")], root).with_session(Duration::from_secs(2))
}

impl ElectionStore for Cluster {
    type Factory = Etcd;

    fn factory(&self) -> Etcd {
        Etcd::new([&self.address], &self.root).with_session(KEPT)
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
    let connect = |address: &str| keeping(address, &root, Duration::from_secs(20));
    suspension::a_leader_may_outlast_a_suspension_without_effects(server, connect).await;
}

fn keeping(address: &str, root: &str, session: Duration) -> Etcd {
    driver(address, root)
        .with_session(session)
        .with_suspension(SuspensionPolicy::KeepWorkingWithoutEffects)
}

/// One of the test's own, where there are etcds at all.
fn own_server(test: &str) -> Option<Server> {
    address(SERVER, test)?;
    let address = format!("127.0.0.1:{}", free_port());
    Some(servers::etcd(address, None, None))
}

#[tokio::test]
async fn a_leader_keeps_its_token_over_a_restart_of_etcd() {
    let test = "a_leader_keeps_its_token_over_a_restart_of_etcd";
    let (Some(server), root) = (own_server(test), root()) else {
        return;
    };
    let connect = |address: &str| keeping(address, &root, Duration::from_secs(60));
    suspension::a_leader_keeps_its_token_over_a_restart(server, connect).await;
}

#[tokio::test]
async fn a_candidate_does_not_lead_at_an_etcd_that_lost_its_data() {
    let test = "a_candidate_does_not_lead_at_an_etcd_that_lost_its_data";
    let (Some(server), root) = (own_server(test), root()) else {
        return;
    };
    let connect = |address: &str| driver(address, &root);
    suspension::a_candidate_does_not_lead_at_a_server_that_lost_its_data(server, connect).await;
}

#[tokio::test]
async fn a_reconnect_to_etcd_leaves_one_candidate() {
    let test = "a_reconnect_to_etcd_leaves_one_candidate";
    let (Some(server), root) = (own_server(test), root()) else {
        return;
    };
    let session = Duration::from_secs(20);
    let connect = |address: &str| driver(address, &root).with_session(session);
    let count = async |address: &str| {
        let client = Client::connect([format!("http://{address}")], None).await;
        let all = GetOptions::new().with_prefix();
        let candidates = format!("{root}/candidate/");
        let found = client.unwrap().get(candidates, Some(all)).await.unwrap();
        found.kvs().len()
    };
    suspension::a_reconnect_keeps_the_leader_and_leaves_one_candidate(server, connect, count).await;
}

#[tokio::test]
async fn a_retrieval_at_etcd_finds_the_next_leader_after_its_link_was_silent() {
    let test = "a_retrieval_at_etcd_finds_the_next_leader_after_its_link_was_silent";
    let (Some(address), root) = (address(SERVER, test), root()) else {
        return;
    };
    let connect = |address: &str| driver(address, &root).with_session(KEPT);
    suspension::a_retrieval_finds_the_next_leader_after_its_link_was_silent(&address, connect)
        .await;
}
