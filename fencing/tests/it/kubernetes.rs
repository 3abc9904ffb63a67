//! The Kubernetes driver against an API server that keeps the rules for Leases.

mod api_server;

use std::time::Duration;

use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::driver::Kubernetes;
use lockkeeper_fencing::election::{ComponentId, ElectionError};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use serde_json::Value;

use self::api_server::ApiServer;
use crate::link::Link;
use crate::told::{Told, contend, granted, next};

/// A leader has to keep it while a test looks at it, however busy the machine is.
const SESSION: Duration = Duration::from_secs(4);

fn driver(address: &str) -> Kubernetes {
    Kubernetes::new("lockkeeper", "orders")
        .with_url(format!("http://{address}"))
        .with_session(SESSION)
        .with_poll_interval(Duration::from_millis(10))
}

impl ApiServer {
    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut leases = self.leases.lock().unwrap();
        let mut lease = leases.by_name["orders"].clone();
        change(&mut lease);
        let uid = lease["metadata"]["uid"].clone();
        leases.store("orders", lease, uid);
    }
}

impl ElectionStore for ApiServer {
    type Factory = Kubernetes;

    fn factory(&self) -> Kubernetes {
        driver(&self.address)
    }

    async fn depose_leader(&self) {
        self.change(|lease| lease["spec"]["holderIdentity"] = Value::Null);
    }

    async fn erase_information(&self, component: &ComponentId) {
        let annotation = format!("lockkeeper.leader/{component}");
        self.change(|lease| {
            let annotations = lease["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove(&annotation).unwrap();
        });
    }
}

#[tokio::test]
async fn the_kubernetes_driver_keeps_the_contract() {
    election::all(ApiServer::start).await;
}

#[tokio::test]
async fn a_leader_cut_off_the_api_server_has_stopped_before_the_next_one_leads() {
    let server = ApiServer::start();
    let link = Link::to(&server.address);
    let (old, mut old_told) = contend(driver(&link.address)).await;
    let first = granted(&mut old_told).await;
    let (new, mut new_told) = contend(driver(&server.address)).await;
    link.silence();
    let second = granted(&mut new_told).await;
    assert!(first.deadline.check().is_err(), "two may act at once");
    assert!(matches!(next(&mut old_told).await, Told::Revoked));
    assert_eq!(second.token.epoch, first.token.epoch + 1);
    assert_eq!(second.token.lineage, first.token.lineage);
    new.close().await;
    old.close().await;
}

/// A Lease that was deleted counts its transitions anew: epochs of the two cannot be compared.
#[tokio::test]
async fn a_candidate_does_not_lead_under_a_lease_that_was_made_anew() {
    let server = ApiServer::start();
    let (service, mut told) = contend(driver(&server.address)).await;
    granted(&mut told).await;
    server.leases.lock().unwrap().by_name.clear();
    assert!(matches!(next(&mut told).await, Told::Revoked));
    let error = match next(&mut told).await {
        Told::Failed(error) => error,
        other => panic!("told was {other:?}"),
    };
    assert!(
        matches!(error, ElectionError::LineageChanged { .. }),
        "{error}"
    );
    service.close().await;
}

#[tokio::test]
async fn a_component_that_is_no_annotation_is_refused() {
    let server = ApiServer::start();
    let retrieval = LeaderRetrievalService::new(driver(&server.address));
    let component = ComponentId::new("a".repeat(64)).unwrap();
    let refused = retrieval.retrieve(component).unwrap_err();
    assert!(
        matches!(refused, ElectionError::InvalidComponent { .. }),
        "{refused}"
    );
}
