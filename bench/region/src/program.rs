//! The processes of the bench: this program in a role, and the rivals' by Maven.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bench_harness::{Failure, maven};
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::run::Run;

/// What a process of this program is for.
#[derive(Debug, Serialize, Deserialize)]
pub enum Role {
    /// The work as a region.
    Region(Run),
    /// The work as bare actors.
    Bare { tuples: u64, arbiters: usize },
    /// A chain of operators without state: so many rounds one after the other, then some that a period of a second
    /// brings.
    Chain {
        operators: u64,
        rounds: u64,
        seconds: u64,
    },
    /// State of so many MiB, written while it changes.
    Memory { mib: u64 },
    /// A worker of the region in this folder, until it is told to stop.
    Worker { folder: PathBuf },
    /// A coordinator that contends for the region in this folder.
    Coordinator { folder: PathBuf },
}

impl Role {
    /// The command of the process.
    pub fn command(&self) -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(serde_json::to_string(self)?);
        Ok(command)
    }

    /// Runs it and reads what it says at its end.
    pub fn result<T: serde::de::DeserializeOwned>(&self) -> Result<T, Failure> {
        result(self.command()?)
    }
}

/// Says what came of it.
pub fn tell_result(outcome: &impl Serialize) -> Result<(), Failure> {
    println!("RESULT {}", serde_json::to_string(outcome)?);
    Ok(())
}

fn result<T: serde::de::DeserializeOwned>(mut command: Command) -> Result<T, Failure> {
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "));
    let line = line.ok_or_else(|| format!("{command:?} gave no result: {}", output.status))?;
    Ok(serde_json::from_str(line)?)
}

/// A rival that runs in a JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    Flink,
    Jet,
}

/// A rival's program, compiled.
pub struct Compiled {
    rival: Rival,
    class_path: String,
}

impl Rival {
    pub fn name(self) -> &'static str {
        match self {
            Self::Flink => "flink",
            Self::Jet => "jet",
        }
    }

    /// Compiles it by Maven, which fetches the rival itself. `None`, and why on stderr, if it can't be had.
    pub fn compiled(self) -> Option<Compiled> {
        let compiled = self.compile();
        compiled
            .inspect_err(|error| eprintln!("without {}: {error}", self.name()))
            .ok()
    }

    fn compile(self) -> Result<Compiled, Failure> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.name());
        Ok(Compiled {
            rival: self,
            class_path: maven::class_path(&folder)?,
        })
    }
}

impl Compiled {
    /// The work, with a failure at the number `fail_at`.
    pub fn pipeline(
        &self,
        tuples: u64,
        period_ms: u64,
        fail_at: Option<u64>,
    ) -> Result<Outcome, Failure> {
        let (tuples, period) = (tuples.to_string(), period_ms.to_string());
        let keys = crate::work::KEYS.to_string();
        let fail_at = fail_at.map_or("-1".to_owned(), |at| at.to_string());
        let mut command = self.java();
        match self.rival {
            Rival::Flink => {
                let folder = tempfile::tempdir()?;
                command.args(["FlinkRegion", &tuples, &period, &keys, &fail_at]);
                command.arg(folder.path());
                result(command)
            }
            Rival::Jet => {
                command.args(["JetRegion", "pipeline", &tuples, &period, &keys, &fail_at]);
                result(command)
            }
        }
    }

    /// So many processors without state and with next to nothing to do. Jet alone.
    pub fn many(&self, processors: u64, period_ms: u64, seconds: u64) -> Result<Outcome, Failure> {
        let mut command = self.java();
        command.args(["JetRegion", "many"]);
        command.args([processors, period_ms, seconds].map(|it| it.to_string()));
        result(command)
    }

    fn java(&self) -> Command {
        let opened: &[&str] = match self.rival {
            Rival::Flink => &["java.base/java.util", "java.base/java.lang"],
            Rival::Jet => &[
                "java.base/java.lang",
                "java.base/sun.nio.ch",
                "java.management/sun.management",
                "jdk.management/com.sun.management.internal",
            ],
        };
        let mut command = Command::new("java");
        command.args(["-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]);
        command.args(
            opened
                .iter()
                .map(|package| format!("--add-opens={package}=ALL-UNNAMED")),
        );
        if self.rival == Rival::Jet {
            command.arg("--add-modules=java.se");
            command.arg("--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED");
        }
        command.args(["-cp", &self.class_path]);
        command
    }
}
