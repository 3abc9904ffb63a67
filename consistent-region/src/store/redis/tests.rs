//! On a real redis-server: each test starts its own, in a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use redis::cmd;

use super::super::{CheckpointStore, contract, verify};
use super::*;

/// A redis-server that ends with this.
struct Server {
    process: Child,
    port: u16,
    url: String,
    folder: tempfile::TempDir,
}

impl Server {
    /// `None` after saying that the test is skipped.
    fn start(settings: &[&str]) -> Option<Self> {
        // A port that is free now may be taken by another test's server before ours has it.
        (0..5).find_map(|_| Self::try_start(settings)).or_else(|| {
            assert!(!installed(), "redis-server does not start");
            let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(
                !in_ci,
                "redis-server is not installed, and in CI nothing may be skipped"
            );
            println!("SKIPPED: redis-server is not installed");
            None
        })
    }

    fn try_start(settings: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        // None of those that systems hand out for port 0 and for connections: nobody gets it by chance
        // while the server is away.
        let port = fastrand::u16(10_000..32_000);
        let process = spawn(folder.path(), port, settings)?;
        Some(Self {
            process,
            port,
            url: format!("redis://127.0.0.1:{port}/"),
            folder,
        })
    }

    /// Killed, and started anew from what its log has.
    fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = spawn(self.folder.path(), self.port, &[]).unwrap();
    }

    fn open(&self) -> RedisStore {
        let settings = RedisSettings {
            chunk_bytes: 64 * 1024,
            ..RedisSettings::default()
        };
        // A prefix that is a pattern too, if it were not escaped.
        RedisStore::open(&self.url, "[orders]:", &settings).unwrap()
    }

    fn keys(&self, part: &str) -> Vec<String> {
        let keys: Vec<String> = self.ask(cmd("KEYS").arg("*"));
        let prefix = format!("[orders]:objects:{part}");
        keys.into_iter()
            .filter(|key| key.starts_with(&prefix))
            .collect()
    }

    fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        command
            .query(&mut client.get_connection().unwrap())
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `None` when it has ended instead of being ready.
fn spawn(folder: &Path, port: u16, settings: &[&str]) -> Option<Child> {
    let mut process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .arg("--dir")
        .arg(folder)
        .args(["--save", "", "--appendonly", "yes"])
        .args(["--appendfsync", "always"])
        .args(["--maxmemory-policy", "noeviction"])
        .args(settings)
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let lines = BufReader::new(process.stdout.take()?).lines();
    let ready = lines
        .map_while(Result::ok)
        .any(|line| line.contains("Ready to accept connections"));
    if ready {
        return Some(process);
    }
    let _ = process.kill();
    let _ = process.wait();
    None
}

fn installed() -> bool {
    Command::new("redis-server")
        .arg("--version")
        .output()
        .is_ok()
}

/// 200,000 bytes: four chunks.
fn write(store: &RedisStore, name: &str) -> crate::manifest::ObjectRecord {
    let written = store.write_object(name, &mut |to| to.write_all(&[7; 200_000]));
    contract::record(name, written.unwrap())
}

#[test]
fn redis_keeps_the_contract() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    contract::all(&server.open());
    // What is removed leaves nothing: its chunks neither.
    let store = server.open();
    for name in store.list_objects().unwrap() {
        store.remove_object(&name).unwrap();
    }
    assert_eq!(server.keys(""), Vec::<String>::new());
}

#[test]
fn a_redis_server_that_may_forget_is_refused() {
    for (setting, value) in [
        ("--maxmemory-policy", "allkeys-lru"),
        ("--appendfsync", "everysec"),
    ] {
        let Some(server) = Server::start(&[setting, value]) else {
            return;
        };
        let settings = RedisSettings::default();
        let refused = RedisStore::open(&server.url, "a:", &settings).unwrap_err();
        let text = format!("{refused}");
        assert!(text.contains(value), "{text}");
        let unchecked = RedisSettings {
            check_durability: false,
            ..settings
        };
        assert!(RedisStore::open(&server.url, "a:", &unchecked).is_ok());
    }
}

#[test]
fn a_lost_chunk_is_damage_and_a_lost_head_is_missing() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let store = server.open();
    let record = write(&store, "1.1.0.a.0");
    assert!(verify(&store, &record).is_ok());
    let chunks = server.keys("chunk-");
    assert_eq!(chunks.len(), 4);
    let _: u64 = server.ask(cmd("DEL").arg(&chunks[1]));
    let error = verify(&store, &record).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let _: u64 = server.ask(cmd("DEL").arg(server.keys("object-")));
    let error = verify(&store, &record).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    // What is left of it is swept.
    assert_eq!(
        store
            .remove_unfinished(&|name| name == "1.1.0.a.0")
            .unwrap(),
        1
    );
    assert_eq!(server.keys(""), Vec::<String>::new());
}

/// A restored copy gave one key back as it was before.
#[test]
fn an_old_chunk_and_an_old_head_are_damage() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let store = server.open();
    let record = write(&store, "1.1.0.a.0");
    let chunk = server.keys("chunk-").remove(0);
    let _: String = server.ask(cmd("SET").arg(&chunk).arg("old"));
    let error = verify(&store, &record).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");

    // The state of another attempt under this one's name.
    write(&store, "1.1.1.a.0");
    let (one, other) = (
        "[orders]:objects:object-1.1.0.a.0",
        "[orders]:objects:object-1.1.1.a.0",
    );
    let _: u64 = server.ask(cmd("COPY").arg(other).arg(one).arg("REPLACE"));
    let error = verify(&store, &record).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn a_database_that_is_set_back_is_noticed_and_stays_unusable_until_opened_anew() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let store = server.open();
    let record = write(&store, "1.1.0.a.0");
    let log = store.guard_store().unwrap();
    let clock: u64 = server.ask(cmd("GET").arg("[orders]:clock"));
    let _: String = server.ask(cmd("SET").arg("[orders]:clock").arg(clock - 1));
    let set_back = |text: String| assert!(text.contains("was set back"), "{text}");
    for _ in 0..3 {
        set_back(verify(&store, &record).unwrap_err().to_string());
        set_back(store.list_objects().unwrap_err().to_string());
        set_back(
            store
                .write_object("2.1.0.a.0", &mut |_| Ok(()))
                .unwrap_err()
                .to_string(),
        );
        set_back(
            log.create_if_absent("fence-1", b"")
                .unwrap_err()
                .to_string(),
        );
        // The counter grows past where it was; that does not heal anything.
        let _: u64 = server.ask(cmd("INCRBY").arg("[orders]:clock").arg(100));
    }
    assert!(verify(&server.open(), &record).is_ok());
}

/// The connection breaks, the server is killed: what was answered is there, and the store connects anew.
#[test]
fn a_redis_server_that_is_killed_and_comes_back_has_everything() {
    let Some(mut server) = Server::start(&[]) else {
        return;
    };
    let store = server.open();
    let record = write(&store, "1.1.0.a.0");
    server.restart();
    // The first call of each connection may find that it is broken.
    let again = (0..5).find_map(|_| verify(&store, &record).ok());
    assert!(again.is_some(), "{:?}", verify(&store, &record));
    let write = || store.write_object("2.1.0.a.0", &mut |to| to.write_all(b"state"));
    assert!((0..5).any(|_| write().is_ok()), "{:?}", write());
}

#[test]
fn a_flushed_database_is_no_empty_store_for_who_has_it_open() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let store = server.open();
    let record = write(&store, "1.1.0.a.0");
    let _: String = server.ask(&cmd("FLUSHALL"));
    let error = verify(&store, &record).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert_eq!(server.open().list_objects().unwrap(), Vec::<String>::new());
}
