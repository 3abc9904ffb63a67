//! The sink by itself, without a region around it.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::operator::{Committer, Cut, InstanceContext, OperatorError};
use lockkeeper_consistent_region::sink::{
    SqlOutput, SqlSettings, SqlSink, Statement, TwoPhaseSink,
};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::database::{Database, Settings, execute};
use super::insert;
use crate::child::{self, Child};

type Map = fn(Cut, Vec<u64>) -> Result<Vec<Statement>, String>;

/// A sink by itself, called as its operator's jobs do: off the arbiter.
struct Alone(Arc<SqlSink<u64>>);

impl Alone {
    fn new(database: &Database, map: Map) -> Self {
        Self::of(database.settings.sink(), map)
    }

    fn of(settings: SqlSettings, map: Map) -> Self {
        let context = InstanceContext::alone("sink");
        Self(Arc::new(SqlSink::new(context, settings, map)))
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
    let sink = Alone::of(settings, insert);
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

/// A process that commits a cut through a gate and is stopped meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stopped {
    database: Settings,
    token: Vec<u8>,
}

/// Rows that are written once the gate is open.
fn insert_through_gate(cut: Cut, numbers: Vec<u64>) -> Result<Vec<Statement>, String> {
    let mut statements = vec![Statement::new("UPDATE gate SET passed = passed + 1")];
    statements.extend(insert(cut, numbers)?);
    Ok(statements)
}

fn impatient(settings: &Settings) -> SqlSettings {
    let mut settings = settings.sink();
    settings.timeout = Duration::from_secs(40);
    settings
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_sink_that_commits_a_cut() {
    let Some(Stopped { database, token }) = child::task::<Stopped>() else {
        return;
    };
    let sink = Alone::of(impatient(&database), insert_through_gate);
    match sink.commit(7, &token).await {
        Err(OperatorError::Retry(_)) => child::say("lost"),
        other => child::say(&format!("{other:?}")),
    }
    sink.commit(7, &token).await.unwrap();
    child::say("committed");
    // Whoever started it ends it.
    std::future::pending::<()>().await;
}

#[actix::test]
async fn a_worker_stopped_within_its_commit_locks_its_successor_out_for_a_moment_only() {
    let Some(database) = Database::create("stopped_within_its_commit").await else {
        return;
    };
    let mut gate = database.settings.connect(&database.settings.name).await;
    execute(&mut gate, "CREATE TABLE gate (passed INT NOT NULL)").await;
    execute(&mut gate, "INSERT INTO gate VALUES (0)").await;
    let sink = Alone::of(impatient(&database.settings), insert_through_gate);
    let token = sink.stage(7, 1, vec![1, 2]).await;

    execute(&mut gate, "START TRANSACTION").await;
    execute(&mut gate, "UPDATE gate SET passed = 0").await;
    let task = Stopped {
        database: database.settings.clone(),
        token: token.clone(),
    };
    let mut first = Child::start("real::sql::alone::a_sink_that_commits_a_cut", &task);
    database.until_one_hangs("UPDATE gate").await;
    first.stop().await;
    // Its statement is carried out now, and its transaction stays open.
    execute(&mut gate, "COMMIT").await;

    sink.commit(7, &token).await.unwrap();
    first.go_on();
    first.says("lost").await;
    first.says("committed").await;
    first.kill();
    assert_eq!(database.count("(SELECT SUM(passed) FROM gate)").await, 1);
    assert_eq!(database.count("(SELECT SUM(number) FROM seen)").await, 3);
    database.drop().await;
}
