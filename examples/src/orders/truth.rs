//! What the output must be equal to, and how the judge gets it: `DIR/truth.json`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::account::Account;
use super::database::{self, TableName};
use super::judge::{Verdict, judge};
use super::script;
use crate::signals::Signals;
use crate::{note, say};

/// Where the truth comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// The script of the embedded source, computed anew from its seed.
    Script {
        /// The seed.
        seed: u64,
        /// Number of row changes.
        rows: u64,
    },
    /// The table itself, and the loader's log for the number of changes.
    Sql {
        /// `mysql://user@host:port`, without the password.
        url: String,
        /// The table.
        table: TableName,
        /// The loader's log.
        log: PathBuf,
    },
}

impl Truth {
    /// Writes `DIR/truth.json`.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, data: &Path) -> anyhow::Result<()> {
        Ok(std::fs::write(
            data.join("truth.json"),
            serde_json::to_vec_pretty(self)?,
        )?)
    }

    /// Reads `DIR/truth.json`.
    ///
    /// # Errors
    /// When there is none: the folder holds no job that was started with a truth.
    pub fn read(data: &Path) -> anyhow::Result<Self> {
        let path = data.join("truth.json");
        let bytes = std::fs::read(&path)
            .with_context(|| format!("{}: no truth to compare with", path.display()))?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// The accounts that the job must have ended with.
    ///
    /// # Errors
    /// The database's own.
    pub async fn accounts(&self) -> anyhow::Result<HashMap<String, Account>> {
        match self {
            Self::Script { seed, rows } => {
                let (seed, rows) = (*seed, *rows);
                Ok(spawn_blocking(move || script::accounts(seed, rows)).await?)
            }
            Self::Sql { url, table, log } => {
                let mut connection = database::connect(url).await?;
                database::accounts(&mut connection, table, log).await
            }
        }
    }
}

/// Compares the output in `data` with the truth that it names.
async fn compare(data: &Path) -> anyhow::Result<Verdict> {
    let truth = Truth::read(data)?.accounts().await?;
    let data = data.to_owned();
    spawn_blocking(move || judge(&data, &truth)).await?
}

/// The judge's whole program: prints its verdict on the output in `data` as one JSON object. Exit
/// code 0: equal to the truth, 1: not equal, 2: something can't be read. A signal ends it without a
/// verdict, which it says instead, with code 0; work on another thread may go on then.
pub async fn verify(data: &Path) -> ExitCode {
    let verdict = async {
        let mut signals = Signals::take()?;
        tokio::select! {
            verdict = compare(data) => verdict.map(Some),
            () = signals.next() => Ok(None),
        }
    };
    let said = verdict.await.and_then(|verdict| {
        match &verdict {
            Some(verdict) => say!("{}", serde_json::to_string(verdict)?),
            None => say!("stopped by a signal: nothing was compared"),
        }
        Ok(verdict)
    });
    match said {
        Ok(verdict) => {
            let is_wrong = verdict.is_some_and(|verdict| !verdict.is_right());
            ExitCode::from(u8::from(is_wrong))
        }
        Err(error) => {
            note!("orders-verify: {error:#}");
            ExitCode::from(2)
        }
    }
}
