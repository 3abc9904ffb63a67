//! A sink that writes rows to MariaDB or MySQL (feature `sql`).
//!
//! In the first phase the statements of a cut are staged: stored, checksummed, in the table
//! `lockkeeper_staged` of the same database. In the second they are executed in one transaction, which
//! begins with the insertion of (region, sink, seq) into `lockkeeper_commits`, where that is the
//! primary key. So the rows of a cut and the mark that they are written become visible together and
//! once: a second commit, of a successor or of a process that was stopped for an hour, finds the key
//! and does nothing.

mod client;
mod statement;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use self::client::{Client, Fault};
pub use self::statement::{SqlValue, Statement};
use super::{SinkOperator, TwoPhaseSink};
use crate::operator::{Committer, Cut, InstanceContext, OperatorError, Tuple};

/// Statements are staged in parts of this many bytes.
const PART_BYTES: usize = 1 << 20;
/// Marks of committed cuts that are kept for each instance.
const KEPT_COMMITS: u64 = 1_000;

/// Makes the statements of a cut of its tuples, in the order in which they came. Runs on a blocking
/// pool. What it gives is staged: the program may change before it is executed.
pub type MapRows<T> = dyn Fn(Cut, Vec<T>) -> Result<Vec<Statement>, String> + Send + Sync;

/// Where a [`SqlSink`] writes.
#[derive(Clone)]
pub struct SqlSettings {
    /// `mysql://user@host:port/database`. The connection is not encrypted: for the same host and for
    /// networks that you trust.
    pub url: String,
    /// The user's password; it is never shown.
    pub password: Option<String>,
    /// How long one phase of a cut may take (60 s). It must be shorter than `drain_timeout`.
    ///
    /// The server ends a session that is silent for a quarter of it, in whole seconds and at least
    /// one: so the rows that a stopped or lost process has locked keep its successor waiting for no
    /// longer. A sink whose cuts are further apart than that connects anew for each.
    pub timeout: Duration,
    /// Begins the names of the sink's own two tables (`lockkeeper_`).
    pub table_prefix: String,
    /// Ask the server whether its answers are durable: `innodb_flush_log_at_trx_commit` is 1 (`true`).
    pub check_durability: bool,
}

impl SqlSettings {
    /// Defaults for everything but the server.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: None,
            timeout: Duration::from_secs(60),
            table_prefix: "lockkeeper_".to_owned(),
            check_durability: true,
        }
    }

    /// The server and database, without the user part of the URL.
    fn location(&self) -> String {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        format!("mysql://{place}")
    }
}

impl fmt::Debug for SqlSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlSettings")
            .field("url", &self.location())
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("timeout", &self.timeout)
            .field("table_prefix", &self.table_prefix)
            .field("check_durability", &self.check_durability)
            .finish()
    }
}

/// An end operator that writes the tuples of each complete cut to tables, in one transaction a cut.
///
/// The sink makes its two tables when it first stages; the account needs the rights for that, or they
/// are made beforehand. Tables that the statements write to must be transactional (InnoDB).
///
/// Not for cuts whose statements do not fit in memory, and not for very frequent cuts: each is two
/// transactions. What is committed is never taken back: the region does not fall back below it.
///
/// In a graph: `graph.end("sink", stream, move |context| SqlSink::new(context, settings.clone(),
/// map))`.
pub type SqlSink<T> = SinkOperator<SqlOutput<T>>;

/// How a [`SqlSink`] writes.
pub struct SqlOutput<T> {
    client: Client,
    settings: SqlSettings,
    map: Box<MapRows<T>>,
    region: String,
    sink: String,
    tuple: PhantomData<fn(T)>,
}

/// What a cut's manifest says of staged statements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Token {
    staged: String,
    parts: u32,
    /// CRC-32 (IEEE) of all parts.
    crc32: u32,
}

impl<T: Tuple> SinkOperator<SqlOutput<T>> {
    /// A sink that executes what `map` makes of a cut's tuples. An error of `map` is permanent.
    pub fn new(
        context: InstanceContext,
        settings: SqlSettings,
        map: impl Fn(Cut, Vec<T>) -> Result<Vec<Statement>, String> + Send + Sync + 'static,
    ) -> Self {
        let instance = context.instance();
        let output = SqlOutput {
            client: Client::new(settings.clone()),
            settings,
            map: Box::new(map),
            region: context.region_name().to_owned(),
            sink: format!("{}.{}", instance.operator, instance.index),
            tuple: PhantomData,
        };
        SinkOperator::of(context, output)
    }
}

impl<T> SqlOutput<T> {
    fn staged_table(&self) -> String {
        format!("`{}staged`", self.settings.table_prefix)
    }

    fn commits_table(&self) -> String {
        format!("`{}commits`", self.settings.table_prefix)
    }

    /// A statement on the sink's own tables, which `S` and `C` stand for.
    fn own(&self, text: &str) -> AssertSqlSafe<String> {
        // Nothing of a row gets into the text: only the two names.
        AssertSqlSafe(
            text.replace("{S}", &self.staged_table())
                .replace("{C}", &self.commits_table()),
        )
    }

    async fn make_tables(&self, connection: &mut MySqlConnection) -> Result<(), Fault> {
        const NAMES: &str = "region VARCHAR(100) COLLATE utf8mb4_bin NOT NULL, \
             sink VARCHAR(150) COLLATE utf8mb4_bin NOT NULL";
        let staged = format!(
            "CREATE TABLE IF NOT EXISTS {{S}} ({NAMES}, staged VARCHAR(80) CHARACTER SET ascii NOT NULL, \
             part INT UNSIGNED NOT NULL, statements LONGBLOB NOT NULL, \
             PRIMARY KEY (region, sink, staged, part)) \
             ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4"
        );
        let commits = format!(
            "CREATE TABLE IF NOT EXISTS {{C}} ({NAMES}, seq BIGINT UNSIGNED NOT NULL, \
             staged VARCHAR(80) CHARACTER SET ascii NOT NULL, \
             committed_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
             PRIMARY KEY (region, sink, seq)) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4"
        );
        for table in [staged, commits] {
            connection.execute(sqlx::raw_sql(self.own(&table))).await?;
        }
        Ok(())
    }

    async fn store(
        &self,
        connection: &mut MySqlConnection,
        token: &Token,
        parts: Vec<Vec<u8>>,
    ) -> Result<(), Fault> {
        self.make_tables(connection).await?;
        let mut transaction = connection.begin().await?;
        for (number, part) in (0_u32..).zip(parts) {
            let insert = "INSERT INTO {S} (region, sink, staged, part, statements) \
                          VALUES (?, ?, ?, ?, ?)";
            sqlx::query(self.own(insert))
                .bind(&self.region)
                .bind(&self.sink)
                .bind(&token.staged)
                .bind(number)
                .bind(part)
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// The staged attempt whose rows are written for cut `seq`.
    async fn committed(
        &self,
        connection: &mut MySqlConnection,
        seq: u64,
    ) -> Result<Option<String>, Fault> {
        let select = "SELECT staged FROM {C} WHERE region = ? AND sink = ? AND seq = ?";
        let row = sqlx::query(self.own(select))
            .bind(&self.region)
            .bind(&self.sink)
            .bind(seq)
            .fetch_optional(connection)
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn write(
        &self,
        connection: &mut MySqlConnection,
        seq: u64,
        token: &Token,
    ) -> Result<(), Fault> {
        let mut transaction = connection.begin().await?;
        // First: whoever else commits this cut waits here until this transaction has ended.
        let insert = "INSERT INTO {C} (region, sink, seq, staged) VALUES (?, ?, ?, ?)";
        let inserted = sqlx::query(self.own(insert))
            .bind(&self.region)
            .bind(&self.sink)
            .bind(seq)
            .bind(&token.staged)
            .execute(&mut *transaction)
            .await;
        if let Err(error) = inserted {
            let exists = |error: &dyn sqlx::error::DatabaseError| error.is_unique_violation();
            if !error.as_database_error().is_some_and(exists) {
                return Err(error.into());
            }
            transaction.rollback().await?;
            return match self.committed(connection, seq).await? {
                Some(staged) if staged == token.staged => Ok(()),
                Some(staged) => Err(Fault::Wrong(format!(
                    "cut {seq} of {} holds the rows of attempt {staged}, not of {}: they are not \
                     replaced",
                    self.sink, token.staged
                ))),
                None => Err(Fault::Wrong(format!(
                    "the mark of cut {seq} of {} was there and is gone",
                    self.sink
                ))),
            };
        }
        self.execute_staged(&mut transaction, seq, token).await?;
        for part in 0..token.parts {
            self.remove_staged(&mut transaction, &token.staged, part)
                .await?;
        }
        let delete = "DELETE FROM {C} WHERE region = ? AND sink = ? AND seq < ?";
        sqlx::query(self.own(delete))
            .bind(&self.region)
            .bind(&self.sink)
            .bind(seq.saturating_sub(KEPT_COMMITS))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn remove_staged(
        &self,
        connection: &mut MySqlConnection,
        staged: &str,
        part: u32,
    ) -> Result<(), Fault> {
        let delete = "DELETE FROM {S} WHERE region = ? AND sink = ? AND staged = ? AND part = ?";
        sqlx::query(self.own(delete))
            .bind(&self.region)
            .bind(&self.sink)
            .bind(staged)
            .bind(part)
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn execute_staged(
        &self,
        connection: &mut MySqlConnection,
        seq: u64,
        token: &Token,
    ) -> Result<(), Fault> {
        let mut hasher = crc32fast::Hasher::new();
        for number in 0..token.parts {
            let select = "SELECT statements FROM {S} \
                          WHERE region = ? AND sink = ? AND staged = ? AND part = ?";
            let row = sqlx::query(self.own(select))
                .bind(&self.region)
                .bind(&self.sink)
                .bind(&token.staged)
                .bind(number)
                .fetch_optional(&mut *connection)
                .await?;
            let Some(row) = row else {
                return Err(Fault::Wrong(format!(
                    "part {number} of what {} staged for cut {seq} is gone, and the cut was never \
                     committed",
                    self.sink
                )));
            };
            let part: Vec<u8> = row.try_get(0)?;
            hasher.update(&part);
            let statements: Vec<Statement> = rmp_serde::from_slice(&part)
                .map_err(|error| Fault::Wrong(format!("a staged part of cut {seq}: {error}")))?;
            for statement in statements {
                execute(connection, statement).await?;
            }
        }
        if hasher.finalize() == token.crc32 {
            Ok(())
        } else {
            Err(Fault::Wrong(format!(
                "what {} staged for cut {seq} is damaged: the checksum differs",
                self.sink
            )))
        }
    }
}

async fn execute(connection: &mut MySqlConnection, statement: Statement) -> Result<(), Fault> {
    // The text is the program's; values are bound.
    let mut query = sqlx::query(AssertSqlSafe(statement.sql));
    for value in statement.values {
        query = match value {
            SqlValue::Null => query.bind(None::<i64>),
            SqlValue::Integer(value) => query.bind(value),
            SqlValue::Unsigned(value) => query.bind(value),
            SqlValue::Double(value) => query.bind(value),
            SqlValue::Text(value) => query.bind(value),
            SqlValue::Bytes(value) => query.bind(value),
        };
    }
    query.execute(connection).await?;
    Ok(())
}

/// Encodes statements in parts of about [`PART_BYTES`].
fn encode(statements: Vec<Statement>) -> Result<Vec<Vec<u8>>, OperatorError> {
    let mut parts = Vec::new();
    let mut part: Vec<Statement> = Vec::new();
    let mut size = 0;
    let mut close = |part: &mut Vec<Statement>| {
        let bytes = rmp_serde::to_vec(part)
            .map_err(|error| OperatorError::Permanent(format!("a statement: {error}")))?;
        part.clear();
        parts.push(bytes);
        Ok::<(), OperatorError>(())
    };
    for statement in statements {
        size += statement.size();
        part.push(statement);
        if size >= PART_BYTES {
            close(&mut part)?;
            size = 0;
        }
    }
    if !part.is_empty() {
        close(&mut part)?;
    }
    Ok(parts)
}

impl<T> fmt::Debug for SqlOutput<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlOutput")
            .field("settings", &self.settings)
            .field("region", &self.region)
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

impl<T: Tuple> TwoPhaseSink for SqlOutput<T> {
    type Tuple = T;

    fn stage(&self, cut: Cut, tuples: Vec<T>) -> Result<Vec<u8>, OperatorError> {
        let statements = (self.map)(cut, tuples).map_err(OperatorError::Permanent)?;
        let parts = encode(statements)?;
        let mut hasher = crc32fast::Hasher::new();
        for part in &parts {
            hasher.update(part);
        }
        let Cut {
            seq, term, attempt, ..
        } = cut;
        let token = Token {
            staged: format!("{seq}.{term}.{attempt}"),
            parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
            crc32: hasher.finalize(),
        };
        self.client
            .with(async |connection| self.store(connection, &token, parts).await)?;
        serde_json::to_vec(&token).map_err(|error| OperatorError::Permanent(error.to_string()))
    }
}

impl<T: Tuple> Committer for SqlOutput<T> {
    fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        let token: Token = serde_json::from_slice(token).map_err(|error| {
            OperatorError::Permanent(format!("the token is none of a SQL sink: {error}"))
        })?;
        self.client
            .with(async |connection| self.write(connection, seq, &token).await)
    }

    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError> {
        let kept: Vec<String> = retained
            .iter()
            .filter_map(|token| serde_json::from_slice::<Token>(token).ok())
            .map(|token| token.staged)
            .collect();
        self.client.with(async |connection| {
            self.make_tables(connection).await?;
            // A read that takes no locks, and deletions row by row: the open transaction of a
            // predecessor that is stopped must not be waited for.
            let select = "SELECT staged, part FROM {S} WHERE region = ? AND sink = ?";
            let rows = sqlx::query(self.own(select))
                .bind(&self.region)
                .bind(&self.sink)
                .fetch_all(&mut *connection)
                .await?;
            for row in rows {
                let (staged, part): (String, u32) = (row.try_get(0)?, row.try_get(1)?);
                if !kept.contains(&staged) {
                    self.remove_staged(connection, &staged, part).await?;
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
