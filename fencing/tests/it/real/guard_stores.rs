//! The guard's stores on real servers: the contract, and two leaders that race.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_fencing::contract::guard_store;
use lockkeeper_fencing::guard::{EpochGuard, GuardStore, Guarded, ManifestId, read_newest};
use uuid::Uuid;

use super::address;

/// How often leadership goes over while both publish.
const LEADERSHIPS: u64 = 12;
/// What each of the racers publishes at most under one epoch.
const MANIFESTS: u64 = 40;

/// Runs the contract, then the race, each in an empty store of its own.
fn all<S: GuardStore>(open: impl Fn(&str) -> S) {
    let name = Uuid::new_v4().to_string();
    guard_store::all(|| open(&name));
    let name = Uuid::new_v4().to_string();
    two_leaders_race(Arc::new(open(&name)), Arc::new(open(&name)));
}

/// Two processes become leader again and again, in turns, and publish all the time: what was
/// answered as published is in the history, once, and nothing that came after a fence is.
fn two_leaders_race(one: Arc<dyn GuardStore>, two: Arc<dyn GuardStore>) {
    let epoch = AtomicU64::new(0);
    let published: Vec<ManifestId> = std::thread::scope(|scope| {
        let racers = [&one, &two].map(|store| scope.spawn(|| lead_again_and_again(store, &epoch)));
        racers.map(|racer| racer.join().unwrap()).concat()
    });
    let mut sequences: Vec<u64> = published.iter().map(|found| found.sequence).collect();
    sequences.sort_unstable();
    let count = sequences.len();
    sequences.dedup();
    assert_eq!(
        sequences.len(),
        count,
        "a number was published twice: {published:?}"
    );
    assert!(
        count > 0,
        "nothing was published: the race has not taken place"
    );
    // A last leader sees the history as all later ones will.
    let last = epoch.load(Ordering::SeqCst) + 1;
    let entered = EpochGuard::enter(one, last).unwrap();
    let chain = entered.done().unwrap().chain().unwrap();
    for manifest in &published {
        assert!(
            chain.contains(*manifest),
            "{manifest} was published and is gone"
        );
    }
    let (newest, bytes) = read_newest(two.as_ref()).unwrap().unwrap();
    assert_eq!(bytes, newest.to_string().as_bytes());
    println!("{count} manifests published in {last} leaderships");
}

fn lead_again_and_again(store: &Arc<dyn GuardStore>, epoch: &AtomicU64) -> Vec<ManifestId> {
    let mut published = Vec::new();
    loop {
        let own = epoch.fetch_add(1, Ordering::SeqCst) + 1;
        if own > LEADERSHIPS {
            return published;
        }
        let Guarded::Done(mut guard) = EpochGuard::enter(store.clone(), own).unwrap() else {
            continue;
        };
        for _ in 0..MANIFESTS {
            let sequence = guard.newest().map_or(0, |newest| newest.sequence) + 1;
            let bytes = ManifestId {
                sequence,
                epoch: own,
            }
            .to_string();
            match guard.publish(sequence, bytes.as_bytes()).unwrap() {
                Guarded::Done(manifest) => published.push(manifest),
                Guarded::SteppedDown { highest } => {
                    assert!(highest > own);
                    break;
                }
            }
        }
    }
}

#[cfg(feature = "redis")]
#[test]
fn the_redis_store_keeps_the_contract_and_fences() {
    use lockkeeper_fencing::guard::RedisGuardStore;

    let test = "the_redis_store_keeps_the_contract_and_fences";
    let Some(server) = address("LOCKKEEPER_REDIS", test) else {
        return;
    };
    // A prefix that is a pattern too, if it were not escaped.
    all(|name| RedisGuardStore::new(&format!("redis://{server}/"), format!("[{name}]:")).unwrap());
}

#[cfg(feature = "redis")]
#[test]
fn a_redis_server_that_may_forget_is_refused() {
    use lockkeeper_fencing::guard::{GuardError, RedisGuardStore};

    let test = "a_redis_server_that_may_forget_is_refused";
    if address("LOCKKEEPER_REDIS", test).is_none() {
        return;
    }
    let server = ForgetfulRedis::start();
    let open = || RedisGuardStore::new(&server.url, "p:").unwrap();
    let refused = open().create_if_absent("fence-1", b"").unwrap_err();
    assert!(
        matches!(refused, GuardError::NotWritten { .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("needs appendonly yes"),
        "{refused}"
    );
    let store = open().with_unchecked_durability();
    assert_eq!(store.read("fence-1").unwrap(), None);
}

/// A Redis as a cache has it: nothing is written to a disk.
#[cfg(feature = "redis")]
struct ForgetfulRedis {
    server: std::process::Child,
    url: String,
}

#[cfg(feature = "redis")]
impl ForgetfulRedis {
    fn start() -> Self {
        use std::io::{BufRead, BufReader};

        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        drop(free);
        let mut server = std::process::Command::new("redis-server")
            .args([
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let is_ready = |line: &String| line.contains("Ready to accept connections");
        assert!(
            lines.map_while(Result::ok).any(|line| is_ready(&line)),
            "it did not start"
        );
        let url = format!("redis://127.0.0.1:{port}/");
        ForgetfulRedis { server, url }
    }
}

#[cfg(feature = "redis")]
impl Drop for ForgetfulRedis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[cfg(feature = "etcd")]
#[test]
fn the_etcd_store_keeps_the_contract_and_fences() {
    use lockkeeper_fencing::guard::EtcdGuardStore;

    let test = "the_etcd_store_keeps_the_contract_and_fences";
    let Some(server) = address("LOCKKEEPER_ETCD", test) else {
        return;
    };
    all(|name| EtcdGuardStore::new([format!("http://{server}")], format!("{name}/")).unwrap());
}

#[cfg(feature = "zookeeper")]
#[test]
fn the_zookeeper_store_keeps_the_contract_and_fences() {
    use lockkeeper_fencing::guard::ZooKeeperGuardStore;

    let test = "the_zookeeper_store_keeps_the_contract_and_fences";
    let Some(server) = address("LOCKKEEPER_ZOOKEEPER", test) else {
        return;
    };
    all(|name| ZooKeeperGuardStore::new(&server, format!("/lockkeeper-test-{name}")).unwrap());
}
