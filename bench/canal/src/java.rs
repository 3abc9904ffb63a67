//! Canal's own Java client, if it is there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::client::{Drain, Mode};
use crate::driver::result;

/// The compiled program and its jars.
pub struct Java {
    class_path: String,
}

impl Java {
    /// Compiles it.
    pub fn compile(target: &Path) -> Result<Self, Failure> {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let jars = Command::new(here.join("../../tests/services/jars"))
            .stderr(Stdio::inherit())
            .output()?;
        if !jars.status.success() {
            return Err("tests/services/jars failed".into());
        }
        let jars = String::from_utf8(jars.stdout)?;
        let classes = target.join("bench-canal-java");
        std::fs::create_dir_all(&classes)?;
        let class_path = format!("{}/*", jars.trim());
        let compiled = Command::new("javac")
            .args(["-cp", &class_path, "-d"])
            .arg(&classes)
            .arg(here.join("java/Drain.java"))
            .status()?;
        if !compiled.success() {
            return Err("javac failed".into());
        }
        let class_path = format!("{}:{class_path}", classes.display());
        Ok(Self { class_path })
    }

    pub fn drain(&self, mode: Mode, address: &str, entries: u64) -> Result<Drain, Failure> {
        let mut command = Command::new("java");
        command
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-cp", &self.class_path])
            .args(["Drain", mode.name(), address, &entries.to_string()]);
        result(command)
    }
}
