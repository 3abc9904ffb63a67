//! A region whose source keeps its rows in the region's store: parts of it die and go on.

use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_canal::testing::CanalServer;
use lockkeeper_consistent_region::archive::Archive;
use lockkeeper_consistent_region::coordinator::RegionState;
use lockkeeper_consistent_region::point::{Hook, Point};
use serde::{Deserialize, Serialize};

use crate::canal::{insert, region_with};
use crate::child::{self, Child};
use crate::place::{LIMIT, Place, comes_into, cut_completed};

const ROWS: u64 = 12_000;

#[actix::test]
async fn a_region_with_a_spool_counts_everything_once_although_its_parts_die() {
    let server = CanalServer::builder().start().unwrap();
    let address = server.address().to_string();
    let mut place =
        Place::with(|output| region_with(&address, ROWS, output, |config| config.spool = true));
    place.numbers = ROWS;
    for part in 0..3 {
        let coordinator = place.coordinator();
        let mut events = coordinator.events();
        let worker = place.worker(&coordinator);
        comes_into(&mut events, RegionState::Processing).await;
        insert(&server.handle(), ROWS / 4 * part, ROWS / 4 * (part + 1));
        for _ in 0..2 {
            cut_completed(&mut events).await;
        }
        // In the middle of whatever it does.
        worker.stop();
        coordinator.halt().await;
    }
    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    insert(&server.handle(), ROWS / 4 * 3, ROWS);
    place.finish(&coordinator, &mut worker).await;
    coordinator.halt().await;
}

/// A process with the whole region.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    canal: String,
    rows: u64,
    /// Whether cuts are taken.
    cuts: bool,
    /// Where it is killed, and at which arrival there.
    dies_at: Option<(String, u32)>,
}

impl Task {
    fn place(&self) -> Place {
        let mut place = Place::at(self.folder.clone(), |output| {
            region_with(&self.canal, self.rows, output, |config| {
                config.spool = true;
                // Nobody else asks for a cut.
                config.idle_before_cut = Duration::from_secs(3_600);
                config.server_buffer_entries = 1 << 30;
            })
        });
        place.lease = Duration::from_secs(10);
        if !self.cuts {
            place.period = None;
        }
        place
    }

    async fn run(self) {
        let place = self.place();
        let hook = match &self.dies_at {
            Some((point, times)) => child::dies_at(point.parse().unwrap(), *times),
            None => Hook::default(),
        };
        let coordinator = place.coordinator_with(hook.clone());
        let mut worker = place.worker_with(&coordinator, hook);
        place.wait(&coordinator, &mut worker).await;
        child::say("completed");
    }
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_region_with_a_spool() {
    if let Some(task) = child::task::<Task>() {
        task.run().await;
    }
}

/// The server forgets rows long before a cut holds them: what is lost then would never come again.
#[actix::test]
async fn a_process_with_a_spool_that_is_killed_anywhere_loses_and_doubles_nothing() {
    let before_any_cut = [
        Point::Emitting,
        Point::BetweenCheckAndAck,
        Point::BetweenCheckAndGet,
    ];
    let mut with_cuts = vec![
        Point::Emitting,
        Point::BetweenCheckAndAck,
        Point::BetweenCheckAndGet,
        Point::Draining,
        Point::Staging,
        Point::BeforeManifest,
        Point::AfterManifest,
        Point::BeforeCommit,
        Point::AfterCommitBeforeAck,
        Point::DuringReset,
    ];
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    random.shuffle(&mut with_cuts);

    let server = CanalServer::builder().start().unwrap();
    let handle = server.handle();
    let folder = tempfile::tempdir().unwrap();
    let lives = 1 + before_any_cut.len() + with_cuts.len() + 1;
    let part = 1_000;
    let mut task = Task {
        folder: folder.path().to_owned(),
        canal: server.address().to_string(),
        rows: part * u64::try_from(lives).unwrap(),
        cuts: false,
        dies_at: None,
    };
    let mut place = task.place();
    place.numbers = task.rows;
    let mut inserted = 0;
    let mut start = |point: Option<Point>, cuts: bool| {
        insert(&handle, inserted, inserted + part);
        inserted += part;
        task.cuts = cuts;
        task.dies_at = point.map(|point| {
            let times = match point {
                Point::DuringReset => 1,
                _ => random.u32(1..=3),
            };
            (point.to_string(), times)
        });
        Child::start("spool::a_region_with_a_spool", &task)
    };

    let process = start(None, false);
    let forgotten = handle.wait_until(LIMIT, |seen| seen.acked_rows >= part);
    forgotten.await.expect("the rows are not acknowledged");
    process.kill();
    let archive = Archive::open(place.store()).unwrap();
    let cuts = archive.overview().unwrap().cuts;
    assert!(cuts.is_empty(), "{cuts:?}");

    for point in before_any_cut {
        start(Some(point), false).killed().await;
    }
    for point in with_cuts {
        start(Some(point), true).killed().await;
    }
    start(None, true).says("completed").await;
    place.check();
}
