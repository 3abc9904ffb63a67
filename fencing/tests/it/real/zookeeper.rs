//! The ZooKeeper driver on a real server, whose address is in `LOCKKEEPER_ZOOKEEPER`.

use std::time::Duration;

use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::driver::{SuspensionPolicy, ZooKeeper};
use lockkeeper_fencing::election::{ComponentId, ElectionError};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use uuid::Uuid;
use zookeeper_client::{Acls, Client, CreateMode};

use super::servers::{self, Server};
use super::{address, free_port, suspension};
use crate::told::{self, Told, contend, granted};

const SERVER: &str = "LOCKKEEPER_ZOOKEEPER";
/// For a leader that has to keep its session while a test looks at it, however busy the machine is.
const KEPT: Duration = Duration::from_secs(6);
/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(120);

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
        driver(&self.address, &self.root).with_session(KEPT)
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

/// Its session is over soon.
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
    let address = format!("127.0.0.1:{}", free_port());
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

async fn candidates(address: &str, root: &str) -> usize {
    let client = Client::connect(address).await.unwrap();
    let election = format!("{root}/election");
    client.list_children(&election).await.unwrap().len()
}

#[tokio::test]
async fn a_reconnect_to_zookeeper_leaves_one_candidate() {
    let test = "a_reconnect_to_zookeeper_leaves_one_candidate";
    let (Some(server), root) = (own_server(test), root()) else {
        return;
    };
    let session = Duration::from_secs(20);
    let connect = |address: &str| driver(address, &root).with_session(session);
    let count = async |address: &str| candidates(address, &root).await;
    suspension::a_reconnect_keeps_the_leader_and_leaves_one_candidate(server, connect, count).await;
}

#[tokio::test]
async fn a_retrieval_at_zookeeper_finds_the_next_leader_after_its_link_was_silent() {
    let test = "a_retrieval_at_zookeeper_finds_the_next_leader_after_its_link_was_silent";
    let (Some(address), root) = (address(SERVER, test), root()) else {
        return;
    };
    let connect = |address: &str| driver(address, &root).with_session(KEPT);
    suspension::a_retrieval_finds_the_next_leader_after_its_link_was_silent(&address, connect)
        .await;
}

/// What a former session has left is of that session, and goes with it.
#[tokio::test]
async fn information_of_a_former_session_is_not_taken_for_ones_own() {
    let test = "information_of_a_former_session_is_not_taken_for_ones_own";
    let (Some(address), root) = (address(SERVER, test), root()) else {
        return;
    };
    let (service, mut told) = contend(driver(&address, &root).with_session(KEPT)).await;
    let leadership = granted(&mut told).await;
    let former = Client::connect(&address).await.unwrap();
    let node = format!("{root}/information/{}", told::component());
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    let left = former.create(&node, b"what a former session has left", &ephemeral);
    let (left, _) = left.await.unwrap();
    let election = service.election(told::component());
    election
        .confirm(leadership.token.session, "here")
        .await
        .unwrap();
    let retrieval = LeaderRetrievalService::new(driver(&address, &root));
    let mut found = retrieval.retrieve(told::component()).unwrap();
    let shown = tokio::time::timeout(LIMIT, found.leader()).await;
    assert_eq!(shown.unwrap().unwrap().address, "here");
    let mut state = former.state_watcher();
    drop(former);
    while !state.peek_state().is_terminated() {
        state.changed().await;
    }
    let client = Client::connect(&address).await.unwrap();
    let (data, stat) = client.get_data(&node).await.unwrap();
    assert_ne!(stat.ephemeral_owner, left.ephemeral_owner);
    assert!(String::from_utf8(data).unwrap().contains("here"));
    service.close().await;
}

#[tokio::test]
async fn what_a_candidate_with_a_digest_made_is_its_users_alone() {
    let test = "what_a_candidate_with_a_digest_made_is_its_users_alone";
    let (Some(address), root) = (address(SERVER, test), root()) else {
        return;
    };
    let digest = |password| driver(&address, &root).with_digest("known", password);
    let known = || digest("secret").with_session(KEPT);
    let (service, mut told) = contend(known()).await;
    let first = granted(&mut told).await;
    let stranger = Client::connect(&address).await.unwrap();
    let election = format!("{root}/election");
    let refused = stranger.list_children(&election).await.unwrap_err();
    assert_eq!(refused, zookeeper_client::Error::NoAuth);
    let (guessing, mut guesses) = contend(digest("guessed")).await;
    let failed = tokio::time::timeout(LIMIT, guesses.recv()).await.unwrap();
    assert!(
        matches!(
            failed,
            Some(Told::Failed(ElectionError::Unavailable { .. }))
        ),
        "{failed:?}"
    );
    guessing.close().await;
    let (standby, mut told) = contend(known()).await;
    service.close().await;
    assert!(granted(&mut told).await.token.epoch > first.token.epoch);
    standby.close().await;
}

#[tokio::test]
async fn a_chroot_in_the_address_is_what_the_root_is_under() {
    let test = "a_chroot_in_the_address_is_what_the_root_is_under";
    let (Some(address), chroot) = (address(SERVER, test), root()) else {
        return;
    };
    let client = Client::connect(&address).await.unwrap();
    let folder = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir(&chroot, &folder).await.unwrap();
    let below = driver(&format!("{address}{chroot}"), "/orders").with_session(KEPT);
    let (service, mut told) = contend(below).await;
    granted(&mut told).await;
    assert_eq!(candidates(&address, &format!("{chroot}/orders")).await, 1);
    service.close().await;
}
