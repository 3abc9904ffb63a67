//! Each command for a region, on the processes of a running `orders`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use lockkeeper_consistent_region::archive::Archive;
use lockkeeper_consistent_region::store::FileStore;
use serde_json::Value;

use super::{Ran, lockkeeper};
use crate::support::{LIMIT, Telling};

/// An `orders` whose source does not end by itself.
fn orders(data: &Path, workers: &str) -> Telling {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orders"));
    command.args(["--no-chaos", "--rows", "1000000000", "--period", "1"]);
    command.args(["--workers", workers]).arg("--data").arg(data);
    // whoever stands still on a busy machine is not taken for dead
    command.env("LOCKKEEPER__REGION__LEASE", "100s");
    command.env("LOCKKEEPER__ELECTION__SESSION", "100s");
    let mut orders = Telling::start(command.stderr(Stdio::inherit()));
    orders.line("ready");
    orders
}

fn region(address: &str, arguments: &[&str]) -> Ran {
    let all = ["--json", "region", "--address", address].into_iter();
    lockkeeper(all.chain(arguments.iter().copied()))
}

/// Asks again if the region was set back or changed its leader meanwhile, as it does where processes
/// stand still beyond their leases: on a machine that is busy with other tests.
fn done(address: &str, arguments: &[&str]) -> Value {
    for _ in 0..100 {
        let ran = region(address, arguments);
        let is_passing = [
            "came to nothing",
            "led no longer",
            "nobody who was asked leads",
        ];
        if ran.code == Some(0) || !is_passing.iter().any(|text| ran.errors.contains(text)) {
            return ran.done().json();
        }
    }
    panic!("{arguments:?} is never done");
}

fn status(address: &str) -> Value {
    region(address, &["status"]).json()
}

/// Of an endpoint's address.
fn host(address: &Value) -> &str {
    let address = address.as_str().unwrap();
    address.rsplit_once('/').unwrap().0
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The newest cut in the store.
fn newest_cut(data: &Path) -> u64 {
    let store = FileStore::open(data.join("store")).unwrap();
    let overview = Archive::open(Arc::new(store)).unwrap().overview().unwrap();
    overview.cuts[0].seq
}

/// The commands for a store that nobody works on.
fn check_store(data: &Path, last: u64) {
    let store = data.join("store");
    let place = store.to_str().unwrap();
    let listed = lockkeeper(["--json", "store", "list", place]).done().json();
    assert_eq!(number(&listed["cuts"][0]["seq"]), last);
    let text = lockkeeper(["store", "list", place]).done().output;
    assert!(text.contains(&format!("cut {last}")), "{text}");
    let verified = lockkeeper(["store", "verify", place]).done().output;
    assert!(
        verified.contains(&format!("cut {last}: whole")),
        "{verified}"
    );

    // what a round that came to nothing leaves
    let objects = store.join("objects");
    let left_over = objects.join("1.1.1.totals.0");
    let other = objects.join("of-a-sink");
    let future = objects.join("1.999999.1.totals.0");
    for file in [&left_over, &other, &future] {
        std::fs::write(file, "left over").unwrap();
    }
    let dry = lockkeeper(["--json", "store", "prune", "--dry-run", place])
        .done()
        .json();
    assert!(left_over.exists());
    let pruned = lockkeeper(["--json", "store", "prune", place])
        .done()
        .json();
    for answer in [&dry, &pruned] {
        let names = answer["objects"].as_array().unwrap();
        assert!(names.contains(&Value::from("1.1.1.totals.0")), "{answer}");
    }
    assert!(!left_over.exists());
    assert!(
        other.exists() && future.exists(),
        "not of a round that is over"
    );
    std::fs::remove_file(&future).unwrap();
    lockkeeper(["store", "verify", place]).done();

    let object = &listed["cuts"][0]["manifest"]["objects"][0]["object"];
    let object = object.as_str().unwrap_or_else(|| panic!("{listed}"));
    std::fs::write(objects.join(object), "not what was written").unwrap();
    let verified = lockkeeper(["store", "verify", place]);
    assert_eq!(verified.code, Some(1), "{}", verified.errors);
    assert!(verified.output.contains("DAMAGED"), "{}", verified.output);
    lockkeeper(["store", "list", "/nowhere/store"]).fails(2, "/nowhere/store");
    lockkeeper(["store", "list", "ftp://host/store"]).fails(2, "ftp");
}

#[test]
fn a_running_orders_is_looked_at_cut_saved_set_back_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("job");
    let mut orders = orders(&data, "2");
    let both = [orders.line("admin "), orders.line("admin ")].join(",");

    let report = status(&both);
    assert_eq!(report["leads"], true, "{report}");
    assert_eq!(report["status"]["region"], "orders");
    let workers = report["status"]["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2, "{report}");
    let leader = report["address"].as_str().unwrap();

    // the one that does not lead says so, and is asked in vain
    let standby = both.split(',').find(|address| *address != leader).unwrap();
    let text = lockkeeper(["region", "--address", standby, "status"]);
    assert_eq!(text.code, Some(1), "{}", text.errors);
    assert!(text.output.contains("NOBODY"), "{}", text.output);
    region(standby, &["cut"]).fails(1, "nobody who was asked leads");

    // cut
    let cut = number(&done(&both, &["cut"])["cut"]);
    let completed = number(&status(&both)["status"]["completed"]);
    assert!(completed >= cut, "{completed} is before {cut}");
    assert!(newest_cut(&data) >= cut);

    // savepoint
    done(&both, &["savepoint", "before-upgrade"]);
    let object = data.join("store/objects/savepoint.before-upgrade");
    assert!(object.exists());
    region(&both, &["savepoint", "before-upgrade"]).fails(1, "already");
    region(&both, &["savepoint", "no name"]).fails(1, "no name");
    region(&both, &["forget", "before-upgrade"]).done();
    assert!(!object.exists());
    region(&both, &["restore", "before-upgrade"]).fails(1, "no savepoint");

    // reset
    let before = number(&status(&both)["status"]["attempt"]);
    let reset = done(&both, &["reset", "--force", "--reason", "a test"]);
    assert!(number(&reset["reset"]) > before, "{reset}");
    assert!(number(&reset["cut"]) >= cut, "{reset}");
    assert!(number(&status(&both)["status"]["attempt"]) > before);

    // pause: cuts go on, and the status tells it
    for command in ["pause", "resume"] {
        region(standby, &[command]).fails(1, "nobody who was asked leads");
    }
    assert_eq!(done(&both, &["pause"])["paused"], true);
    assert_eq!(done(&both, &["pause"])["paused"], true, "it is paused");
    let paused = lockkeeper(["region", "--address", &both, "status"])
        .done()
        .output;
    assert!(paused.contains("PAUSED"), "{paused}");
    done(&both, &["cut"]);
    assert_eq!(done(&both, &["resume"])["paused"], false);
    let resumed = lockkeeper(["region", "--address", &both, "status"])
        .done()
        .output;
    assert!(!resumed.contains("PAUSED"), "{resumed}");

    // by who leads, in place of an address
    let leases = data.join("leader");
    let elected = [
        "--election",
        leases.to_str().unwrap(),
        "--component",
        "orders",
    ];
    let elected = lockkeeper(["--json", "region", "status"].into_iter().chain(elected)).json();
    assert_eq!(elected["leads"], true, "{elected}");

    // who leads, by either way
    let named = [
        "--election",
        leases.to_str().unwrap(),
        "--component",
        "orders",
    ];
    let found = lockkeeper(["--json", "leader"].into_iter().chain(named));
    let found = found.done().json();
    assert_eq!(host(&found["address"]), host(&report["address"]), "{found}");
    let asked = lockkeeper(["--json", "leader", "--address", &both])
        .done()
        .json();
    assert_eq!(asked["address"], leader);
    assert_eq!(asked["region"], "orders");
    lockkeeper(["leader", "--address", standby]).fails(1, "nobody who was asked leads");

    // the endpoints of a coordinator and of a worker
    let worker = workers[0]["address"].as_str().unwrap();
    for (address, endpoint) in [
        (leader, "coordinator-orders"),
        (worker, worker.rsplit('/').next().unwrap()),
    ] {
        let endpoint = format!("endpoint {endpoint}");
        let place = address.split('/').nth(2).unwrap();
        let parts = lockkeeper(["--json", "endpoints", "--address", place])
            .done()
            .json();
        let parts = parts[0]["parts"].as_array().unwrap();
        let found = parts.iter().find(|part| part["name"] == endpoint.as_str());
        let found = found.unwrap_or_else(|| panic!("no {endpoint}: {parts:?}"));
        assert_eq!(found["state"], "STARTED", "{found}");
        let values = found["values"].as_array().unwrap();
        assert!(
            values.iter().any(|value| value["label"] == "waiting"),
            "{found}"
        );
        let text = lockkeeper(["endpoints", "--address", place]).done().output;
        assert!(text.contains(&endpoint), "{text}");
    }

    // nobody may prune what is worked on
    let store = data.join("store");
    let store = store.to_str().unwrap();
    lockkeeper(["store", "prune", store]).fails(1, "the region is alive");

    // stop
    let last = number(&done(&both, &["stop"])["cut"]);
    let ended = orders.ended(LIMIT).expect("orders ends with its region");
    assert!(ended.success(), "{ended}");
    assert_eq!(newest_cut(&data), last);
    check_store(&data, last);
    region(&both, &["status", "--time-out", "5"]).fails(3, leader);
}

#[test]
fn an_orders_in_one_process_is_stopped_with_a_savepoint() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("job");
    let mut orders = orders(&data, "0");
    let address = orders.line("admin ");
    let last = number(&done(&address, &["stop", "--savepoint", "the-end"])["cut"]);
    assert!(orders.ended(LIMIT).expect("it ends").success());
    assert_eq!(newest_cut(&data), last);
    assert!(data.join("store/objects/savepoint.the-end").exists());
}
