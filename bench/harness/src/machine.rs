//! The machine that a bench ran on.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::Failure;

/// In the folder of the results: the machine of each bench by the bench's name.
const FILE: &str = "machines.json";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: f64,
    pub kernel: String,
    pub rustc: String,
}

impl Machine {
    /// This one; what can't be learnt is `?`.
    pub fn here() -> Self {
        let unknown = || "?".to_owned();
        let field = |file: &str, name: &str| -> Option<String> {
            let text = fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field("/proc/meminfo", "MemTotal");
        let memory = memory.and_then(|text| text.strip_suffix(" kB")?.trim().parse::<f64>().ok());
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        let rustc = Command::new("rustc").arg("-V").output().ok();
        let rustc = rustc.and_then(|output| String::from_utf8(output.stdout).ok());
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (memory.unwrap_or(0.0) / f64::from(1 << 20) * 10.0).round() / 10.0,
            kernel: kernel.map_or_else(unknown, |text| text.trim().to_owned()),
            rustc: rustc.map_or_else(unknown, |text| text.trim().to_owned()),
        }
    }

    /// The one that a bench ran on, if that was stored.
    pub fn stored(results: &Path, bench: &str) -> Result<Option<Self>, Failure> {
        Ok(all(results)?.remove(bench))
    }

    pub fn store(&self, results: &Path, bench: &str) -> Result<(), Failure> {
        let mut machines = all(results)?;
        machines.insert(bench.to_owned(), self.clone());
        let text = serde_json::to_string_pretty(&machines)? + "\n";
        Ok(fs::write(results.join(FILE), text)?)
    }
}

fn all(results: &Path) -> Result<BTreeMap<String, Machine>, Failure> {
    match fs::read(results.join(FILE)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cpu,
            cores,
            memory_gib,
            kernel,
            rustc,
        } = self;
        write!(
            f,
            "{cores} cores of {cpu}, {memory_gib} GiB, Linux {kernel}, {rustc}"
        )
    }
}
