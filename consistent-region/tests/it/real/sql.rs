//! Rows in MariaDB, exactly once, although the process that writes them is killed and stopped between
//! the steps. The judge reads the table alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::coordinator::{
    CoordinatorSettings, RegionCoordinator, RegionState,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::operator::{Committer, Cut, InstanceContext, OperatorError};
use lockkeeper_consistent_region::point::{Hook, Point};
use lockkeeper_consistent_region::sink::{
    SqlOutput, SqlSettings, SqlSink, Statement, TwoPhaseSink,
};
use lockkeeper_consistent_region::store::FileStore;
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerConfig};
use serde::{Deserialize, Serialize};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use tokio::task::spawn_blocking;

use super::{servers, variable};
use crate::child::{self, Child};
use crate::numbers::{Upstream, numbers};

const NUMBERS: u64 = 5_000;

/// A database of one test; it is dropped with this.
struct Database {
    settings: Settings,
}

/// How it is reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Settings {
    url: String,
    password: Option<String>,
    name: String,
}

impl Database {
    async fn create(test: &str) -> Option<Self> {
        let [address] = servers(test, ["LOCKKEEPER_MYSQL"])?;
        let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
        let password = variable("LOCKKEEPER_MYSQL_PASSWORD_FILE")
            .map(|file| std::fs::read_to_string(file).unwrap().trim_end().to_owned());
        let name = format!("region_{:.40}_{}", test, std::process::id());
        let settings = Settings {
            url: format!("mysql://{user}@{address}/{name}"),
            password,
            name,
        };
        let mut server = settings.connect("mysql").await;
        let name = &settings.name;
        execute(&mut server, &format!("CREATE DATABASE {name}")).await;
        let table = format!("CREATE TABLE {name}.seen (number BIGINT UNSIGNED NOT NULL)");
        execute(&mut server, &table).await;
        Some(Self { settings })
    }

    async fn count(&self, what: &str) -> u64 {
        let mut connection = self.settings.connect(&self.settings.name).await;
        let row = connection.fetch_one(AssertSqlSafe(format!("SELECT CAST({what} AS UNSIGNED)")));
        row.await.unwrap().get(0)
    }

    /// Every number once, and nothing left of any attempt.
    async fn check(&self) {
        let rows = self.count("(SELECT COUNT(*) FROM seen)").await;
        let different = self
            .count("(SELECT COUNT(DISTINCT number) FROM seen)")
            .await;
        assert_eq!((rows, different), (NUMBERS, NUMBERS));
        let staged = self.count("(SELECT COUNT(*) FROM lockkeeper_staged)").await;
        assert_eq!(staged, 0, "something is staged and nobody's");
    }

    async fn drop(self) {
        let mut server = self.settings.connect("mysql").await;
        let name = &self.settings.name;
        execute(&mut server, &format!("DROP DATABASE {name}")).await;
    }
}

impl Settings {
    async fn connect(&self, database: &str) -> MySqlConnection {
        let mut options: MySqlConnectOptions = self.url.parse().unwrap();
        options = options.database(database);
        if let Some(password) = &self.password {
            options = options.password(password);
        }
        MySqlConnection::connect_with(&options).await.unwrap()
    }

    fn sink(&self) -> SqlSettings {
        let mut settings = SqlSettings::new(&self.url);
        settings.password.clone_from(&self.password);
        // A server for tests need not survive the loss of its power.
        settings.check_durability = false;
        settings
    }
}

async fn execute(connection: &mut MySqlConnection, sql: &str) {
    let executed = connection.execute(AssertSqlSafe(sql.to_owned())).await;
    executed.unwrap_or_else(|error| panic!("{sql}: {error}"));
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
    database.check().await;
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
    database.check().await;
    database.drop().await;
}

/// A sink by itself, called as its operator's jobs do: off the arbiter.
struct Alone(Arc<SqlSink<u64>>);

impl Alone {
    fn new(database: &Database, map: fn(Cut, Vec<u64>) -> Result<Vec<Statement>, String>) -> Self {
        let context = InstanceContext::alone("sink");
        Self(Arc::new(SqlSink::new(
            context,
            database.settings.sink(),
            map,
        )))
    }

    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&SqlOutput<u64>) -> Result<T, OperatorError> + Send + 'static,
    ) -> Result<T, OperatorError> {
        let sink = Arc::clone(&self.0);
        spawn_blocking(move || call(sink.sink())).await.unwrap()
    }

    async fn stage(&self, seq: u64, attempt: u64, numbers: Vec<u64>) -> Vec<u8> {
        let cut = Cut {
            seq,
            term: 1,
            attempt,
            completed: 0,
            last: false,
        };
        self.call(move |sink| sink.stage(cut, numbers))
            .await
            .unwrap()
    }

    async fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        let token = token.to_vec();
        self.call(move |sink| sink.commit(seq, &token)).await
    }
}

#[actix::test]
async fn a_repeated_commit_does_nothing_and_another_attempts_is_refused() {
    let Some(database) = Database::create("repeated_commit").await else {
        return;
    };
    let sink = Alone::new(&database, insert);
    let one = sink.stage(7, 1, vec![1, 2]).await;
    let two = sink.stage(7, 2, vec![3]).await;
    assert_eq!(database.count("(SELECT COUNT(*) FROM seen)").await, 0);
    for _ in 0..2 {
        sink.commit(7, &two).await.unwrap();
        assert_eq!(database.count("(SELECT SUM(number) FROM seen)").await, 3);
    }
    let refused = sink.commit(7, &one).await.unwrap_err();
    assert!(matches!(refused, OperatorError::Permanent(_)), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("holds the rows of attempt 7.1.2"), "{text}");

    let lost = sink.stage(8, 2, vec![4]).await;
    sink.call(|sink| sink.abort_all_except(&[])).await.unwrap();
    let staged = database
        .count("(SELECT COUNT(*) FROM lockkeeper_staged)")
        .await;
    assert_eq!(staged, 0);
    let gone = sink.commit(8, &lost).await.unwrap_err();
    assert!(matches!(gone, OperatorError::Permanent(_)), "{gone}");
    assert_eq!(database.count("(SELECT SUM(number) FROM seen)").await, 3);
    database.drop().await;
}

/// Its last statement fails while there is no such table.
fn insert_and_fail(cut: Cut, numbers: Vec<u64>) -> Result<Vec<Statement>, String> {
    let mut statements = insert(cut, numbers)?;
    statements.push(Statement::new("INSERT INTO nowhere VALUES (?)").bind(1));
    Ok(statements)
}

#[actix::test]
async fn a_statement_that_fails_leaves_no_part_of_its_cut() {
    let Some(database) = Database::create("failing_statement").await else {
        return;
    };
    let sink = Alone::new(&database, insert_and_fail);
    let token = sink.stage(7, 1, vec![1, 2]).await;
    let failed = sink.commit(7, &token).await.unwrap_err();
    assert!(matches!(failed, OperatorError::Permanent(_)), "{failed}");
    for table in ["seen", "lockkeeper_commits"] {
        let rows = database
            .count(&format!("(SELECT COUNT(*) FROM {table})"))
            .await;
        assert_eq!(rows, 0, "{table}");
    }
    // Once the table is made, the same commit succeeds.
    let mut connection = database.settings.connect(&database.settings.name).await;
    execute(&mut connection, "CREATE TABLE nowhere (n BIGINT)").await;
    sink.commit(7, &token).await.unwrap();
    assert_eq!(database.count("(SELECT SUM(number) FROM seen)").await, 3);
    database.drop().await;
}

#[actix::test]
async fn a_server_that_may_forget_what_it_answered_is_refused_by_its_setting() {
    let Some(database) = Database::create("durability").await else {
        return;
    };
    let durable = database
        .count("@@GLOBAL.innodb_flush_log_at_trx_commit")
        .await
        == 1;
    let mut settings = database.settings.sink();
    settings.check_durability = true;
    let context = InstanceContext::alone("sink");
    let sink = Alone(Arc::new(SqlSink::new(context, settings, insert)));
    let asked = sink.call(|sink| sink.abort_all_except(&[])).await;
    match asked {
        Ok(()) => assert!(durable),
        Err(error) => {
            assert!(!durable, "{error}");
            let text = error.to_string();
            assert!(text.contains("innodb_flush_log_at_trx_commit"), "{text}");
        }
    }
    database.drop().await;
}
