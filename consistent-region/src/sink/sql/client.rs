//! One connection to the database, used from a blocking pool by one caller at a time.

use std::io;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::SqlSettings;
use crate::operator::OperatorError;

/// What the database did with a transaction.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// What was staged or committed is not what it should be.
    #[error("{0}")]
    Wrong(String),
}

/// A session may be silent for the time-out divided by this; its successor needs the rest.
const SILENT_PART: u32 = 4;

/// A connection that is made when it is needed, and made anew after each failure.
pub(super) struct Client {
    settings: SqlSettings,
    open: Mutex<Option<Open>>,
}

/// A connection and the runtime that moves it. The runtime is its own: the sink's jobs must not wait
/// for the arbiter that waits for them.
struct Open {
    runtime: Option<Runtime>,
    connection: Option<MySqlConnection>,
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.connection.take());
        if let Some(runtime) = self.runtime.take() {
            // May be dropped on an arbiter, which must not wait.
            runtime.shutdown_background();
        }
    }
}

impl Client {
    pub(super) fn new(settings: SqlSettings) -> Self {
        Self {
            settings,
            open: Mutex::new(None),
        }
    }

    /// Does `work` on the connection within the time-out. After a failure the connection is closed,
    /// and with it a transaction that was open.
    pub(super) fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<T, Fault>,
    ) -> Result<T, OperatorError> {
        let mut slot = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = match slot.take() {
            Some(open) => open,
            None => Open {
                runtime: Some(
                    tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()?,
                ),
                connection: None,
            },
        };
        let (runtime, connection) = (open.runtime.as_ref(), &mut open.connection);
        let Some(runtime) = runtime else {
            return Err(OperatorError::Retry("the sink is being dropped".to_owned()));
        };
        let limit = self.settings.timeout;
        let done = runtime.block_on(async {
            timeout(limit, async {
                let connection = self.connected(connection).await?;
                work(connection).await.map_err(|fault| self.told(fault))
            })
            .await
            .unwrap_or_else(|_| {
                Err(OperatorError::Retry(format!(
                    "{} did not answer within {limit:?}",
                    self.settings.location()
                )))
            })
        })?;
        *slot = Some(open);
        Ok(done)
    }

    /// The connection, if it still works; else a new one.
    async fn connected<'a>(
        &self,
        slot: &'a mut Option<MySqlConnection>,
    ) -> Result<&'a mut MySqlConnection, OperatorError> {
        let works = match slot {
            Some(connection) => connection.ping().await.is_ok(),
            None => false,
        };
        if !works {
            *slot = None;
            let new = self.connect().await?;
            return Ok(slot.insert(new));
        }
        match slot {
            Some(connection) => Ok(connection),
            None => Err(OperatorError::Retry("no connection".to_owned())),
        }
    }

    async fn connect(&self) -> Result<MySqlConnection, OperatorError> {
        let settings = &self.settings;
        let is_ours = |scheme: &str| settings.url.starts_with(scheme);
        let parsed = MySqlConnectOptions::from_str(&settings.url);
        // The parser's error may hold a part of the URL, and that a password.
        let (true, Ok(options)) = (
            ["mysql://", "mariadb://"].iter().any(|s| is_ours(s)),
            parsed,
        ) else {
            return Err(OperatorError::Permanent(
                "the database's URL can't be read: mysql://user@host:port/database is one".into(),
            ));
        };
        let mut options = options.disable_statement_logging();
        if let Some(password) = &settings.password {
            options = options.password(password);
        }
        let mut connection = MySqlConnection::connect_with(&options)
            .await
            .map_err(|error| self.told(error.into()))?;
        let limited = limit_session(&mut connection, settings.timeout).await;
        limited.map_err(|fault| self.told(fault))?;
        if settings.check_durability {
            let durable = durability(&mut connection).await;
            durable.map_err(|fault| self.told(fault))?;
        }
        Ok(connection)
    }

    fn told(&self, fault: Fault) -> OperatorError {
        let text = format!("{}: {fault}", self.settings.location());
        match &fault {
            Fault::Sql(error) if is_retryable(error) => OperatorError::Retry(text),
            _ => OperatorError::Permanent(text),
        }
    }
}

/// No session keeps others waiting for longer than it may: neither by what it locks nor by being
/// silent.
async fn limit_session(connection: &mut MySqlConnection, timeout: Duration) -> Result<(), Fault> {
    // Locks rows, and not what lies between them: neighbours must not wait for one another.
    let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    sqlx::raw_sql(isolation).execute(&mut *connection).await?;
    // A process that is stopped within its transaction, or whose host is gone, would lock its
    // successor out for the server's own eight hours. So the server ends a session that is silent,
    // and the successor's statement waits for that.
    let (silence, wait) = (seconds(timeout / SILENT_PART), seconds(timeout));
    let limits = format!(
        "SET SESSION wait_timeout = {silence}, net_read_timeout = {silence}, \
         net_write_timeout = {silence}, innodb_lock_wait_timeout = {wait}"
    );
    // Nothing of a row gets into the text: only two numbers.
    let limits = sqlx::raw_sql(AssertSqlSafe(limits));
    limits.execute(connection).await?;
    Ok(())
}

/// Whole ones, and at least one: the server counts in these.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs().max(1)
}

/// What the server has answered must be on its disk.
async fn durability(connection: &mut MySqlConnection) -> Result<(), Fault> {
    let row = sqlx::query("SELECT CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS SIGNED)")
        .fetch_one(connection)
        .await?;
    match row.try_get::<i64, _>(0)? {
        1 => Ok(()),
        other => Err(Fault::Wrong(format!(
            "innodb_flush_log_at_trx_commit is {other}: what the server answers may be lost with \
             its power; set it to 1, or check_durability to false"
        ))),
    }
}

/// Whether the same may work later: anything but what the server says of the statement itself.
fn is_retryable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => {
            let state = error.code();
            // data exceptions, constraints, syntax and access: the reset would bring the same
            !state.is_some_and(|state| {
                ["22", "23", "42", "28"]
                    .iter()
                    .any(|class| state.starts_with(class))
            })
        }
        sqlx::Error::Io(error) => error.kind() != io::ErrorKind::InvalidInput,
        sqlx::Error::Configuration(_) | sqlx::Error::Encode(_) => false,
        _ => true,
    }
}
