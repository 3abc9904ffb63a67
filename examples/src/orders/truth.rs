//! What the output must be equal to, and how the judge gets it: `DIR/truth.json`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::account::Account;
use super::database::{self, TableName};
use super::judge::judge;
use super::script;

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
            Self::Script { seed, rows } => Ok(script::accounts(*seed, *rows)),
            Self::Sql { url, table, log } => {
                let mut connection = database::connect(url).await?;
                database::accounts(&mut connection, table, log).await
            }
        }
    }
}

/// The judge's whole program: prints its verdict on the output in `data` as one JSON object. Exit
/// code 0: equal to the truth, 1: not equal, 2: something can't be read.
pub async fn verify(data: &Path) -> ExitCode {
    let verdict = async {
        let truth = Truth::read(data)?.accounts().await?;
        let verdict = judge(data, &truth)?;
        println!("{}", serde_json::to_string(&verdict)?);
        anyhow::Ok(verdict)
    };
    match verdict.await {
        Ok(verdict) => ExitCode::from(u8::from(!verdict.is_right())),
        Err(error) => {
            eprintln!("orders-verify: {error:#}");
            ExitCode::from(2)
        }
    }
}
