//! What is read, from where, and how.

use std::time::Duration;

use super::error::SnapshotError;
use crate::connector::CanalConnectorSettings;
use crate::filter::Filter;
use crate::identity::Password;

/// The database that is read. It has to be the one that Canal's server follows, not a replica of
/// it: the places in its binlog are compared with those that come through Canal, or watermarks are
/// written to it.
///
/// The connection has no TLS, as Canal's to the database: keep it on a trusted network.
#[derive(Debug, Clone)]
pub struct SnapshotDatabase {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Password,
    pub(super) time_zone: Option<String>,
    pub(super) timeout: Duration,
}

impl SnapshotDatabase {
    /// A database at `host:port`, with a user who may read the tables, and what
    /// [`SnapshotMode`] says.
    ///
    /// # Errors
    /// [`SnapshotError::InvalidArgument`] for an address without a port.
    pub fn new(
        address: &str,
        user: impl Into<String>,
        password: impl Into<Password>,
    ) -> Result<Self, SnapshotError> {
        let parts = address.rsplit_once(':');
        let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let Some((host, port)) = parts else {
            return Err(SnapshotError::InvalidArgument(format!(
                "`{address}` is no address of a database: it must be host:port"
            )));
        };
        Ok(Self {
            host: host.to_owned(),
            port,
            user: user.into(),
            password: password.into(),
            time_zone: None,
            timeout: Duration::from_secs(60),
        })
    }

    /// The time zone in which `timestamp` columns are read, as MySQL names it: `+00:00`,
    /// `Europe/Oslo`. Canal writes them in the zone of its own process; give that one. Default:
    /// the database's.
    #[must_use]
    pub fn with_time_zone(self, time_zone: impl Into<String>) -> Self {
        Self {
            time_zone: Some(time_zone.into()),
            ..self
        }
    }

    /// From a statement to its answer, the read of a chunk among them. Default 60 s.
    #[must_use]
    pub fn with_timeout(self, limit: Duration) -> Self {
        Self {
            timeout: limit,
            ..self
        }
    }
}

/// How rows that are read and changes that come are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SnapshotMode {
    /// All tables are seen as of one moment: they are read in one transaction that begins together
    /// with a place in the binlog. First come all rows, then the changes from that place on; so
    /// after the last row the handler has what the database had at that moment, and from then on
    /// transaction after transaction. Nothing is written and nothing is locked; `SELECT` is all
    /// that the user needs.
    ///
    /// For MariaDB and Percona Server, which tell the place without a lock (`binlog_snapshot_file`);
    /// on others it ends with [`SnapshotError::Setting`]. Tables must be of InnoDB, or of another
    /// engine with transactions. Changes wait at Canal's server, and at the database, while rows are
    /// read; statements that alter the tables wait in the database.
    ///
    /// Canal's server must follow the binlog already when this begins, or have a position of
    /// before: an instance that starts just then may begin behind the moment.
    #[default]
    OneMoment,
    /// The same with `FLUSH TABLES WITH READ LOCK` for the moment of beginning, as MySQL needs it:
    /// all writes wait until the running ones have ended, for some milliseconds or up to 5 s; then
    /// it is given up and tried again. The user needs `SELECT`, `RELOAD` and `REPLICATION CLIENT`.
    OneMomentByReadLock,
    /// Each chunk is of its own moment, and changes go on meanwhile: for tables so large that
    /// changes can't wait until all is read. Around each read a watermark is written to a small
    /// table of the same database ([`SnapshotSettings::with_watermarks`]), and comes back through
    /// Canal: so it is known which changes a read has seen, without comparing positions. Debezium's
    /// and Netflix' DBLog's signals work alike. The user needs `SELECT` on the tables, and `CREATE,
    /// INSERT, UPDATE` on that one.
    Watermarks,
}

/// Which tables are read, and how.
#[derive(Debug, Clone)]
pub struct SnapshotSettings {
    pub(super) mode: SnapshotMode,
    pub(super) tables: Vec<(String, String)>,
    pub(super) also: Filter,
    pub(super) connector: CanalConnectorSettings,
    pub(super) chunk_rows: u32,
    pub(super) watermarks: Option<(String, String)>,
    pub(super) name: String,
    pub(super) marker_timeout: Duration,
    pub(super) first_back_off: Duration,
    pub(super) longest_back_off: Duration,
    pub(super) retry_limit: u32,
}

impl SnapshotSettings {
    /// These tables, as `(schema, table)`, in this order; names as the database writes them.
    pub fn new(tables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        let tables = tables.into_iter();
        Self {
            mode: SnapshotMode::default(),
            tables: tables
                .map(|(schema, table)| (schema.into(), table.into()))
                .collect(),
            also: Filter::keep(),
            connector: CanalConnectorSettings::default(),
            chunk_rows: 2000,
            watermarks: None,
            name: "snapshot".to_owned(),
            marker_timeout: Duration::from_secs(30),
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(10),
            retry_limit: 10,
        }
    }

    /// How rows and changes are put together. Default [`SnapshotMode::OneMoment`]. A snapshot that
    /// was begun as of one moment goes on so after a restart.
    #[must_use]
    pub fn with_mode(self, mode: SnapshotMode) -> Self {
        Self { mode, ..self }
    }

    /// Tables that are followed besides, without their rows of before.
    #[must_use]
    pub fn with_also(self, filter: Filter) -> Self {
        Self {
            also: filter,
            ..self
        }
    }

    /// How the connector to Canal works. Its filter and its window are set here: the tables, with
    /// their watermarks if there are any, and 1.
    #[must_use]
    pub fn with_connector(self, settings: CanalConnectorSettings) -> Self {
        Self {
            connector: settings,
            ..self
        }
    }

    /// Rows of a chunk, which are held in memory and become one batch, or part of one. Default 2000.
    #[must_use]
    pub fn with_chunk_rows(self, rows: u32) -> Self {
        Self {
            chunk_rows: rows,
            ..self
        }
    }

    /// The table that the watermarks of [`SnapshotMode::Watermarks`] are written to; it is made if it
    /// is not there. Default:
    /// `lockkeeper_watermarks` in the first table's schema.
    #[must_use]
    pub fn with_watermarks(self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            watermarks: Some((schema.into(), table.into())),
            ..self
        }
    }

    /// The name of this snapshot's row in the watermarks' table, at most 64 characters: another one
    /// for each that shares the table. Default `snapshot`.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// For how long nothing may come through Canal while a watermark is waited for, before the chunk
    /// is read again. Default 30 s.
    #[must_use]
    pub fn with_marker_timeout(self, limit: Duration) -> Self {
        Self {
            marker_timeout: limit,
            ..self
        }
    }

    /// Waits before the database is asked again, and how often in a row a chunk may be read in vain.
    /// Default 100 ms, doubling, to 10 s; 10 times.
    #[must_use]
    pub fn with_retry(self, first: Duration, longest: Duration, times: u32) -> Self {
        Self {
            first_back_off: first,
            longest_back_off: longest,
            retry_limit: times,
            ..self
        }
    }

    pub(super) fn check(&self) -> Result<(), SnapshotError> {
        let mut names: Vec<_> = self.tables.iter().collect();
        names.sort();
        let wrong = if self.tables.is_empty() {
            "no table is to be read: take a CanalConnector alone"
        } else if names.windows(2).any(|pair| pair[0] == pair[1]) {
            "a table is there twice"
        } else if self.chunk_rows == 0 {
            "a chunk must have at least 1 row"
        } else if self.name.is_empty() || self.name.chars().count() > 64 {
            "the name of a snapshot must have 1 to 64 characters"
        } else if self.marker_timeout.is_zero() || self.first_back_off.is_zero() {
            "the marker's time-out and the first back-off must be longer than zero"
        } else {
            return Ok(());
        };
        Err(SnapshotError::InvalidArgument(wrong.to_owned()))
    }

    /// The watermarks' table.
    pub(super) fn watermarks(&self) -> (String, String) {
        let schema = || self.tables.first().map(|(schema, _)| schema.clone());
        let default = || {
            (
                schema().unwrap_or_default(),
                "lockkeeper_watermarks".to_owned(),
            )
        };
        self.watermarks.clone().unwrap_or_else(default)
    }

    /// What Canal is asked for.
    pub(super) fn filter(&self) -> Filter {
        let tables = self.tables.iter();
        let mut filter = self.also.clone();
        for (schema, table) in tables {
            filter = Filter::table(schema, table).or(filter);
        }
        if self.mode == SnapshotMode::Watermarks {
            let (schema, table) = self.watermarks();
            filter = Filter::table(&schema, &table).or(filter);
        }
        filter
    }
}
