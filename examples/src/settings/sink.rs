//! `[sink.sql]`: a region's end operators that need settings.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use lockkeeper_consistent_region::sink::SqlSettings;
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use super::secret::Secret;

/// Each kind of sink.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkSettings {
    /// Tables of MariaDB or MySQL.
    pub sql: SqlSinkSettings,
}

impl SinkSettings {
    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        self.sql.check(rules);
    }
}

/// See [`SqlSettings`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SqlSinkSettings {
    /// `mysql://user@host:port/database`, without a password.
    pub url: Option<String>,
    /// A file whose first line is the user's password.
    pub password_file: Option<PathBuf>,
    /// The password; by the environment only.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// Limit of one phase of a cut.
    pub timeout: Duration,
    /// Begins the names of the sink's own tables.
    pub table_prefix: String,
    /// Ask the server whether its answers are durable.
    pub check_durability: bool,
}

impl Default for SqlSinkSettings {
    fn default() -> Self {
        // each field by name: one that is added has to be added here
        let SqlSettings {
            url: _,
            password: _,
            timeout,
            table_prefix,
            check_durability,
        } = SqlSettings::new("");
        Self {
            url: None,
            password_file: None,
            password: None,
            timeout,
            table_prefix,
            check_durability,
        }
    }
}

impl SqlSinkSettings {
    /// For a sink.
    ///
    /// # Errors
    /// No URL; a password file that can't be read.
    pub fn sink(&self) -> anyhow::Result<SqlSettings> {
        let url = self.url.as_ref();
        let url = url.context("sink.sql.url must be set: mysql://USER@HOST:PORT/DATABASE")?;
        let password = Secret::given(self.password.as_ref(), self.password_file.as_deref())?;
        Ok(SqlSettings {
            url: url.clone(),
            password: password.map(|password| password.reveal().to_owned()),
            timeout: self.timeout,
            table_prefix: self.table_prefix.clone(),
            check_durability: self.check_durability,
        })
    }

    fn check(&self, rules: &mut Rules<'_>) {
        if let Some(url) = &self.url {
            let rest = url.strip_prefix("mysql://");
            let key = "sink.sql.url";
            rules.must(key, rest.is_some(), "must begin with mysql://");
            let user = rest.and_then(|rest| rest.rsplit_once('@'));
            let has_password = user.is_some_and(|(user, _)| user.contains(':'));
            let rule = "must not hold a password: name a file with it as sink.sql.password_file";
            rules.must(key, !has_password, rule);
        }
        rules.time("sink.sql.timeout", self.timeout);
        rules.text("sink.sql.table_prefix", &self.table_prefix, 48);
    }
}
