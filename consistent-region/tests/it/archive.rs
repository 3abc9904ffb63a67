//! A region's store looked at and changed from outside, while its process lives and after its end.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use actix::{Actor, Context};
use lockkeeper_consistent_region::archive::{Adoption, Archive, ArchiveError, Live};
use lockkeeper_consistent_region::coordinator::{CoordinatorEnd, RegionState};
use lockkeeper_consistent_region::graph::{KEY_GROUPS, Region};
use lockkeeper_consistent_region::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Prepared, WriteState,
};
use lockkeeper_consistent_region::state::{KeyedState, Loaded, Loader, Rescale};
use lockkeeper_consistent_region::store::{CheckpointStore, FileStore};
use lockkeeper_consistent_region::worker::WorkerEnd;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::child::{self, Child};
use crate::numbers::{Sink, Upstream, numbers, region_called};
use crate::place::{LIMIT, NUMBERS, Place, comes_into, cut_completed};

/// A process with a whole region, which takes two cuts and then waits for its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    irrevocable: bool,
}

impl Task {
    async fn run(self) {
        let sink = match self.irrevocable {
            true => Sink::Irrevocable,
            false => Sink::TakesBack,
        };
        let upstream = Upstream::new(NUMBERS, NUMBERS / 4);
        let mut place = Place::at(self.folder, |output| {
            region_called("numbers", &upstream, output, sink)
        });
        place.period = None;
        // A round that ends with a lease on a busy machine would not be taken again.
        place.lease = LIMIT;
        let coordinator = place.coordinator();
        let mut events = coordinator.events();
        let _worker = place.worker(&coordinator);
        comes_into(&mut events, RegionState::Processing).await;
        for end in [NUMBERS / 4, NUMBERS / 2] {
            upstream.release_to(end);
            upstream.produced(end).await;
            coordinator.cut().await.unwrap();
            cut_completed(&mut events).await;
        }
        child::say("two cuts");
        std::future::pending::<()>().await;
    }
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_region_that_takes_two_cuts() {
    if let Some(task) = child::task::<Task>() {
        task.run().await;
    }
}

/// The process after its two cuts, and its store.
async fn after_two_cuts(irrevocable: bool) -> (tempfile::TempDir, Child, Archive) {
    let folder = tempfile::tempdir().unwrap();
    let task = Task {
        folder: folder.path().to_owned(),
        irrevocable,
    };
    let mut process = Child::start("archive::a_region_that_takes_two_cuts", &task);
    process.says("two cuts").await;
    let archive = open(&folder);
    (folder, process, archive)
}

fn open(folder: &tempfile::TempDir) -> Archive {
    let store = FileStore::open(folder.path().join("store")).unwrap();
    Archive::open(Arc::new(store)).unwrap()
}

#[actix::test]
async fn a_store_tells_what_it_holds_and_whether_it_is_whole() {
    let (folder, process, archive) = after_two_cuts(false).await;
    process.kill();
    let overview = archive.overview().unwrap();
    assert_eq!(overview.record.region, "numbers");
    let seqs: Vec<u64> = overview.cuts.iter().map(|cut| cut.seq).collect();
    assert_eq!(seqs.first(), Some(&overview.record.completed));
    assert_eq!(seqs.len(), 2, "{seqs:?}");
    assert_eq!(overview.fences, [overview.highest_term]);
    assert!(overview.unnamed.is_empty() && overview.savepoints.is_empty());
    let newest = overview.cuts[0].manifest.as_ref().unwrap();
    assert_eq!(newest.objects.len(), 3, "numbers, and two of counts");
    assert_eq!(newest.tokens.len(), 1);

    let verdicts = archive.verify().unwrap();
    assert_eq!(verdicts.len(), 2);
    assert!(verdicts.iter().all(|verdict| verdict.faults.is_empty()));
    assert_eq!(
        verdicts.iter().map(|verdict| verdict.bytes).sum::<u64>(),
        overview.bytes
    );

    let damaged = &newest.objects[1].object;
    let path = folder.path().join("store/objects").join(damaged);
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(&path, bytes).unwrap();
    let verdicts = archive.verify().unwrap();
    let faults: Vec<_> = verdicts
        .iter()
        .map(|verdict| verdict.faults.len())
        .collect();
    assert_eq!(faults, [1, 0]);
    assert_eq!(verdicts[0].faults[0].name, *damaged);
}

#[actix::test]
async fn an_empty_store_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let archive = open(&folder);
    for error in [
        archive.overview().map(|_| ()).unwrap_err(),
        archive.verify().map(|_| ()).unwrap_err(),
        archive.reset_to(1, &[]).map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, ArchiveError::Empty { .. }), "{error}");
    }
}

#[actix::test]
async fn state_is_exported_as_json_lines_key_by_key() {
    let (_folder, process, archive) = after_two_cuts(false).await;
    process.kill();
    let mut lines = Vec::new();
    let exported = archive.export(None, Some("counts"), &mut lines).unwrap();
    let text = String::from_utf8(lines).unwrap();
    assert_eq!(text.lines().count() as u64, exported.lines);
    assert_eq!(exported.objects, 2);
    let counts = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["operator"], "counts");
        line["key"].as_str().unwrap().parse::<u64>().unwrap();
        line["value"].as_u64().unwrap()
    });
    assert_eq!(counts.sum::<u64>(), NUMBERS / 2);
    let error = archive
        .export(Some(9_999), None, &mut Vec::new())
        .unwrap_err();
    assert!(matches!(error, ArchiveError::NoCut { .. }), "{error}");
}

/// A value with a field of every kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Kinds {
    Plain(u64, i8, f64, bool, char, String),
    Nested {
        list: Vec<Option<u16>>,
        map: BTreeMap<i32, (u8, u8)>,
    },
    Nothing,
}

impl Kinds {
    fn of(number: u64) -> Self {
        match number % 3 {
            0 => Self::Plain(number, -1, 0.5, true, 'ß', number.to_string()),
            1 => Self::Nested {
                list: vec![None, Some(1)],
                map: BTreeMap::from([(-1, (2, 3))]),
            },
            _ => Self::Nothing,
        }
    }

    fn exported(number: u64) -> Value {
        match number % 3 {
            0 => json!({"Plain": [number, -1, 0.5, true, "ß", number.to_string()]}),
            1 => json!({"Nested": [[null, 1], {"-1": [2, 3]}]}),
            _ => json!("Nothing"),
        }
    }
}

/// Keeps a value for each number; every tenth is taken out again by the number above it.
struct Kept {
    context: InstanceContext,
    kept: KeyedState<(u64, String), Kinds>,
}

fn key(number: u64) -> (u64, String) {
    (number, format!("n{number}"))
}

impl Actor for Kept {
    type Context = Context<Self>;
}

impl Operator for Kept {
    type Input = u64;
    type Output = ();
    const STATE_TYPE: &'static str = "kept";
    const RESCALE: Rescale = Rescale::ByKey;

    fn process(&mut self, batch: Vec<u64>, _: &mut Output<()>) -> Result<(), OperatorError> {
        for number in batch {
            self.kept.insert(key(number), Kinds::of(number));
            if number % 10 == 1 {
                self.kept.remove(&key(number - 1));
            }
        }
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        Ok(self.kept.prepare(cut))
    }

    fn changes(&mut self, cut: Cut) -> Result<Option<WriteState>, OperatorError> {
        Ok(self.kept.changes(cut))
    }

    fn loader(&self) -> Option<Loader> {
        Some(self.kept.loader(&self.context))
    }

    fn loaded(&mut self, state: Loaded) -> Result<(), OperatorError> {
        self.kept.take(state)
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.kept.clear();
        Ok(())
    }
}

fn region_that_keeps(upstream: &Upstream) -> Region {
    let mut graph = Region::builder("kept");
    let source = numbers(upstream, &mut graph);
    graph.end("kept", source, |context| Kept {
        context,
        kept: KeyedState::new().incremental(),
    });
    graph.build().unwrap()
}

/// Numbers up to 1,001, and then a few more: the last cut holds what has changed since the one before.
#[actix::test]
async fn keyed_state_is_exported_with_its_groups_whatever_its_keys_and_values_are() {
    let upstream = Upstream::new(u64::MAX, 1_001);
    let mut place = Place::with(|_| region_that_keeps(&upstream));
    place.period = None;
    place.lease = LIMIT;
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let worker = place.worker(&coordinator);
    comes_into(&mut events, RegionState::Processing).await;
    for end in [1_001, 1_005] {
        upstream.release_to(end);
        upstream.produced(end).await;
        coordinator.cut().await.unwrap();
        cut_completed(&mut events).await;
    }
    worker.stop();
    coordinator.halt().await;

    let store = FileStore::open(place.data()).unwrap();
    let archive = Archive::open(Arc::new(store) as Arc<dyn CheckpointStore>).unwrap();
    let overview = archive.overview().unwrap();
    let parts = overview.cuts[0].manifest.as_ref().unwrap().parts();
    let parts = parts
        .filter(|part| part.instance.operator == "kept")
        .count();
    assert_eq!(parts, 2, "the second cut says what has changed");

    for (cut, end) in [(0, 1_005), (1, 1_001)] {
        let mut lines = Vec::new();
        let seq = overview.cuts[cut].seq;
        let exported = archive.export(Some(seq), Some("kept"), &mut lines).unwrap();
        let mut values = BTreeMap::new();
        for line in String::from_utf8(lines).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(line["group"].as_u64().unwrap() < u64::from(KEY_GROUPS));
            assert_eq!(
                (&line["operator"], &line["index"]),
                (&json!("kept"), &json!(0))
            );
            let number = line["key"][0].as_u64().unwrap();
            assert_eq!(line["key"], json!([number, format!("n{number}")]));
            values.insert(number, line["value"].clone());
        }
        assert_eq!(exported.lines, values.len() as u64);
        let kept = (0..end).filter(|number| number % 10 != 0 || number + 1 == end);
        let truth: BTreeMap<u64, Value> = kept.map(|n| (n, Kinds::exported(n))).collect();
        assert_eq!(values, truth);
    }
}

#[actix::test]
async fn a_region_is_set_back_by_hand_when_nobody_lives_and_goes_on_from_there() {
    let (folder, process, archive) = after_two_cuts(false).await;
    let cuts: Vec<u64> = archive
        .overview()
        .unwrap()
        .cuts
        .iter()
        .map(|cut| cut.seq)
        .collect();
    let oldest = cuts[1];
    let alive = archive
        .reset_to(oldest, &["worker".to_owned()])
        .unwrap_err();
    let ArchiveError::Alive(claimed) = alive else {
        panic!("{alive}");
    };
    assert_eq!(
        claimed[0].live,
        Live::Here,
        "nobody may be assumed dead who lives"
    );
    assert_eq!(archive.overview().unwrap().record.completed, cuts[0]);

    process.kill();
    let error = archive.reset_to(9_999, &[]).unwrap_err();
    assert!(error.to_string().contains(&format!("{cuts:?}")), "{error}");
    let record = archive.reset_to(oldest, &[]).unwrap();
    assert_eq!(record.completed, oldest);
    let overview = archive.overview().unwrap();
    assert_eq!(overview.record, record);
    assert_eq!(overview.cuts.len(), 1);

    let upstream = Upstream::new(NUMBERS, NUMBERS);
    let place = Place::at(folder.path().to_owned(), |output| {
        region_called("numbers", &upstream, output, Sink::TakesBack)
    });
    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    place.finish(&coordinator, &mut worker).await;
    coordinator.halt().await;
}

#[actix::test]
async fn a_region_is_not_set_back_behind_what_its_sinks_have_committed_for_good() {
    let (_folder, process, archive) = after_two_cuts(true).await;
    process.kill();
    let overview = archive.overview().unwrap();
    let error = archive.reset_to(overview.cuts[1].seq, &[]).unwrap_err();
    assert!(matches!(error, ArchiveError::Irrevocable { .. }), "{error}");
    assert_eq!(archive.overview().unwrap(), overview, "nothing was touched");
    archive.reset_to(overview.cuts[0].seq, &[]).unwrap();
}

#[actix::test]
async fn a_store_is_another_regions_only_after_it_was_adopted() {
    let (folder, process, archive) = after_two_cuts(false).await;
    process.kill();
    let upstream = Upstream::new(NUMBERS, NUMBERS);
    let place = Place::at(folder.path().to_owned(), |output| {
        region_called("renamed", &upstream, output, Sink::TakesBack)
    });
    let coordinator = place.coordinator();
    let end = timeout(LIMIT, coordinator.ended()).await.unwrap();
    assert!(matches!(end, CoordinatorEnd::Unusable(_)), "{end:?}");

    let adoption = Adoption {
        region: Some("renamed".to_owned()),
        graph: Some(place.fingerprint()),
        ..Adoption::default()
    };
    let record = archive.adopt(&adoption, &[]).unwrap();
    assert_eq!(record.region, "renamed");
    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    let ended = timeout(LIMIT, worker.ended()).await;
    assert_eq!(
        ended,
        Ok(WorkerEnd::RegionEnded),
        "{:?}",
        coordinator.status()
    );
    place.check();
    coordinator.halt().await;
}
