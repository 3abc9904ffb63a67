//! The programs of the peers: this one in another role, those beside it, and Flink's.

use std::path::{Path, PathBuf};
use std::process::Command;

use bench_harness::{Failure, maven};

/// Where a peer's roles are found.
pub enum Program {
    /// This program with the peer's name behind the role.
    Own,
    /// A program of its own.
    Beside(PathBuf),
    /// Flink, by its class path.
    Flink(String),
}

impl Program {
    /// The peer's program; an error says how it is to be had.
    pub fn of(peer: &str) -> Result<Self, Failure> {
        match peer {
            "raw" | "lockkeeper" | "lockkeeper-shared" | "actix" => Ok(Self::Own),
            "flink" => {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers/flink");
                maven::class_path(&folder).map(Self::Flink)
            }
            other => {
                let program =
                    std::env::current_exe()?.with_file_name(format!("bench-peer-{other}"));
                if program.exists() {
                    Ok(Self::Beside(program))
                } else {
                    Err(format!("{} is not built: cargo build --release", program.display()).into())
                }
            }
        }
    }

    /// The command for a role of the peer.
    pub fn command(&self, role: &str, peer: &str) -> Result<Command, Failure> {
        Ok(match self {
            Self::Own => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args([role, peer]);
                command
            }
            Self::Beside(program) => {
                let mut command = Command::new(program);
                command.arg(role);
                command
            }
            Self::Flink(class_path) => {
                let mut command = Command::new("java");
                command
                    .args(["-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"])
                    .args(["--add-opens=java.base/java.util=ALL-UNNAMED"])
                    .args(["--add-opens=java.base/java.lang=ALL-UNNAMED"])
                    .args(["-cp", class_path, "org.apache.flink.bench.Main", role]);
                command
            }
        })
    }
}
