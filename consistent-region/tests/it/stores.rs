//! Regions on each store, and on a store that is slow or read-only.

use std::path::Path;
use std::sync::Arc;

use lockkeeper_consistent_region::coordinator::{RegionEvent, RegionState};
use lockkeeper_consistent_region::store::{CheckpointStore, FailingStore, MemoryStore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::numbers::{Upstream, region_of};
#[cfg(any(feature = "redis", feature = "object-store"))]
use crate::place::cut;
use crate::place::{LIMIT, NUMBERS, Place, comes_into, cut_completed, event};

/// Half of the numbers; the cuts come when they are asked for.
fn half_way(upstream: &Upstream, store: Arc<dyn CheckpointStore>) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::in_store(folder, |output| region_of(upstream, output), store);
    place.period = None;
    place
}

/// A worker that is lost after two cuts, a coordinator that starts anew, and nothing is counted
/// twice. The sources' state has many chunks.
#[cfg(any(feature = "redis", feature = "object-store"))]
async fn a_region_lives_on(open: impl Fn() -> Arc<dyn CheckpointStore>) {
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    upstream.pad(200_000);
    let mut place = half_way(&upstream, open());
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    for _ in 0..2 {
        cut(&coordinator, &mut events).await;
    }
    worker.stop();
    coordinator.halt().await;

    place.open_anew(open());
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    let reset = event(&mut events, |event| {
        matches!(event, RegionEvent::ResetCompleted { .. })
    })
    .await;
    assert!(
        matches!(reset, RegionEvent::ResetCompleted { restored, .. } if restored > 0),
        "{reset:?}"
    );
    upstream.release();
    place.finish(&coordinator, &mut worker).await;
    coordinator.halt().await;
}

#[cfg(feature = "object-store")]
#[actix::test]
async fn a_region_lives_on_in_an_object_store() {
    use lockkeeper_consistent_region::store::{Compression, ObjectStorageStore};

    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}/region", folder.path().display());
    a_region_lives_on(|| {
        let store = ObjectStorageStore::open(&url, [])
            .unwrap()
            .with_chunk_bytes(64 * 1024)
            .with_compression(Compression::Off);
        Arc::new(store)
    })
    .await;
}

#[cfg(feature = "redis")]
#[actix::test]
async fn a_region_lives_on_in_redis() {
    use lockkeeper_consistent_region::store::{Compression, RedisSettings, RedisStore};

    let Some(server) = redis_server::RedisServer::start() else {
        return;
    };
    let settings = RedisSettings {
        chunk_bytes: 64 * 1024,
        compression: Compression::Off,
        ..RedisSettings::default()
    };
    a_region_lives_on(|| Arc::new(RedisStore::open(&server.url, "numbers:", &settings).unwrap()))
        .await;
}

/// A copy of the database is restored under a running region: nothing more is written to it, and the
/// event says why.
#[cfg(feature = "redis")]
#[actix::test]
async fn a_region_whose_redis_is_set_back_says_so_and_completes_no_cut() {
    use lockkeeper_consistent_region::store::{RedisSettings, RedisStore};

    let Some(server) = redis_server::RedisServer::start() else {
        return;
    };
    let store = RedisStore::open(&server.url, "numbers:", &RedisSettings::default()).unwrap();
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let mut place = half_way(&upstream, Arc::new(store));
    // A round that ends with a lease on a busy machine would be taken for one that the store ended.
    place.lease = LIMIT;
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    coordinator.cut().await.unwrap();
    cut_completed(&mut events).await;
    let completed = coordinator.status().completed;

    redis_server::set_back(&server.url, "numbers:clock");
    coordinator.cut().await.unwrap();
    let failed = event(&mut events, |event| {
        matches!(
            event,
            RegionEvent::StoreFailed { .. } | RegionEvent::CutAborted { .. }
        )
    })
    .await;
    assert!(format!("{failed:?}").contains("was set back"), "{failed:?}");
    assert_eq!(coordinator.status().completed, completed);
    worker.stop();
    coordinator.halt().await;
}

/// The round waits for the disk, the tuples do not.
#[actix::test]
async fn a_slow_store_delays_the_cut_and_not_the_tuples() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let upstream = Upstream::new(NUMBERS, NUMBERS / 2);
    let mut place = half_way(&upstream, Arc::clone(&store) as _);
    place.lease = LIMIT;
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let mut worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    timeout(LIMIT, upstream.produced(NUMBERS / 2))
        .await
        .unwrap();

    store.hold_writes();
    coordinator.cut().await.unwrap();
    let held = Arc::clone(&store);
    let waiting = spawn_blocking(move || held.wait_for_held_writes(LIMIT));
    assert!(waiting.await.unwrap(), "nothing is written");
    let completed = coordinator.status().completed;
    upstream.release();
    let flows = timeout(LIMIT, upstream.produced(NUMBERS)).await;
    assert!(flows.is_ok(), "the tuples wait for the disk");
    assert_eq!(coordinator.status().completed, completed);

    store.release_writes();
    cut_completed(&mut events).await;
    place.finish(&coordinator, &mut worker).await;
    assert_eq!(coordinator.status().attempt, 1, "a slow disk is no failure");
}

/// A file system that is mounted here and becomes read-only; it is unmounted with this.
struct ReadOnlyDisk<'a>(&'a Path);

impl<'a> ReadOnlyDisk<'a> {
    /// `None` where mounting is not allowed.
    fn mount(folder: &'a Path) -> Option<Self> {
        mount(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], folder).then_some(Self(folder))
    }

    fn remount(&self, mode: &str) {
        assert!(mount(&["-o", &format!("remount,{mode}")], self.0));
    }
}

fn mount(options: &[&str], folder: &Path) -> bool {
    let mut mount = std::process::Command::new("mount");
    let output = mount.args(options).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}

impl Drop for ReadOnlyDisk<'_> {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0)
            .status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_read_only_folder_is_named_in_the_error_and_writable_again_later() {
    use lockkeeper_consistent_region::store::{FileStore, StoreError};

    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = ReadOnlyDisk::mount(folder.path()) else {
        eprintln!("skipped: a tmpfs can't be mounted here");
        return;
    };
    let root = folder.path().join("store");
    disk.remount("ro");
    let refused = FileStore::open(&root).unwrap_err().to_string();
    assert!(refused.contains("Read-only file system"), "{refused}");
    assert!(refused.contains(&root.display().to_string()), "{refused}");
    disk.remount("rw");
    let store = FileStore::open(&root).unwrap();
    disk.remount("ro");
    let mut write = |to: &mut dyn std::io::Write| to.write_all(b"state");
    let refused = store.write_object("1.1.0.a.0", &mut write).unwrap_err();
    assert!(matches!(refused, StoreError::Io { .. }), "{refused}");
    assert!(store.list_objects().unwrap().is_empty());
    disk.remount("rw");
    assert!(store.write_object("1.1.0.a.0", &mut write).is_ok());
}

#[cfg(feature = "redis")]
mod redis_server {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// As if an older copy of the database had been restored.
    pub(super) fn set_back(url: &str, clock: &str) {
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_connection().unwrap();
        let set = redis::cmd("SET").arg(clock).arg(1).query(&mut connection);
        let () = set.unwrap();
    }

    /// A redis-server of one test; it ends with this.
    pub(super) struct RedisServer {
        process: Child,
        pub(super) url: String,
        _folder: tempfile::TempDir,
    }

    impl RedisServer {
        /// `None` after saying that the test is skipped.
        pub(super) fn start() -> Option<Self> {
            let installed = Command::new("redis-server").arg("--version").output();
            if installed.is_err() {
                let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
                assert!(!in_ci, "no redis-server, and in CI nothing may be skipped");
                println!("SKIPPED: redis-server is not installed");
                return None;
            }
            // Another test may take the port that was free.
            let started = (0..5).find_map(|_| Self::try_start());
            Some(started.expect("redis-server does not start"))
        }

        fn try_start() -> Option<Self> {
            let folder = tempfile::tempdir().unwrap();
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let mut process = Command::new("redis-server")
                .args(["--bind", "127.0.0.1", "--save", "", "--port"])
                .arg(port.to_string())
                .arg("--dir")
                .arg(folder.path())
                .args(["--appendonly", "yes", "--appendfsync", "always"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(process.stdout.take().unwrap()).lines();
            let ready = lines
                .map_while(Result::ok)
                .any(|line| line.contains("Ready to accept connections"));
            let server = Self {
                process,
                url: format!("redis://127.0.0.1:{port}/"),
                _folder: folder,
            };
            ready.then_some(server)
        }
    }

    impl Drop for RedisServer {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
