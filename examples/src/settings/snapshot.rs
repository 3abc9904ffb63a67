//! `[snapshot]`: rows from before, read from the database that Canal follows.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use lockkeeper_canal::{CanalConnectorSettings, snapshot};
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use super::secret::Secret;

/// How rows and changes are put together; see [`snapshot::SnapshotMode`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// As of one moment, without a lock: MariaDB and Percona Server.
    #[default]
    OneMoment,
    /// As of one moment, by a short lock of all tables: MySQL.
    OneMomentByReadLock,
    /// Chunk by chunk between watermarks, while changes go on.
    Watermarks,
}

impl From<Mode> for snapshot::SnapshotMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::OneMoment => Self::OneMoment,
            Mode::OneMomentByReadLock => Self::OneMomentByReadLock,
            Mode::Watermarks => Self::Watermarks,
        }
    }
}

/// See [`SnapshotDatabase`](snapshot::SnapshotDatabase) and
/// [`SnapshotSettings`](snapshot::SnapshotSettings).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotSettings {
    /// The database, `host:port`: the one that Canal's server follows.
    pub database: Option<String>,
    /// The user there.
    pub user: String,
    /// A file whose first line is the user's password.
    pub password_file: Option<PathBuf>,
    /// The password; by the environment only.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// The zone in which `timestamp` columns are read; none: the database's.
    pub time_zone: Option<String>,
    /// From a statement to its answer.
    pub timeout: Duration,
    /// The tables, `schema.table`, in this order.
    pub tables: Vec<String>,
    /// How rows and changes are put together.
    pub mode: Mode,
    /// Rows of a chunk.
    pub chunk_rows: u32,
    /// The table of the watermarks, `schema.table`; none: `lockkeeper_watermarks` beside the first.
    pub watermarks: Option<String>,
    /// The name of this snapshot's row there.
    pub name: String,
    /// For how long nothing may come while a watermark is waited for.
    pub marker_timeout: Duration,
    /// The first pause before the database is asked again; it doubles.
    pub first_back_off: Duration,
    /// The longest.
    pub longest_back_off: Duration,
    /// How often in a row a chunk may be read in vain.
    pub retry_limit: u32,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        Self {
            database: None,
            user: "canal".to_owned(),
            password_file: None,
            password: None,
            time_zone: None,
            timeout: Duration::from_secs(60),
            tables: Vec::new(),
            mode: Mode::default(),
            chunk_rows: 2_000,
            watermarks: None,
            name: "snapshot".to_owned(),
            marker_timeout: Duration::from_secs(30),
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(10),
            retry_limit: 10,
        }
    }
}

impl SnapshotSettings {
    /// What is read from.
    ///
    /// # Errors
    /// No database, or one without a port; a password file that can't be read.
    pub fn database(&self) -> anyhow::Result<snapshot::SnapshotDatabase> {
        let address = self.database.as_ref();
        let address = address.context("snapshot.database must be set: HOST:PORT")?;
        let password = Secret::given(self.password.as_ref(), self.password_file.as_deref())?;
        let password = password.as_ref().map_or("", Secret::reveal);
        let database = snapshot::SnapshotDatabase::new(address, &self.user, password)?
            .with_timeout(self.timeout);
        Ok(match &self.time_zone {
            Some(zone) => database.with_time_zone(zone),
            None => database,
        })
    }

    /// What is read, with changes that come by a connector like that.
    #[must_use]
    pub fn snapshot(&self, connector: CanalConnectorSettings) -> snapshot::SnapshotSettings {
        let tables = self.tables.iter().filter_map(|name| table(name));
        let settings = snapshot::SnapshotSettings::new(tables)
            .with_mode(self.mode.into())
            .with_connector(connector)
            .with_chunk_rows(self.chunk_rows)
            .with_name(&self.name)
            .with_marker_timeout(self.marker_timeout)
            .with_retry(self.first_back_off, self.longest_back_off, self.retry_limit);
        match self.watermarks.as_deref().and_then(table) {
            Some((schema, table)) => settings.with_watermarks(schema, table),
            None => settings,
        }
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        if let Some(address) = &self.database {
            let port = address.rsplit_once(':').map(|(_, port)| port);
            let is_one = port.is_some_and(|port| port.parse::<u16>().is_ok());
            rules.must("snapshot.database", is_one, "must be host:port");
        }
        rules.text("snapshot.user", &self.user, 128);
        let named = self.tables.iter().all(|name| table(name).is_some());
        rules.must("snapshot.tables", named, "must name tables as schema.table");
        let mut tables = self.tables.clone();
        tables.sort();
        let twice = tables.windows(2).any(|pair| pair[0] == pair[1]);
        rules.must("snapshot.tables", !twice, "must name each table once");
        let marks = self.watermarks.as_deref();
        let is_one = marks.is_none_or(|name| table(name).is_some());
        rules.must("snapshot.watermarks", is_one, "must be schema.table");
        rules.within("snapshot.chunk_rows", self.chunk_rows, 1..=1_000_000);
        rules.text("snapshot.name", &self.name, 64);
        rules.time("snapshot.timeout", self.timeout);
        rules.time("snapshot.marker_timeout", self.marker_timeout);
        rules.time("snapshot.first_back_off", self.first_back_off);
        let times = self.first_back_off..=Duration::from_secs(86_400);
        rules.times("snapshot.longest_back_off", self.longest_back_off, times);
    }
}

/// `schema.table`, each with a name.
fn table(name: &str) -> Option<(&str, &str)> {
    let (schema, table) = name.split_once('.')?;
    (!schema.is_empty() && !table.is_empty()).then_some((schema, table))
}
