//! The ZooKeeper driver on a real server, whose address is in `LOCKKEEPER_ZOOKEEPER`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::driver::ZooKeeper;
use lockkeeper_fencing::election::{
    Callback, ComponentId, ElectionError, LeaderContender, LeaderElectionOptions,
    LeaderElectionService, Leadership,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;
use zookeeper_client::Client;

use super::address;

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

/// Forwards to the server until it is silenced: connections stay open, and nothing comes through.
struct Link {
    address: String,
    silent: Arc<AtomicBool>,
}

impl Link {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let silent = Arc::new(AtomicBool::new(false));
        let (server, is_silent) = (server.to_owned(), silent.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&server) else {
                    continue;
                };
                let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let silent = is_silent.clone();
                std::thread::spawn(move || forward(near, far, &silent));
                let silent = is_silent.clone();
                std::thread::spawn(move || forward(far_too, near_too, &silent));
            }
        });
        Link { address, silent }
    }
}

/// Keeps both ends open after it was silenced, and swallows what comes.
fn forward(mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if !silent.load(Ordering::SeqCst) && to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    if !silent.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Both);
    }
}

enum Told {
    Granted(Leadership),
    Revoked,
}

struct Recorder(UnboundedSender<Told>);

impl LeaderContender for Recorder {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let _ = self.0.send(Told::Granted(leadership));
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> Callback {
        let _ = self.0.send(Told::Revoked);
        Box::pin(async {})
    }

    fn handle_error(&mut self, _: ElectionError) -> Callback {
        Box::pin(async {})
    }
}

async fn contend(address: &str, root: &str) -> (LeaderElectionService, UnboundedReceiver<Told>) {
    let zookeeper = ZooKeeper::new(address, root)
        .unwrap()
        .with_session(Duration::from_secs(2));
    let service =
        LeaderElectionService::start(zookeeper, LeaderElectionOptions::default()).unwrap();
    let (sender, told) = unbounded_channel();
    let election = service.election(ComponentId::new("silence").unwrap());
    election.start(Recorder(sender)).await.unwrap();
    (service, told)
}

async fn next(told: &mut UnboundedReceiver<Told>) -> Told {
    tokio::time::timeout(Duration::from_secs(30), told.recv())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn a_leader_whose_link_goes_silent_has_stopped_before_the_next_one_leads() {
    let test = "a_leader_whose_link_goes_silent_has_stopped_before_the_next_one_leads";
    let Some(address) = address(SERVER, test) else {
        return;
    };
    let root = format!("/lockkeeper-test-{}", Uuid::new_v4());
    let link = Link::to(&address);
    let (old, mut old_told) = contend(&link.address, &root).await;
    let Told::Granted(first) = next(&mut old_told).await else {
        panic!("no grant")
    };
    let (new, mut new_told) = contend(&address, &root).await;
    link.silent.store(true, Ordering::SeqCst);
    let Told::Granted(second) = next(&mut new_told).await else {
        panic!("no grant")
    };
    assert!(first.deadline.check().is_err(), "two may act at once");
    assert!(matches!(next(&mut old_told).await, Told::Revoked));
    assert!(second.token.epoch > first.token.epoch);
    assert_eq!(second.token.lineage, first.token.lineage);
    // Back on the link, it contends again and comes after the other one.
    link.silent.store(false, Ordering::SeqCst);
    new.close().await;
    let Told::Granted(third) = next(&mut old_told).await else {
        panic!("no grant")
    };
    assert!(third.token.epoch > second.token.epoch);
    old.close().await;
}
