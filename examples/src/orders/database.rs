//! The orders table in MariaDB or MySQL: made, filled by the loader, and read as the truth.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{FutureExt, TryStreamExt};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};
use tokio::time::Instant;

use super::account::{Account, END_CUSTOMER, Order, RowChange};
use super::script::Script;
use crate::say;

/// The environment variable with the database's password: it is never an argument.
pub const PASSWORD_VARIABLE: &str = "ORDERS_SQL_PASSWORD";

/// How long the database is waited for when the loader is to end, each time.
const LAST_ANSWER: Duration = Duration::from_secs(4);

/// A table, as `SCHEMA.TABLE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableName {
    /// The schema.
    pub schema: String,
    /// The table.
    pub table: String,
}

impl FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match text.split_once('.') {
            Some((schema, table)) if plain(schema) && plain(table) => Ok(Self {
                schema: schema.to_owned(),
                table: table.to_owned(),
            }),
            _ => Err(format!(
                "{text:?} is no SCHEMA.TABLE of letters, digits and underscores"
            )),
        }
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

/// Connects to `mysql://user@host:port`, with the password from [`PASSWORD_VARIABLE`].
///
/// # Errors
/// When the address can't be read or the database can't be reached.
pub async fn connect(url: &str) -> anyhow::Result<MySqlConnection> {
    let mut options = MySqlConnectOptions::from_str(url).context("the database's address")?;
    if let Ok(password) = std::env::var(PASSWORD_VARIABLE) {
        options = options.password(&password);
    }
    let options = options.disable_statement_logging();
    MySqlConnection::connect_with(&options)
        .await
        .with_context(|| format!("connecting to {url} with the password of {PASSWORD_VARIABLE}"))
}

/// Makes the table, empty. A table of that name is dropped before; where there is none no statement
/// says so, because a consumer must take a dropped table for lost rows.
///
/// # Errors
/// The database's own.
pub async fn create_table(
    connection: &mut MySqlConnection,
    name: &TableName,
) -> anyhow::Result<()> {
    let found = sqlx::query(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?",
    )
    .bind(&name.schema)
    .bind(&name.table)
    .fetch_one(&mut *connection)
    .await?;
    let drop = if found.try_get::<i64, _>(0)? > 0 {
        format!("DROP TABLE {name}; ")
    } else {
        String::new()
    };
    let sql = format!(
        "CREATE DATABASE IF NOT EXISTS {}; {drop}CREATE TABLE {name} (\
         id BIGINT UNSIGNED NOT NULL PRIMARY KEY, customer VARCHAR(64) NOT NULL, \
         amount DECIMAL(12,2) NOT NULL, placed DATETIME NOT NULL, version INT UNSIGNED NOT NULL)",
        name.schema
    );
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(())
}

/// Number of rows of the table.
///
/// # Errors
/// The database's own.
pub async fn count_rows(connection: &mut MySqlConnection, name: &TableName) -> anyhow::Result<i64> {
    let sql = format!("SELECT COUNT(*) FROM {name}");
    let row = sqlx::query(AssertSqlSafe(sql))
        .fetch_one(connection)
        .await?;
    Ok(row.try_get(0)?)
}

/// A committed transaction of the loader, as logged after its commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Committed {
    /// Number of the transaction.
    transaction: u64,
    /// Changes for each customer.
    changes: HashMap<String, u64>,
}

/// How fast rows are written, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// On average, if less than the database takes.
    pub rows_per_second: Option<u64>,
    /// When to end before the script does.
    pub limit: Option<Duration>,
}

impl Pace {
    /// When so many rows are due, counted from the begin.
    fn due(&self, rows: u64) -> Duration {
        self.rows_per_second.map_or(Duration::ZERO, |rate| {
            Duration::from_micros(rows.saturating_mul(1_000_000) / rate.max(1))
        })
    }
}

/// Plays a script into the table, ends with the row that ends the job, and logs what was committed.
/// Gives the number of row changes. Ends before the script does when `stop` resolves: behind the
/// transaction that is under way.
///
/// # Errors
/// The database's own, or the log's; a database that does not answer any more after `stop`.
pub async fn load(
    connection: &mut MySqlConnection,
    name: &TableName,
    mut script: Script,
    pace: &Pace,
    log: &Path,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<u64> {
    let (begun, mut rows) = (Instant::now(), 0);
    let mut log = BufWriter::new(File::create(log).with_context(|| log.display().to_string())?);
    let stop = stop.shared();
    for (number, transaction) in (1..).zip(script.by_ref()) {
        let sql = statements(name, &transaction);
        execute(connection, sql, stop.clone()).await?;
        if number == 1 {
            say!("writing to {name}");
        }
        let mut changes: HashMap<String, u64> = HashMap::new();
        for change in transaction.iter().flat_map(RowChange::account_changes) {
            *changes.entry(change.customer).or_default() += 1;
        }
        serde_json::to_writer(
            &mut log,
            &Committed {
                transaction: number,
                changes,
            },
        )?;
        log.write_all(b"\n")?;
        rows += transaction.len() as u64;
        if pace
            .limit
            .is_some_and(|limit| pace.due(rows).max(begun.elapsed()) > limit)
        {
            break;
        }
        tokio::select! {
            biased;
            () = stop.clone() => break,
            () = tokio::time::sleep_until(begun + pace.due(rows)) => {}
        }
    }
    log.flush()?;
    let end = Order {
        id: script.unused_id(),
        customer: END_CUSTOMER.to_owned(),
        amount: Decimal::ZERO,
        placed: "2026-12-31 00:00:00".to_owned(),
        version: 1,
    };
    let end = statements(name, &[RowChange::Insert(end)]);
    execute(connection, end, stop).await?;
    Ok(rows)
}

/// What was sent is waited for: nobody could say otherwise whether it was committed. But not for ever
/// once the loader is to end.
async fn execute(
    connection: &mut MySqlConnection,
    sql: String,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let given_up = async {
        stop.await;
        tokio::time::sleep(LAST_ANSWER).await;
    };
    tokio::select! {
        done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection) => {
            done?;
            Ok(())
        }
        () = given_up => bail!(
            "stopped, and the database has not answered within {LAST_ANSWER:?}: what was sent last may be \
             committed, and is not in the log"
        ),
    }
}

/// A transaction as SQL; inserts in a row become one statement.
fn statements(name: &TableName, transaction: &[RowChange]) -> String {
    use std::fmt::Write as _;
    let mut sql = String::from("BEGIN");
    let mut inserting = false;
    for change in transaction {
        // writing to a String can't fail
        let _ = match change {
            RowChange::Insert(row) => {
                if inserting {
                    sql.push(',');
                } else {
                    let _ = write!(
                        sql,
                        "; INSERT INTO {name} (id, customer, amount, placed, version) VALUES "
                    );
                }
                write!(
                    sql,
                    "({},'{}',{},'{}',{})",
                    row.id, row.customer, row.amount, row.placed, row.version
                )
            }
            RowChange::Update { after, .. } => write!(
                sql,
                "; UPDATE {name} SET customer='{}', amount={}, placed='{}', version={} WHERE id={}",
                after.customer, after.amount, after.placed, after.version, after.id
            ),
            RowChange::Delete(row) => write!(sql, "; DELETE FROM {name} WHERE id={}", row.id),
        };
        inserting = matches!(change, RowChange::Insert(_));
    }
    sql.push_str("; COMMIT");
    sql
}

/// The accounts that the table holds; the number of changes is the log's.
///
/// # Errors
/// The database's own, or a log that can't be read.
pub async fn accounts(
    connection: &mut MySqlConnection,
    name: &TableName,
    log: &Path,
) -> anyhow::Result<HashMap<String, Account>> {
    let mut accounts = rows_as_accounts(connection, name).await?;
    let file = File::open(log).with_context(|| log.display().to_string())?;
    for account in accounts.values_mut() {
        account.changes = 0;
    }
    for line in BufReader::new(file).lines() {
        let committed: Committed = serde_json::from_str(&line?).context("the loader's log")?;
        for (customer, changes) in committed.changes {
            accounts.entry(customer).or_default().changes += changes;
        }
    }
    Ok(accounts)
}

async fn rows_as_accounts(
    connection: &mut MySqlConnection,
    name: &TableName,
) -> anyhow::Result<HashMap<String, Account>> {
    let sql = format!(
        "SELECT id, customer, CAST(amount AS CHAR), DATE_FORMAT(placed, '%Y-%m-%d %H:%i:%s'), \
         version FROM {name}"
    );
    let mut accounts: HashMap<String, Account> = HashMap::new();
    let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let amount: String = row.try_get(2)?;
        let order = Order {
            id: row.try_get(0)?,
            customer: row.try_get(1)?,
            amount: Decimal::from_str(&amount).context("an amount of the table")?,
            placed: row.try_get(3)?,
            version: row.try_get(4)?,
        };
        if order.customer == END_CUSTOMER {
            continue;
        }
        for change in RowChange::Insert(order).account_changes() {
            accounts
                .entry(change.customer.clone())
                .or_default()
                .apply(&change);
        }
    }
    if accounts.is_empty() {
        bail!("{name} is empty: there is no truth to compare with");
    }
    Ok(accounts)
}
