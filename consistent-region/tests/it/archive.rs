//! A region's store looked at and changed from outside, while its process lives and after its end.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use lockkeeper_consistent_region::archive::{Adoption, Archive, ArchiveError, Live};
use lockkeeper_consistent_region::coordinator::{CoordinatorEnd, RegionState};
use lockkeeper_consistent_region::store::FileStore;
use lockkeeper_consistent_region::worker::WorkerEnd;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::child::{self, Child};
use crate::numbers::{Sink, Upstream, region_called};
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
