//! A worker with real operators, and a coordinator that the tests play by hand.

mod idle;
mod operators;
mod scripted;
mod whole;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lockkeeper_core::status::StatusRegistry;

use crate::graph::Region;
use crate::manifest::RestorePoint;
use crate::protocol::{Order, ProgressEvent};
use crate::sink::FileSink;
use crate::store::{FailingStore, MemoryStore};
use crate::worker::WorkerConfig;

use self::operators::{Counts, Fault, Faults, Numbers};
use self::scripted::Scripted;

const NUMBERS: u64 = 20_000;
const KEYS: u64 = 10;

/// numbers → counts (two instances, by key) → sink.
fn region(faults: &Faults, folder: &Path) -> Region {
    let mut graph = Region::builder("test");
    let source_faults = faults.clone();
    let numbers = graph.start("numbers", move |_| {
        Numbers::new(NUMBERS, source_faults.clone())
    });
    let count_faults = faults.clone();
    let counts = graph.keyed(
        "counts",
        numbers,
        2,
        |number: &u64| number % KEYS,
        move |context| Counts::new(context, count_faults.clone()),
    );
    let folder = folder.to_owned();
    graph.end("sink", counts, move |context| {
        FileSink::new(context, &folder, "cut-", ".txt", |_, counts, to| {
            for (key, count) in counts {
                writeln!(to, "{key} {count}")?;
            }
            Ok(())
        })
    });
    graph.build().unwrap()
}

/// The last count of each key over ascending cuts.
fn output(folder: &Path) -> BTreeMap<u64, u64> {
    let mut cuts: Vec<(u64, String)> = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(seq) = name
            .strip_prefix("cut-")
            .and_then(|n| n.strip_suffix(".txt"))
        {
            cuts.push((
                seq.parse().unwrap(),
                fs::read_to_string(folder.join(&name)).unwrap(),
            ));
        }
    }
    cuts.sort();
    let lines = cuts.iter().flat_map(|(_, text)| text.lines());
    let counts = lines.map(|line| line.split_once(' ').unwrap());
    counts
        .map(|(key, count)| (key.parse().unwrap(), count.parse().unwrap()))
        .collect()
}

fn truth() -> BTreeMap<u64, u64> {
    (0..KEYS).map(|key| (key, NUMBERS / KEYS)).collect()
}

struct Fixture {
    folder: tempfile::TempDir,
    faults: Faults,
    store: Arc<FailingStore<MemoryStore>>,
    scripted: Scripted,
}

impl Fixture {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let store = Arc::new(FailingStore::new(MemoryStore::new()));
        let region = region(&faults, folder.path());
        let scripted = Scripted::start(&region, Arc::clone(&store) as _).await;
        Self {
            folder,
            faults,
            store,
            scripted,
        }
    }

    /// Begins, and gives out so many numbers.
    async fn produce_first(&mut self, count: u64) {
        self.scripted.reset(None, true).await;
        self.scripted.order(Order::Resume);
        self.faults.allow_up_to(count);
        self.faults.produced_reaches(count).await;
    }

    fn output(&self) -> BTreeMap<u64, u64> {
        output(self.folder.path())
    }
}

#[actix_rt::test]
async fn every_number_is_counted_once_over_several_cuts() {
    let mut test = Fixture::start().await;
    test.scripted.reset(None, true).await;
    let (mut ended, mut allowed, mut cuts) = (false, 0, 0);
    while !ended {
        allowed += 4_500;
        test.faults.allow_up_to(allowed);
        test.scripted.order(Order::Resume);
        ended = test.scripted.until_ended_or(4_500, &test.faults).await;
        cuts += 1;
        let point = test.scripted.cut(false).await.unwrap();
        test.scripted.commit(&point).await;
    }
    assert_eq!(test.output(), truth());
    assert!(cuts >= 5, "{cuts}");
    test.scripted.order(Order::End);
    assert_eq!(
        test.scripted.worker.ended().await,
        super::WorkerEnd::RegionEnded
    );
}

#[actix_rt::test]
async fn a_console_sees_registration_lease_and_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let region = region(&faults, folder.path());
    let registry = StatusRegistry::default();
    let config = WorkerConfig {
        status: Some(registry.clone()),
        ..WorkerConfig::new("a")
    };
    let store = Arc::new(MemoryStore::new());
    let mut scripted = Scripted::start_with(config, &region, store).await;
    scripted.reset(None, true).await;
    let source = registry.sources().remove(0);
    assert_eq!(source.name(), "worker a of test");
    let shown = source.snapshot();
    assert_eq!(shown.state.as_ref().unwrap().text, "registered");
    assert_eq!(shown.unready, None);
    assert_eq!(shown.get("term"), Some(&1_u64.into()));
    assert_eq!(shown.get("registration"), Some(&1_u64.into()));
    assert_eq!(shown.get("coordinator"), Some(&"answers".into()));
    assert!(shown.get("lease").unwrap().as_f64().unwrap() > 0.0);
    let instances: Vec<_> = shown.tables[0]
        .rows
        .iter()
        .map(|row| row[0].clone())
        .collect();
    let expected = ["counts[0]", "counts[1]", "numbers[0]", "sink[0]"];
    assert_eq!(instances, expected.map(Into::into));
    assert_eq!(shown.tables[0].rows[0][1], "runs".into());

    faults.set(Fault::ProcessFails);
    faults.allow_up_to(5_000);
    scripted.order(Order::Resume);
    let failed = scripted.event().await;
    assert!(matches!(failed, ProgressEvent::Failed { .. }), "{failed:?}");
    let shown = source.snapshot();
    assert_eq!(shown.state.as_ref().unwrap().text, "waits for a reset");
    scripted.worker.stop();
    assert_eq!(scripted.event().await, ProgressEvent::Left);
    assert_eq!(scripted.worker.ended().await, super::WorkerEnd::Stopped);
}

#[actix_rt::test]
async fn s5_no_tuple_enters_between_drain_and_resume() {
    let mut test = Fixture::start().await;
    test.scripted.reset(None, true).await;
    test.scripted.order(Order::Resume);
    test.faults.allow_up_to(NUMBERS);
    test.faults.produced_reaches(1_000).await;
    test.scripted.cut(false).await.unwrap();
    let before = test.faults.produced();
    // A status answer comes after whatever the worker had to do.
    for _ in 0..50 {
        test.scripted
            .worker
            .address()
            .send(super::GetStatus)
            .await
            .unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(test.faults.produced(), before);
    assert_eq!(
        test.faults.processed(),
        before,
        "the cut holds all that was produced"
    );
}

async fn recovers_from(fault: Fault) {
    let mut test = Fixture::start().await;
    test.produce_first(5_000).await;
    let point = test.scripted.cut(false).await.unwrap();
    test.scripted.commit(&point).await;
    test.faults.set(fault);
    test.faults.allow_up_to(NUMBERS);
    test.scripted.order(Order::Resume);
    let failed = match fault {
        Fault::StoreFails => {
            test.faults.produced_reaches(10_000).await;
            test.store.fail_writes(1);
            test.scripted.cut(false).await.unwrap_err()
        }
        Fault::PrepareFails => test.scripted.cut(false).await.unwrap_err(),
        _ => test.scripted.event().await,
    };
    let (named, reason) = match failed {
        ProgressEvent::Failed {
            instance,
            reason,
            permanent: false,
        } => (instance.map(|instance| instance.operator), reason),
        // The operator is well, only its state could not be written.
        ProgressEvent::CutFailed { instance, reason } => {
            assert_eq!(fault, Fault::StoreFails, "{reason}");
            (Some(instance.operator), reason)
        }
        other => panic!("{other:?}"),
    };
    assert!(named.is_some(), "{reason}");
    if let Some(text) = fault.text() {
        assert_eq!(named.as_deref(), Some("counts"));
        assert!(reason.contains(text), "{reason}");
    }
    test.scripted.reset(Some(point), false).await;
    test.scripted.order(Order::Resume);
    test.scripted.until_ended_or(u64::MAX, &test.faults).await;
    let point = test.scripted.cut(true).await.unwrap();
    test.scripted.commit(&point).await;
    assert_eq!(test.output(), truth());
}

#[actix_rt::test]
async fn a_panic_in_an_operator_is_named_and_a_reset_loses_and_doubles_nothing() {
    recovers_from(Fault::ProcessPanics).await;
}

#[actix_rt::test]
async fn an_error_of_an_operator_is_named_and_a_reset_loses_and_doubles_nothing() {
    recovers_from(Fault::ProcessFails).await;
}

#[actix_rt::test]
async fn an_actor_that_stops_itself_is_noticed_and_replaced() {
    recovers_from(Fault::ActorStops).await;
}

#[actix_rt::test]
async fn s11_an_error_in_prepare_ends_the_round_at_once() {
    recovers_from(Fault::PrepareFails).await;
}

#[actix_rt::test]
async fn s11_a_store_that_fails_ends_the_round_at_once() {
    recovers_from(Fault::StoreFails).await;
}

#[actix_rt::test]
async fn s14_a_reset_before_the_first_cut_goes_back_to_the_initial_state() {
    let mut test = Fixture::start().await;
    test.produce_first(3_000).await;
    test.faults.allow_up_to(NUMBERS);
    test.scripted.reset(None, false).await;
    test.scripted.order(Order::Resume);
    test.scripted.until_ended_or(u64::MAX, &test.faults).await;
    let point = test.scripted.cut(true).await.unwrap();
    test.scripted.commit(&point).await;
    assert_eq!(test.output(), truth());
}

#[actix_rt::test]
async fn s27_a_commit_that_was_missed_is_made_up_for_by_the_reset() {
    let mut test = Fixture::start().await;
    test.scripted.reset(None, true).await;
    test.faults.allow_up_to(NUMBERS);
    test.scripted.order(Order::Resume);
    test.scripted.until_ended_or(u64::MAX, &test.faults).await;
    let point: RestorePoint = test.scripted.cut(true).await.unwrap();
    assert!(
        !test
            .folder
            .path()
            .join(format!("cut-{}.txt", point.seq))
            .exists()
    );
    test.scripted.reset(Some(point), false).await;
    assert_eq!(test.output(), truth());
}

/// A fixture whose sink has staged something for a cut that the coordinator said nothing of yet.
async fn with_a_staged_cut() -> (Fixture, RestorePoint) {
    let mut test = Fixture::start().await;
    test.produce_first(5_000).await;
    let point = test.scripted.cut(false).await.unwrap();
    assert!(!point.tokens.is_empty());
    (test, point)
}

/// Markers come by other workers, and may be faster than the coordinator's own word.
#[actix_rt::test]
async fn p6_a_cut_whose_marker_overtakes_the_news_of_the_one_before_waits_for_its_commit() {
    let (mut test, point) = with_a_staged_cut().await;
    let completed = point.seq;
    test.scripted.order(Order::Drain {
        last: false,
        completed,
    });
    let prepared = test.scripted.event().await;
    assert_eq!(prepared, ProgressEvent::BlockingCheckpointDone);
    // Panics if the second cut is durable before the first is committed.
    test.scripted.commit(&point).await;
    let durable = test.scripted.event().await;
    assert!(
        matches!(durable, ProgressEvent::CheckpointDone { .. }),
        "{durable:?}"
    );
}

#[actix_rt::test]
async fn p6_a_cut_whose_marker_overtakes_the_news_that_the_one_before_failed_is_no_success() {
    let (mut test, point) = with_a_staged_cut().await;
    let completed = point.seq - 1;
    test.scripted.order(Order::Drain {
        last: false,
        completed,
    });
    match test.scripted.event().await {
        ProgressEvent::Failed {
            instance: Some(instance),
            reason,
            permanent: false,
        } => {
            assert_eq!(instance.operator, "sink");
            assert!(
                reason.contains("can't become part of the next one"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
}
