//! `lockkeeper-region` as users start it, on stores that several hosts reach: every command, on a region
//! that ran there.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::coordinator::RegionEvent;
use lockkeeper_consistent_region::prelude::*;
use lockkeeper_consistent_region::testing::{Counts, Upstream};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::support::output;

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(120);
const KEYS: u64 = 7;

/// A store, and how the program is told of it.
struct Place {
    store: Arc<dyn CheckpointStore>,
    url: String,
    environment: Vec<(String, String)>,
}

impl Place {
    /// Exit code, standard output and standard error; `STORE` is the store.
    fn command(&self, arguments: &[&str]) -> (i32, String, String) {
        let arguments = arguments.iter().map(|argument| match *argument {
            "STORE" => &self.url,
            argument => argument,
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper-region"));
        command
            .args(arguments)
            .envs(self.environment.iter().cloned());
        let output = output(&mut command);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (code, output, errors) = self.command(arguments);
        assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}: {output}");
        output
    }

    fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let (found, output, errors) = self.command(arguments);
        assert_eq!(found, code, "{arguments:?}: {output}{errors}");
        errors
    }

    /// The numbers of the kept cuts, newest first.
    fn cuts(&self) -> Vec<String> {
        let json = self.done(&["--json", "inspect", "STORE"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let cuts = json["cuts"].as_array().unwrap().iter();
        cuts.map(|cut| cut["seq"].to_string()).collect()
    }

    /// How many numbers a cut has counted.
    fn counted(&self, cut: &[&str]) -> u64 {
        let arguments = [&["export", "STORE", "--operator", "counts"], cut].concat();
        let lines = self.done(&arguments);
        let counts = lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["value"].as_u64().unwrap()
        });
        counts.sum()
    }

    /// Runs the region from what is there to its end, with a cut at each of `cuts` before it.
    async fn run(&self, region: Region, upstream: &Upstream, cuts: &[u64]) {
        let mut settings = CoordinatorSettings::for_region(&region);
        // The next worker waits for it; a round that ends with it on a busy machine is not taken again.
        settings.lease = Duration::from_secs(5);
        let (store, hook) = (Arc::clone(&self.store), Hook::default());
        let coordinator = RegionCoordinator::start_local(settings, store, hook).unwrap();
        let mut events = coordinator.events();
        let (link, inbox) = coordinator.way().connect();
        let (store, config) = (Arc::clone(&self.store), WorkerConfig::new("worker"));
        let mut worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
        for end in cuts {
            upstream.release_to(*end);
            timeout(LIMIT, upstream.produced(*end)).await.unwrap();
            coordinator.cut().await.unwrap();
            cut_completed(&mut events).await;
        }
        upstream.release();
        let ended = timeout(LIMIT, worker.ended()).await;
        let status = coordinator.status();
        assert_eq!(ended, Ok(WorkerEnd::RegionEnded), "{status:?}");
        coordinator.halt().await;
    }
}

async fn cut_completed(events: &mut broadcast::Receiver<RegionEvent>) {
    let completed =
        async { while !matches!(events.recv().await.unwrap(), RegionEvent::CutCompleted(_)) {} };
    timeout(LIMIT, completed).await.expect("no cut");
}

fn region(name: &str, upstream: &Upstream, output: &Path) -> Region {
    let mut graph = Region::builder(name);
    let upstream = upstream.clone();
    let numbers = graph.start("numbers", move |_| upstream.numbers());
    let key = |number: &u64| number % KEYS;
    let counts = graph.keyed("counts", numbers, 2, key, |_| Counts::of_keys(KEYS));
    let output = output.to_owned();
    graph.end("sink", counts, move |context| {
        FileSink::new(context, &output, "cut-", ".txt", |_, counts, to| {
            for (key, count) in counts {
                writeln!(to, "{key} {count}")?;
            }
            Ok(())
        })
    });
    graph.build().unwrap()
}

/// Looks at the store, renames the region, sets it back by hand, lets it go on, and damages it.
async fn every_command(place: &Place) {
    let errors = place.refused(3, &["inspect", "STORE"]);
    assert!(errors.contains("holds no region"), "{errors}");

    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::new(700, 0);
    let numbers = region("numbers", &upstream, folder.path());
    place.run(numbers, &upstream, &[400]).await;
    let text = place.done(&["inspect", "STORE", "--objects"]);
    for part in [
        "region     numbers",
        "state      ended",
        "lineage    none",
        "crc32 ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let cuts = place.cuts();
    assert_eq!(cuts.len(), 2, "{cuts:?}");
    let text = place.done(&["verify", "STORE"]);
    assert_eq!(text.matches(": whole, ").count(), 2, "{text}");
    assert_eq!(place.counted(&[]), 700);
    assert_eq!(place.counted(&["--seq", &cuts[1]]), 400);
    place.refused(3, &["export", "STORE", "--seq", "9999"]);
    place.refused(3, &["reset-to", "9999", "STORE"]);

    // There is more to count now.
    let upstream = Upstream::new(1_000, 0);
    let renamed = region("renamed", &upstream, folder.path());
    let graph = format!("{:016x}", renamed.fingerprint());
    let adopt = ["adopt", "--region", "renamed", "--graph", &graph, "STORE"];
    let text = place.done(&adopt);
    assert!(text.contains("region renamed's"), "{text}");
    let text = place.done(&["adopt", "--lineage", "5c81", "STORE"]);
    assert!(text.contains("are of lineage 5c81"), "{text}");
    let text = place.done(&["reset-to", &cuts[1], "STORE"]);
    assert!(
        text.contains(&format!("stands at cut {}", cuts[1])),
        "{text}"
    );
    assert_eq!(place.cuts(), cuts[1..]);
    assert_eq!(place.counted(&[]), 400);
    // It is to go on now, and the process that ran it, this one, lives.
    let errors = place.refused(4, &["reset-to", &cuts[1], "STORE"]);
    assert!(errors.contains("the region is alive"), "{errors}");
    place.refused(4, &adopt);

    place.run(renamed, &upstream, &[]).await;
    assert_eq!(place.counted(&[]), 1_000);
    let overview = place.done(&["--json", "inspect", "STORE"]);
    let overview: Value = serde_json::from_str(&overview).unwrap();
    let objects = &overview["cuts"][0]["manifest"]["objects"];
    let object = objects[0]["object"].as_str().unwrap();
    place.store.remove_object(object).unwrap();
    let (code, text, _) = place.command(&["verify", "STORE"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("DAMAGED") && text.contains(object), "{text}");
}

#[actix::test]
async fn every_command_works_on_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    store.guard_store().unwrap();
    let place = Place {
        store: Arc::new(store),
        url: format!("file://{}", folder.path().display()),
        environment: Vec::new(),
    };
    every_command(&place).await;
}

#[cfg(feature = "s3")]
#[actix::test]
async fn every_command_works_on_an_object_store_by_s3() {
    use lockkeeper_consistent_region::store::{ObjectStorageStore, S3Server};

    let server = S3Server::start().unwrap();
    let options = server.options();
    let by_name = options.iter().map(|(name, value)| (*name, value.as_str()));
    let url = "s3://bucket/regions/numbers";
    let place = Place {
        store: Arc::new(ObjectStorageStore::open(url, by_name).unwrap()),
        url: url.to_owned(),
        environment: options
            .iter()
            .map(|(name, value)| (name.to_ascii_uppercase(), value.clone()))
            .collect(),
    };
    every_command(&place).await;
    let errors = place.refused(2, &["inspect", "s3://"]);
    assert!(errors.contains("s3://"), "{errors}");
    place.refused(3, &["inspect", "s3://bucket/regions/another"]);
}

#[cfg(feature = "redis")]
mod real {
    use std::time::{SystemTime, UNIX_EPOCH};

    use lockkeeper_consistent_region::store::{RedisSettings, RedisStore};

    use super::*;

    /// The keys of one test; they are removed with this.
    struct Keys(Place);

    impl Drop for Keys {
        fn drop(&mut self) {
            let Ok(log) = self.0.store.guard_store() else {
                return;
            };
            for name in self.0.store.list_objects().unwrap_or_default() {
                let _ = self.0.store.remove_object(&name);
            }
            for name in log.list("").unwrap_or_default() {
                let _ = log.remove(&name);
            }
        }
    }

    #[actix::test]
    async fn every_command_works_on_redis() {
        let address = std::env::var("LOCKKEEPER_REDIS").unwrap_or_default();
        if address.is_empty() {
            let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!ci, "every_command_works_on_redis: set LOCKKEEPER_REDIS");
            println!("SKIPPED every_command_works_on_redis: no server, set LOCKKEEPER_REDIS");
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let prefix = format!("region-{}-{}:", now.as_micros(), std::process::id());
        let server = format!("redis://{address}/0");
        // A server for tests need not survive the loss of its power.
        let settings = RedisSettings {
            check_durability: false,
            ..RedisSettings::default()
        };
        let keys = Keys(Place {
            store: Arc::new(RedisStore::open(&server, &prefix, &settings).unwrap()),
            url: format!("{server}?prefix={prefix}"),
            environment: Vec::new(),
        });
        every_command(&keys.0).await;
        let errors = keys.0.refused(2, &["inspect", &server]);
        assert!(errors.contains("?prefix="), "{errors}");
        let another = format!("{server}?prefix={prefix}another:");
        keys.0.refused(3, &["inspect", &another]);
    }
}
