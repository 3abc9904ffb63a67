//! Rows in MariaDB, exactly once, although the process that writes them is killed and stopped between
//! the steps. The judge reads the table alone.

mod alone;
mod database;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::coordinator::{
    CoordinatorSettings, RegionCoordinator, RegionState,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::operator::Cut;
use lockkeeper_consistent_region::point::{Hook, Point};
use lockkeeper_consistent_region::sink::{SqlSink, Statement};
use lockkeeper_consistent_region::store::FileStore;
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerConfig};
use serde::{Deserialize, Serialize};

use self::database::{Database, Settings};
use crate::child::{self, Child};
use crate::numbers::{Upstream, numbers};

const NUMBERS: u64 = 5_000;

/// Every number once, and nothing left of any attempt.
async fn check(database: &Database) {
    let rows = database.count("(SELECT COUNT(*) FROM seen)").await;
    let different = database
        .count("(SELECT COUNT(DISTINCT number) FROM seen)")
        .await;
    assert_eq!((rows, different), (NUMBERS, NUMBERS));
    let staged = database
        .count("(SELECT COUNT(*) FROM lockkeeper_staged)")
        .await;
    assert_eq!(staged, 0, "something is staged and nobody's");
}

/// One row a number.
fn insert(_: Cut, numbers: Vec<u64>) -> Result<Vec<Statement>, String> {
    let statements = numbers.chunks(100).map(|numbers| {
        let values = vec!["(?)"; numbers.len()].join(", ");
        let statement = Statement::new(format!("INSERT INTO seen VALUES {values}"));
        numbers
            .iter()
            .fold(statement, |statement, number| statement.bind(*number))
    });
    Ok(statements.collect())
}

/// A process with the whole region.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    database: Settings,
    /// How many numbers it gets.
    numbers: u64,
    /// Where its end comes, after it has handed on numbers.
    point: Option<String>,
    /// It is stopped there instead of killed.
    stops: bool,
}

impl Task {
    fn region(&self) -> Region {
        let mut graph = Region::builder("numbers");
        let source = numbers(&Upstream::new(NUMBERS, self.numbers), &mut graph);
        let settings = self.database.sink();
        graph.end("sink", source, move |context| {
            SqlSink::new(context, settings.clone(), insert)
        });
        graph.build().unwrap()
    }

    fn hook(&self) -> Hook {
        use std::sync::atomic::{AtomicBool, Ordering};
        let point: Option<Point> = self.point.as_ref().map(|point| point.parse().unwrap());
        let (emitted, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let stops = self.stops;
        Hook::new(move |reached| {
            if reached == Point::Emitting {
                emitted.store(true, Ordering::SeqCst);
            }
            if stops && over.load(Ordering::SeqCst) && reached == Point::AfterCommitBeforeAck {
                child::say("committed");
            }
            if Some(reached) == point
                && emitted.load(Ordering::SeqCst)
                && !over.swap(true, Ordering::SeqCst)
            {
                if stops {
                    child::stop_myself();
                } else {
                    child::kill_myself();
                }
            }
        })
    }

    async fn run(self) {
        let region = self.region();
        let settings = CoordinatorSettings {
            period: Some(Duration::from_millis(20)),
            lease: Duration::from_secs(3),
            lease_margin: Duration::from_millis(100),
            max_consecutive_reset_attempts: 100,
            ..CoordinatorSettings::for_region(&region)
        };
        let store = Arc::new(FileStore::open(self.folder.join("store")).unwrap());
        let hook = self.hook();
        let coordinator =
            RegionCoordinator::start_local(settings, Arc::clone(&store) as _, hook.clone())
                .unwrap();
        let (link, inbox) = coordinator.way().connect();
        let config = WorkerConfig {
            hook,
            ..WorkerConfig::new("worker")
        };
        let _worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
        let failed = async {
            if coordinator.reached(RegionState::Failed).await {
                child::say(&format!("{:?}", coordinator.status()));
            }
        };
        tokio::select! {
            _ = coordinator.reached(RegionState::Completed) => child::say("completed"),
            () = failed => {}
        }
        // A stopped one is to do whatever it was about to do.
        std::future::pending::<()>().await;
    }
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_region_that_writes_to_mariadb() {
    if let Some(task) = child::task::<Task>() {
        task.run().await;
    }
}

fn start(folder: &Path, database: &Database, numbers: u64, point: Option<Point>) -> Child {
    start_to(folder, database, numbers, point, false)
}

fn start_to(
    folder: &Path,
    database: &Database,
    numbers: u64,
    point: Option<Point>,
    stops: bool,
) -> Child {
    let task = Task {
        folder: folder.to_owned(),
        database: database.settings.clone(),
        numbers,
        point: point.map(|point| point.to_string()),
        stops,
    };
    Child::start("real::sql::a_region_that_writes_to_mariadb", &task)
}

#[actix::test]
async fn a_worker_killed_around_its_commit_writes_each_row_once() {
    let Some(database) = Database::create("killed_around_its_commit").await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let points = [
        Point::BeforeManifest,
        Point::AfterManifest,
        Point::BeforeCommit,
        Point::AfterCommitBeforeAck,
    ];
    let mut given = 0;
    for point in points {
        given += NUMBERS / 5;
        let mut process = start(folder.path(), &database, given, Some(point));
        process.killed().await;
    }
    let mut process = start(folder.path(), &database, NUMBERS, None);
    process.says("completed").await;
    process.kill();
    check(&database).await;
    database.drop().await;
}

#[actix::test]
async fn a_worker_stopped_before_its_commit_writes_nothing_twice() {
    let Some(database) = Database::create("stopped_before_its_commit").await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let point = Some(Point::BetweenCheckAndCommit);
    let mut first = start_to(folder.path(), &database, NUMBERS / 2, point, true);
    first.stopped().await;
    let mut second = start(folder.path(), &database, NUMBERS, None);
    second.says("completed").await;
    second.kill();
    // It was about to commit what its successor has committed.
    first.go_on();
    first.says("committed").await;
    first.kill();
    check(&database).await;
    database.drop().await;
}
