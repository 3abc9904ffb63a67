//! A region whose coordination store, here lease files, is replaced by another one: epochs that begin anew
//! must not be taken for those of coordinators before, nor keep the region from going on for ever.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::archive::{Adoption, Archive};
use lockkeeper_consistent_region::coordinator::{CoordinatorEnd, ElectedCoordinator};
use lockkeeper_consistent_region::link::remote::RemoteLink;
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerConfig, WorkerEnd, WorkerHandle};
use lockkeeper_core::RpcService;
use lockkeeper_core::token::Lineage;
use lockkeeper_fencing::driver::file::LeaseFiles;
use lockkeeper_fencing::election::{ComponentId, LeaderElectionOptions, LeaderElectionService};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use lockkeeper_remote::RemoteBuilderExt;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::child::{self, Child};
use crate::numbers::{Upstream, region_of};
use crate::place::{LIMIT, NUMBERS, Place, cut_completed};

const COMMAND: &str = "lockkeeper-region adopt --lineage ";

fn component() -> ComponentId {
    ComponentId::new("numbers").unwrap()
}

async fn service() -> RpcService {
    let service = RpcService::builder().bind("127.0.0.1:0").start().await;
    service.unwrap()
}

async fn elected(place: &Place, leases: &Path) -> (ElectedCoordinator, LeaderElectionService) {
    let options = LeaderElectionOptions::default();
    let elections = LeaderElectionService::start(LeaseFiles::new(leases), options).unwrap();
    let election = elections.election(component());
    let (store, hook, service) = (place.store(), Hook::default(), service().await);
    let coordinator =
        ElectedCoordinator::start(place.settings(), store, hook, &service, election).await;
    (coordinator.unwrap(), elections)
}

async fn worker(place: &Place, leases: &Path) -> (WorkerHandle, RpcService) {
    let service = service().await;
    let retrieval = LeaderRetrievalService::new(LeaseFiles::new(leases));
    let leader = retrieval.retrieve(component()).unwrap();
    let link = Arc::new(RemoteLink::new(service.clone(), leader, LIMIT));
    let config = WorkerConfig::new("worker");
    let (region, store) = (place.region(), place.store());
    let worker = RegionWorker::start_remote(region, store, link, &service, config).await;
    (worker.unwrap(), service)
}

/// A process that runs the region and is killed then.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    leases: PathBuf,
}

fn place(folder: &Path, numbers: u64) -> Place {
    let upstream = Upstream::new(NUMBERS, numbers);
    let mut place = Place::at(folder.to_owned(), |output| region_of(&upstream, output));
    place.lease = Duration::from_secs(10);
    place
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn an_elected_region() {
    let Some(Task { folder, leases }) = child::task() else {
        return;
    };
    let place = place(&folder, NUMBERS / 2);
    let (coordinator, _elections) = elected(&place, &leases).await;
    let mut events = coordinator.handle().events();
    let _worker = worker(&place, &leases).await;
    cut_completed(&mut events).await;
    child::say("cut");
    std::future::pending::<()>().await;
}

/// Why a coordinator that is elected there can't coordinate, and the lineage that it would adopt.
async fn refused(place: &Place, leases: &Path) -> Lineage {
    let archive = Archive::open(place.store()).unwrap();
    let before = archive.overview().unwrap();
    let (coordinator, _elections) = elected(place, leases).await;
    let ended = timeout(LIMIT, coordinator.handle().ended()).await.unwrap();
    let CoordinatorEnd::Unusable(reason) = ended else {
        panic!("{ended:?}");
    };
    let (_, command) = reason.split_once(COMMAND).expect(&reason);
    let lineage = command.split(' ').next().unwrap();
    assert_eq!(archive.overview().unwrap(), before, "nothing was touched");
    Lineage::new(u128::from_str_radix(lineage, 16).unwrap())
}

#[actix::test]
async fn a_region_goes_on_under_another_coordination_store_only_after_it_was_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let (former, new) = (folder.path().join("former"), folder.path().join("new"));
    let task = Task {
        folder: folder.path().to_owned(),
        leases: former.clone(),
    };
    let mut process = Child::start("lineage::an_elected_region", &task);
    process.says("cut").await;
    process.kill();

    let place = place(folder.path(), NUMBERS);
    let lineage = refused(&place, &new).await;
    let archive = Archive::open(place.store()).unwrap();
    let adoption = Adoption {
        lineage: Some(lineage),
        ..Adoption::default()
    };
    for _ in 0..2 {
        archive.adopt(&adoption, &[]).unwrap();
        assert_eq!(archive.overview().unwrap().lineage, Some(lineage));
    }
    assert_ne!(refused(&place, &former).await, lineage);

    let (coordinator, _elections) = elected(&place, &new).await;
    let (mut worker, service) = worker(&place, &new).await;
    let ended = timeout(LIMIT, worker.ended()).await;
    let status = coordinator.handle().status();
    assert_eq!(ended, Ok(WorkerEnd::RegionEnded), "{status:?}");
    place.check();
    coordinator.close().await.unwrap();
    service.terminate().await.unwrap();
}
