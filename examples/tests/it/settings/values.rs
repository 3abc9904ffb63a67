//! What is wrong with a setting is told by its key and place; what is right is read as it is meant.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use lockkeeper_canal::mq::{MqConnectorSettings, StartFrom};
use lockkeeper_canal::{CanalConnectorSettings, snapshot};
use lockkeeper_examples::settings::canal::CanalSettings;
use lockkeeper_examples::settings::election::ElectionDriver;
use lockkeeper_examples::settings::snapshot::SnapshotSettings;
use lockkeeper_examples::settings::{Layers, Place, Settings, SettingsError};

fn page() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tasks/settings.md");
    std::fs::read_to_string(page).unwrap()
}

/// A file, and what it is called.
struct Written {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn written(text: &str) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.toml");
    std::fs::write(&path, text).unwrap();
    Written {
        _folder: folder,
        path,
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn read(text: &str) -> Result<Settings, SettingsError> {
    let written = written(text);
    Settings::load(&Layers::new().file(&written.path)?)
}

/// What is told of a file: the line and the text behind it.
fn refused(text: &str) -> (Option<usize>, String) {
    let error = read(text).unwrap_err();
    let Place::File { line, file } = &error.place else {
        panic!("{error}");
    };
    assert!(file.ends_with("orders.toml"));
    (*line, format!("{} {}", error.key, error.what))
}

#[test]
fn nothing_gives_every_default() {
    assert_eq!(Settings::load(&Layers::new()).unwrap(), Settings::default());
    assert_eq!(read("").unwrap(), Settings::default());
}

#[test]
fn a_file_is_read_with_times_as_texts_with_units() {
    let settings = read(
        "[region]\nperiod = \"1m 30s\"\nretained = 3\n[service.connections]\nping_timeout = \"8s\"\n\
         [canal]\naddresses = [\"a:1\", \"b:2\"]\n[election]\ndriver = \"zookeeper\"\nservers = [\"c:3\"]\n",
    )
    .unwrap();
    assert_eq!(settings.region.period, Some(Duration::from_secs(90)));
    assert_eq!(settings.region.retained, 3);
    assert_eq!(
        settings.service.connections.ping_timeout,
        Duration::from_secs(8)
    );
    assert_eq!(settings.canal.addresses, ["a:1", "b:2"]);
    assert_eq!(settings.election.driver, ElectionDriver::Zookeeper);
}

#[test]
fn an_unknown_key_names_the_nearest_one_and_its_line() {
    let (line, text) = refused("[region]\nretained = 3\nperoid = \"2s\"\n");
    assert_eq!(line, Some(3));
    assert_eq!(text, "region.peroid is no key; did you mean period?");
    let (line, text) = refused("\n[regoin]\nretained = 3\n");
    assert_eq!(line, Some(2));
    assert_eq!(text, "regoin is no key; did you mean region?");
    let (line, text) = refused("[service.connections]\n\nping_time_out = \"2s\"\n");
    assert_eq!(line, Some(3));
    assert!(text.contains("did you mean ping_timeout?"), "{text}");
    let (line, text) = refused("[worker]\nzebra = 1\n");
    assert_eq!(line, Some(2));
    assert!(
        text.contains("there are slots, labels, call_timeout"),
        "{text}"
    );
}

#[test]
fn a_value_of_another_kind_is_told_with_its_key() {
    for (text, line, told) in [
        (
            "[region]\nperiod = 2\n",
            2,
            "region.period is no text: it must be a time with its unit",
        ),
        (
            "[region]\nperiod = \"2 parsecs\"\n",
            2,
            "region.period is \"2 parsecs\"",
        ),
        (
            "[region]\n\nretained = \"many\"\n",
            3,
            "region.retained is \"many\", it must be",
        ),
        (
            "[worker]\nslots = 70000\n",
            2,
            "worker.slots invalid value: integer `70000`",
        ),
        (
            "[worker]\nslots = -1\n",
            2,
            "worker.slots invalid value: integer `-1`",
        ),
        (
            "[election]\ndriver = \"zookeper\"\n",
            2,
            "did you mean zookeeper?",
        ),
        (
            "region = 5\n",
            1,
            "region must be a section with the keys period",
        ),
        (
            "[canal]\naddresses = [1]\n",
            2,
            "canal.addresses invalid type: integer `1`",
        ),
    ] {
        let (found, said) = refused(text);
        assert_eq!(found, Some(line), "{text}: {said}");
        assert!(said.contains(told), "{told:?} is not in {said:?}");
    }
}

#[test]
fn a_limit_is_told_with_its_key_and_line() {
    for (text, line, told) in [
        (
            "[region]\nretained = 0\n",
            2,
            "region.retained is 0, it must be 1 to 1000",
        ),
        (
            "[region]\nperiod = \"0s\"\n",
            2,
            "region.period is 0s, it must be 1ms to 30days",
        ),
        (
            "[canal]\nclient_id = 40000\n",
            2,
            "canal.client_id is 40000",
        ),
        ("[canal]\nfilter = \"(\"\n", 2, "canal.filter "),
        (
            "[service.connections]\nframe_limit_bytes = 5\n",
            2,
            "service.connections.frame_limit_bytes is 5",
        ),
        (
            "[service]\ntls_key_file = \"a\"\n",
            2,
            "service.tls_key_file needs the others",
        ),
        (
            "[service]\nfirst_port = 7000\n",
            2,
            "service.first_port goes with the other one",
        ),
        (
            "[election]\ndriver = \"etcd\"\n",
            1,
            "election.servers must name a server",
        ),
        (
            "[store]\nurl = \"redis://me:secret@host/0\"\n",
            2,
            "store.url must not hold a password",
        ),
        (
            "[forwarder]\npartition_hash = \"a.b:\"\n",
            2,
            "forwarder.partition_hash ",
        ),
    ] {
        let error = read(text).unwrap_err();
        let said = format!("{} {}", error.key, error.what);
        assert!(said.starts_with(told), "{told:?} is not in {said:?}");
        match error.place {
            Place::File { line: found, .. } => assert_eq!(found, Some(line), "{text}"),
            // what is missing has no line
            Place::Default => assert!(text.contains("etcd"), "{text}"),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn the_environment_is_above_the_file_and_flags_above_both() {
    let written = written("[region]\nperiod = \"1s\"\nretained = 3\nworkers = 4\n");
    let environment = variables(&[
        ("LOCKKEEPER__REGION__PERIOD", "2s"),
        ("LOCKKEEPER__REGION__RETAINED", "5"),
        ("LOCKKEEPER__CANAL__ADDRESSES", "a:1, b:2"),
        ("LOCKKEEPER__SOURCE__CANAL__SPOOL", "true"),
        ("LOCKKEEPER__REGION__UNHEALTHY_TIMEOUT", "none"),
        ("LOCKKEEPER_ADDRESS", "is of another kind"),
    ]);
    let flags = [
        ("region.period", "--period", Some("500ms".to_owned())),
        ("region.workers", "--workers", None),
    ];
    let layers = Layers::new()
        .defaults(&[("region.workers", "1"), ("region.lease", "2s")])
        .file(&written.path)
        .unwrap()
        .environment(environment)
        .unwrap()
        .flags(flags);
    let settings = Settings::load(&layers).unwrap();
    assert_eq!(settings.region.period, Some(Duration::from_millis(500)));
    assert_eq!(settings.region.retained, 5);
    assert_eq!(settings.region.workers, 4);
    assert_eq!(settings.region.lease, Duration::from_secs(2));
    assert_eq!(settings.region.unhealthy_timeout, None);
    assert_eq!(settings.canal.addresses, ["a:1", "b:2"]);
    assert!(settings.source.canal.spool);
    let place = |key| layers.place(key).to_string();
    assert_eq!(place("region.period"), "--period");
    assert_eq!(
        place("region.retained"),
        "environment variable LOCKKEEPER__REGION__RETAINED"
    );
    assert!(place("region.workers").ends_with("orders.toml:4"));
    assert_eq!(place("region.lease"), "default");
}

#[test]
fn what_is_wrong_in_the_environment_is_told_by_the_variable() {
    for (name, value, told) in [
        (
            "LOCKKEEPER__REGION__PEROID",
            "2s",
            "environment variable LOCKKEEPER__REGION__PEROID: region.peroid is no key; did you mean period?",
        ),
        (
            "LOCKKEEPER__REGION__RETAINED",
            "0",
            "environment variable LOCKKEEPER__REGION__RETAINED: region.retained is 0, it must be 1 to 1000",
        ),
        (
            "LOCKKEEPER__WORKER__SLOTS",
            "x",
            "environment variable LOCKKEEPER__WORKER__SLOTS: worker.slots is \"x\", it must be a number from 0 to 65535",
        ),
    ] {
        let layers = Layers::new()
            .environment(variables(&[(name, value)]))
            .unwrap();
        let error = Settings::load(&layers).unwrap_err().to_string();
        assert_eq!(error, told);
    }
}

#[test]
fn a_password_comes_by_its_file_or_the_environment_only() {
    let secret = "0123456789";
    let (line, text) = refused(&format!(
        "[canal]\nuser = \"me\"\npassword = \"{secret}\"\n"
    ));
    assert_eq!(line, Some(3));
    assert!(text.contains("canal.password is a secret"), "{text}");
    assert!(!text.contains(secret));
    let flag = [("canal.password", "--password", Some(secret.to_owned()))];
    let error = Settings::load(&Layers::new().flags(flag)).unwrap_err();
    assert!(error.to_string().contains("is a secret"), "{error}");
    let variable = variables(&[("LOCKKEEPER__CANAL__PASSWORD", secret)]);
    let layers = Layers::new().environment(variable).unwrap();
    let settings = Settings::load(&layers).unwrap();
    let password = settings.canal.password.as_ref().unwrap();
    assert_eq!(password.reveal(), secret, "as it was written, no number");
    assert!(!format!("{settings:?}").contains(secret));
    assert!(!serde_json::to_string(&settings).unwrap().contains(secret));
}

#[test]
fn a_file_that_is_none_is_told() {
    let (line, text) = refused("[region]\nperiod = \n");
    assert_eq!(line, Some(2), "{text}");
    let missing = Layers::new()
        .file("/nowhere/orders.toml".as_ref())
        .unwrap_err();
    assert!(
        missing.to_string().starts_with("/nowhere/orders.toml: "),
        "{missing}"
    );
    let (_, text) = refused(&format!("# {}\n", "x".repeat(2 << 20)));
    assert!(text.contains("the limit is 1048576"), "{text}");
}

/// Every key with its default as the page writes it, but for secrets.
fn keys() -> BTreeMap<String, String> {
    fn walk(prefix: &str, value: &Value, keys: &mut BTreeMap<String, String>) {
        let shown = match value {
            Value::Object(fields) if fields.contains_key("nanos") => {
                let number = |name: &str| fields[name].as_u64().unwrap();
                let nanos = u32::try_from(number("nanos")).unwrap();
                let duration = Duration::new(number("secs"), nanos);
                format!("`\"{}\"`", humantime::format_duration(duration))
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let dot = if prefix.is_empty() { "" } else { "." };
                    walk(&format!("{prefix}{dot}{name}"), value, keys);
                }
                return;
            }
            Value::Null => "none".to_owned(),
            other => format!("`{other}`"),
        };
        keys.insert(prefix.to_owned(), shown);
    }
    let mut keys = BTreeMap::new();
    let settings = serde_json::to_value(Settings::default()).unwrap();
    walk("", &settings, &mut keys);
    keys
}

/// The rows of the page: a key and its default.
fn rows() -> BTreeMap<String, String> {
    let page = page();
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let key = cells.next()?.trim_end_matches('`');
        Some((key.to_owned(), cells.next()?.to_owned()))
    });
    rows.filter(|(key, _)| key.contains('.')).collect()
}

#[test]
fn the_page_has_every_key_with_its_default() {
    let (mut rows, keys) = (rows(), keys());
    for secret in [
        "canal", "election", "kafka", "sink.sql", "snapshot", "store",
    ] {
        assert!(rows.remove(&format!("{secret}.password")).is_some());
    }
    assert_eq!(rows, keys);
}

/// What is not compared field by field where it is read.
#[test]
fn defaults_are_those_of_the_crates() {
    let settings = Settings::default();
    let debug = |of: &dyn std::fmt::Debug| format!("{of:?}");
    let reads = settings.queue_connector.connector();
    assert_eq!(debug(&reads), debug(&MqConnectorSettings::new("canal")));
    let connector = CanalConnectorSettings::default();
    let snapshot = SnapshotSettings {
        tables: vec!["shop.orders".to_owned()],
        database: Some("db:3306".to_owned()),
        ..settings.snapshot
    };
    assert_eq!(
        debug(&snapshot.snapshot(connector)),
        debug(&snapshot::SnapshotSettings::new([("shop", "orders")]))
    );
    let database = snapshot::SnapshotDatabase::new("db:3306", "canal", "").unwrap();
    assert_eq!(debug(&snapshot.database().unwrap()), debug(&database));
}

#[test]
fn sections_of_sinks_and_snapshots_are_read_and_named_where_they_are_wrong() {
    let settings = read(
        "[sink.sql]\nurl = \"mysql://me@db:3306/shop\"\ntimeout = \"5s\"\n\
         [snapshot]\ndatabase = \"db:3306\"\ntables = [\"shop.orders\"]\nmode = \"watermarks\"\n\
         [queue_connector]\nstart_from = \"latest\"\npartitions = [0, 2]\n",
    )
    .unwrap();
    let sink = settings.sink.sql.sink().unwrap();
    assert_eq!(sink.url, "mysql://me@db:3306/shop");
    assert_eq!(sink.timeout, Duration::from_secs(5));
    let reads = MqConnectorSettings::new("canal")
        .with_start_from(StartFrom::Latest)
        .with_partitions([0, 2]);
    let read_back = settings.queue_connector.connector();
    assert_eq!(format!("{read_back:?}"), format!("{reads:?}"));
    for (text, told) in [
        (
            "[sink.sql]\nurl = \"mysql://me:secret@db:3306/shop\"\n",
            "sink.sql.url must not hold a password",
        ),
        (
            "[sink.sql]\ntable_perfix = \"a\"\n",
            "sink.sql.table_perfix is no key; did you mean table_prefix?",
        ),
        (
            "[snapshot]\ntables = [\"orders\"]\n",
            "snapshot.tables must name tables as schema.table",
        ),
        (
            "[snapshot]\nchunk_rows = 0\n",
            "snapshot.chunk_rows is 0, it must be 1 to 1000000",
        ),
        (
            "[queue_connector]\npartitions = []\n",
            "queue_connector.partitions must name a partition",
        ),
        (
            "[election.kubernetes]\nleese = \"a\"\n",
            "election.kubernetes.leese is no key; did you mean lease?",
        ),
        (
            "[election.kubernetes]\npoll_interval = \"9s\"\n[election]\ndriver = \"kubernetes\"\n",
            "election.kubernetes.poll_interval must be at most a quarter of the session",
        ),
    ] {
        let (line, said) = refused(text);
        assert_eq!(line, Some(2), "{said}");
        assert!(said.starts_with(told), "{told:?} is not in {said:?}");
        assert!(!said.contains("secret"), "{said}");
    }
    let nothing = Settings::default().sink.sql.sink().unwrap_err();
    assert!(nothing.to_string().contains("sink.sql.url must be set"));
}

#[cfg(feature = "kubernetes")]
#[test]
fn a_lease_of_kubernetes_elects_as_the_file_says() {
    let settings = read(
        "[election]\ndriver = \"kubernetes\"\nsession = \"20s\"\n\
         [election.kubernetes]\nnamespace = \"shop\"\nlease = \"orders\"\npoll_interval = \"2s\"\n",
    )
    .unwrap();
    let expected = lockkeeper_fencing::driver::Kubernetes::new("shop", "orders")
        .with_session(Duration::from_secs(20));
    let cluster = settings.election.kubernetes();
    assert_eq!(format!("{cluster:?}"), format!("{expected:?}"));
}

#[test]
fn the_pages_example_is_read() {
    let page = page();
    let text = page.split("```toml\n").nth(1).unwrap();
    let text = text.split("```").next().unwrap();
    let settings = read(text).unwrap();
    assert_ne!(settings, Settings::default());
    assert_eq!(settings.region.period, Some(Duration::from_secs(5)));
    assert_ne!(settings.canal, CanalSettings::default());
}
