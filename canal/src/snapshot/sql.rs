//! The database's side: what a table is made of, its rows in chunks, and the watermarks.

mod column;
mod moment;

use std::time::Duration;

use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlRow, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::entries::ReadAt;
use super::error::SnapshotError;
use super::key::{Key, KeyValue};
use super::merge::Watermarks;
use super::settings::SnapshotDatabase;
use crate::protocol::generated::entry as wire;
pub(super) use column::TableColumns;

/// A connection to the database that is read.
pub(super) struct Database {
    connection: MySqlConnection,
    timeout: Duration,
    server_id: i64,
}

/// A chunk's rows.
pub(super) struct Rows {
    pub(super) at: ReadAt,
    pub(super) rows: Vec<Vec<wire::Column>>,
    /// There are none behind them.
    pub(super) last: bool,
}

impl Database {
    /// Connects, and looks whether rows can be read together with their changes.
    pub(super) async fn connect(settings: &SnapshotDatabase) -> Result<Self, SnapshotError> {
        let password = String::from_utf8_lossy(settings.password.bytes());
        let options = MySqlConnectOptions::new()
            .host(&settings.host)
            .port(settings.port)
            .username(&settings.user)
            .password(&password)
            .ssl_mode(MySqlSslMode::Disabled)
            .timezone(settings.time_zone.clone())
            .disable_statement_logging();
        let connection = within(settings.timeout, MySqlConnection::connect_with(&options)).await?;
        let mut database = Self {
            connection,
            timeout: settings.timeout,
            server_id: 0,
        };
        database.check().await?;
        Ok(database)
    }

    async fn check(&mut self) -> Result<(), SnapshotError> {
        let rows = self
            .query(
                "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
                    ('log_bin', 'binlog_format', 'binlog_row_image', 'server_id')",
                &[],
            )
            .await?;
        for row in rows {
            let (name, value): (String, String) = (text(&row, 0)?, text(&row, 1)?);
            let (setting, wanted) = match name.as_str() {
                "log_bin" => ("log_bin", "ON"),
                "binlog_format" => ("binlog_format", "ROW"),
                "binlog_row_image" => ("binlog_row_image", "FULL"),
                _ => {
                    self.server_id = value.parse().unwrap_or_default();
                    continue;
                }
            };
            if !value.eq_ignore_ascii_case(wanted) {
                return Err(SnapshotError::Setting {
                    setting,
                    value,
                    wanted,
                });
            }
        }
        Ok(())
    }

    /// Makes the watermarks' table, if it is not there.
    pub(super) async fn make_watermarks(&mut self, to: &Watermarks) -> Result<(), SnapshotError> {
        let found = self
            .query(
                "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
                &[Value::Text(&to.schema), Value::Text(&to.table)],
            )
            .await?;
        if !found.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {}.{} (name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE \
             utf8mb4_bin PRIMARY KEY, mark VARCHAR(128) NOT NULL)",
            quoted(&to.schema),
            quoted(&to.table)
        );
        self.query(&sql, &[]).await.map(drop)
    }

    /// Writes a watermark and commits it.
    pub(super) async fn write(&mut self, to: &Watermarks, mark: &str) -> Result<(), SnapshotError> {
        let sql = format!(
            "INSERT INTO {}.{} (name, mark) VALUES (?, ?) ON DUPLICATE KEY UPDATE mark = VALUES(mark)",
            quoted(&to.schema),
            quoted(&to.table)
        );
        let values = [Value::Text(&to.name), Value::Text(mark)];
        self.query(&sql, &values).await.map(drop)
    }

    /// What a table is made of, now.
    pub(super) async fn columns(
        &mut self,
        schema: &str,
        table: &str,
    ) -> Result<TableColumns, SnapshotError> {
        let names = [Value::Text(schema), Value::Text(table)];
        // Some servers give these columns as binary: CAST makes them text everywhere.
        let columns = self
            .query(
                "SELECT CAST(COLUMN_NAME AS CHAR), CAST(DATA_TYPE AS CHAR), CAST(COLUMN_TYPE AS CHAR), \
                 CAST(COALESCE(COLLATION_NAME, '') AS CHAR) FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION",
                &names,
            )
            .await?;
        let key = self
            .query(
                "SELECT CAST(COLUMN_NAME AS CHAR) FROM information_schema.STATISTICS WHERE \
                 TABLE_SCHEMA = ? AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX",
                &names,
            )
            .await?;
        let columns = columns
            .iter()
            .map(|row| Ok([text(row, 0)?, text(row, 1)?, text(row, 2)?, text(row, 3)?]));
        let columns = columns.collect::<Result<Vec<[String; 4]>, SnapshotError>>()?;
        let key = key
            .iter()
            .map(|row| text(row, 0))
            .collect::<Result<Vec<String>, _>>()?;
        TableColumns::new(&format!("{schema}.{table}"), columns, &key)
    }

    /// The first rows behind a key, in one consistent snapshot, with its position in the binlog.
    pub(super) async fn rows(
        &mut self,
        (schema, table): (&str, &str),
        columns: &TableColumns,
        after: Option<&Key>,
        limit: u32,
    ) -> Result<Rows, SnapshotError> {
        self.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", &[])
            .await?;
        let at = self.position().await?;
        let (rows, last) = self.chunk((schema, table), columns, after, limit).await?;
        self.query("COMMIT", &[]).await?;
        Ok(Rows { at, rows, last })
    }

    /// The first rows behind a key, and whether they are the table's last.
    pub(super) async fn chunk(
        &mut self,
        (schema, table): (&str, &str),
        columns: &TableColumns,
        after: Option<&Key>,
        limit: u32,
    ) -> Result<(Vec<Vec<wire::Column>>, bool), SnapshotError> {
        let (condition, values) = columns.behind(after);
        let sql = format!(
            "SELECT {} FROM {}.{}{condition} ORDER BY {} LIMIT {limit}",
            columns.expressions(),
            quoted(schema),
            quoted(table),
            columns.order(),
        );
        let values: Vec<_> = values.into_iter().map(Value::Key).collect();
        let found = self.query(&sql, &values).await?;
        let last = u32::try_from(found.len()).is_ok_and(|count| count < limit);
        let rows = found
            .iter()
            .map(|row| columns.row(|index| optional(row, index)));
        Ok((rows.collect::<Result<_, _>>()?, last))
    }

    /// Where the binlog is at this snapshot, for display. MySQL does not tell.
    async fn position(&mut self) -> Result<ReadAt, SnapshotError> {
        let mut at = ReadAt {
            server_id: self.server_id,
            time: now(),
            ..ReadAt::default()
        };
        if let Some((journal, offset)) = self.binlog_of_snapshot().await? {
            (at.journal, at.offset) = (journal, offset);
        }
        Ok(at)
    }

    /// Where the binlog was when the transaction's snapshot was taken, if the server tells.
    async fn binlog_of_snapshot(&mut self) -> Result<Option<(String, i64)>, SnapshotError> {
        let rows = self
            .query("SHOW STATUS LIKE 'binlog_snapshot_%'", &[])
            .await?;
        let (mut journal, mut offset) = (String::new(), None);
        for row in rows {
            let (name, value): (String, String) = (text(&row, 0)?, text(&row, 1)?);
            match name.to_ascii_lowercase().as_str() {
                "binlog_snapshot_file" => journal = value,
                "binlog_snapshot_position" => offset = value.parse().ok(),
                _ => {}
            }
        }
        Ok(offset
            .filter(|_| !journal.is_empty())
            .map(|offset| (journal, offset)))
    }

    async fn query(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<MySqlRow>, SnapshotError> {
        if values.is_empty() {
            // As text: not every statement can be prepared.
            let query = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
            return within(self.timeout, query.fetch_all(&mut self.connection)).await;
        }
        let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
        let query = values.iter().fold(query, |query, value| value.bind(query));
        within(self.timeout, query.fetch_all(&mut self.connection)).await
    }
}

/// A statement's argument.
#[derive(Clone, Copy)]
enum Value<'a> {
    Text(&'a str),
    Key(&'a KeyValue),
}

type Query<'q> = sqlx::query::Query<'q, sqlx::MySql, MySqlArguments>;

impl Value<'_> {
    fn bind<'q>(&self, query: Query<'q>) -> Query<'q> {
        match self {
            Self::Text(text) => query.bind((*text).to_owned()),
            Self::Key(KeyValue::Signed(number)) => query.bind(*number),
            Self::Key(KeyValue::Unsigned(number)) => query.bind(*number),
            Self::Key(KeyValue::Bytes(bytes)) => query.bind(bytes.clone()),
            Self::Key(KeyValue::Text(text) | KeyValue::PaddedText(text)) => {
                query.bind(text.clone())
            }
        }
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, SnapshotError> {
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(SnapshotError::Database(error.to_string())),
        Err(_) => Err(SnapshotError::Database(format!(
            "no answer within {limit:?}"
        ))),
    }
}

fn text(row: &MySqlRow, index: usize) -> Result<String, SnapshotError> {
    Ok(optional(row, index)?.unwrap_or_default())
}

fn optional(row: &MySqlRow, index: usize) -> Result<Option<String>, SnapshotError> {
    // Unchecked: a server's own tables give text as several types.
    let text = row.try_get_unchecked(index);
    text.map_err(|error| SnapshotError::Database(error.to_string()))
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Milliseconds since 1970.
fn now() -> i64 {
    let elapsed = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
