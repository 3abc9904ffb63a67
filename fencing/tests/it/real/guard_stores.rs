//! The guard's stores on real servers keep the contract; a Redis that may forget is refused.

use lockkeeper_fencing::contract::guard_store;
use lockkeeper_fencing::guard::GuardStore;
use uuid::Uuid;

use super::address;

/// Runs the contract in an empty store of its own.
fn all<S: GuardStore>(open: impl Fn(&str) -> S) {
    let name = Uuid::new_v4().to_string();
    guard_store::all(|| open(&name));
}

#[cfg(feature = "redis")]
#[test]
fn the_redis_store_keeps_the_contract() {
    use lockkeeper_fencing::guard::RedisGuardStore;

    let test = "the_redis_store_keeps_the_contract";
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

        let port = super::free_port().to_string();
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
fn the_etcd_store_keeps_the_contract() {
    use lockkeeper_fencing::guard::EtcdGuardStore;

    let test = "the_etcd_store_keeps_the_contract";
    let Some(server) = address("LOCKKEEPER_ETCD", test) else {
        return;
    };
    all(|name| EtcdGuardStore::new([format!("http://{server}")], format!("{name}/")).unwrap());
}

#[cfg(feature = "zookeeper")]
#[test]
fn the_zookeeper_store_keeps_the_contract() {
    use lockkeeper_fencing::guard::ZooKeeperGuardStore;

    let test = "the_zookeeper_store_keeps_the_contract";
    let Some(server) = address("LOCKKEEPER_ZOOKEEPER", test) else {
        return;
    };
    all(|name| ZooKeeperGuardStore::new(&server, format!("/lockkeeper-test-{name}")).unwrap());
}
