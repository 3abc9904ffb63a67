//! One transaction that sees all tables as of one moment, together with its place in the binlog.

use std::time::Duration;

use super::{Database, quoted, text};
use crate::snapshot::entries::ReadAt;
use crate::snapshot::error::SnapshotError;
use crate::snapshot::moment::Moment;
use crate::snapshot::settings::SnapshotDatabase;

/// Between two looks whether the database's clock has gone on to the next second.
const LOOK: Duration = Duration::from_millis(50);

/// How long its clock may take to the next second: more, and it was set back.
const CLOCK_LIMIT: Duration = Duration::from_secs(30);

/// For how long writes may wait for the read lock, in seconds.
const LOCK_LIMIT: u32 = 5;

impl Database {
    /// Begins the transaction. With a read lock for that moment, or without.
    ///
    /// It takes a second or two: until it is known that the binlog was not rotated in the same
    /// second, which [`Moment`] asks for.
    pub(in crate::snapshot) async fn begin_moment(
        &mut self,
        settings: &SnapshotDatabase,
        by_lock: bool,
    ) -> Result<Moment, SnapshotError> {
        // With another level the server would begin no snapshot.
        self.query(
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            &[],
        )
        .await?;
        let from = self.seconds().await?;
        let (before, _) = self.binlog(by_lock).await?;
        let (journal, offset) = match by_lock {
            true => self.begin_under_lock().await?,
            false => self.begin_snapshot().await?,
        };
        let until = self.seconds().await?;
        let mut other = Self::connect(settings).await?;
        let later = async {
            while other.seconds().await? <= until {
                tokio::time::sleep(LOOK).await;
            }
            Ok(())
        };
        tokio::time::timeout(CLOCK_LIMIT, later)
            .await
            .unwrap_or_else(|_| {
                let stands = "its clock stands still, or was set back, while the snapshot began";
                Err(SnapshotError::Database(stands.to_owned()))
            })?;
        let (after, _) = other.binlog(by_lock).await?;
        if before != journal || after != journal {
            return Err(SnapshotError::Database(format!(
                "the binlog was rotated while the snapshot began: {before}, {journal}, {after}"
            )));
        }
        Ok(Moment {
            journal,
            offset,
            from: from.saturating_mul(1000),
            until: until.saturating_mul(1000),
        })
    }

    /// What is said of rows of this moment.
    pub(in crate::snapshot) fn read_at(&self, moment: &Moment) -> ReadAt {
        ReadAt {
            journal: moment.journal.clone(),
            offset: moment.offset,
            server_id: self.server_id,
            time: moment.from,
        }
    }

    /// Holds a table as it is: until the transaction's end it is not altered. Fails if it was
    /// altered since the transaction began, or if its engine takes no part in transactions.
    pub(in crate::snapshot) async fn hold(
        &mut self,
        (schema, table): (&str, &str),
    ) -> Result<(), SnapshotError> {
        let names = [super::Value::Text(schema), super::Value::Text(table)];
        let found = self
            .query(
                "SELECT CAST(tables.ENGINE AS CHAR), CAST(engines.TRANSACTIONS AS CHAR) FROM \
                 information_schema.TABLES tables LEFT JOIN information_schema.ENGINES engines ON \
                 engines.ENGINE = tables.ENGINE WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
                &names,
            )
            .await?;
        let table_name = format!("{schema}.{table}");
        let Some(found) = found.first() else {
            return Err(SnapshotError::NoTable { table: table_name });
        };
        let (engine, transactions) = (text(found, 0)?, text(found, 1)?);
        if transactions != "YES" {
            return Err(SnapshotError::Engine {
                table: table_name,
                engine,
            });
        }
        let sql = format!("SELECT 1 FROM {}.{} LIMIT 0", quoted(schema), quoted(table));
        self.query(&sql, &[]).await.map(drop)
    }

    /// Ends the transaction.
    pub(in crate::snapshot) async fn end_moment(&mut self) -> Result<(), SnapshotError> {
        self.query("COMMIT", &[]).await.map(drop)
    }

    /// The database's clock.
    async fn seconds(&mut self) -> Result<i64, SnapshotError> {
        let rows = self
            .query("SELECT CAST(UNIX_TIMESTAMP() AS CHAR)", &[])
            .await?;
        let seconds = rows.first().map(|row| text(row, 0)).transpose()?;
        let seconds = seconds.and_then(|seconds| seconds.parse().ok());
        seconds.ok_or_else(|| SnapshotError::Database("it tells no time".to_owned()))
    }

    /// Where the binlog is now.
    async fn binlog(&mut self, by_lock: bool) -> Result<(String, i64), SnapshotError> {
        if by_lock {
            return self.end_of_binlog().await;
        }
        let place = self.begin_snapshot().await?;
        self.end_moment().await?;
        Ok(place)
    }

    async fn begin_snapshot(&mut self) -> Result<(String, i64), SnapshotError> {
        self.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", &[])
            .await?;
        let place = self.binlog_of_snapshot().await?;
        place.ok_or(SnapshotError::Setting {
            setting: "binlog_snapshot_file",
            value: "not there".to_owned(),
            wanted: "told by SHOW STATUS, or the mode OneMomentByReadLock or Watermarks",
        })
    }

    /// A failure leaves the lock to the connection's end: who gets an error drops it.
    async fn begin_under_lock(&mut self) -> Result<(String, i64), SnapshotError> {
        let limit = format!("SET SESSION lock_wait_timeout = {LOCK_LIMIT}");
        self.query(&limit, &[]).await?;
        self.query("FLUSH TABLES WITH READ LOCK", &[]).await?;
        self.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", &[])
            .await?;
        let place = self.end_of_binlog().await?;
        self.query("UNLOCK TABLES", &[]).await?;
        Ok(place)
    }

    async fn end_of_binlog(&mut self) -> Result<(String, i64), SnapshotError> {
        // Its name since MySQL 8.4, which has no other, and its name before.
        let mut rows = self.query("SHOW BINARY LOG STATUS", &[]).await;
        if rows.is_err() {
            rows = self.query("SHOW MASTER STATUS", &[]).await;
        }
        let rows = rows?;
        let place = match rows.first() {
            Some(row) => (text(row, 0)?, text(row, 1)?.parse().ok()),
            None => (String::new(), None),
        };
        let place = place.1.map(|offset| (place.0, offset));
        place.ok_or_else(|| SnapshotError::Database("it tells no place in its binlog".to_owned()))
    }
}
