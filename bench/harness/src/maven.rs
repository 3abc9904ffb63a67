//! Peers that are written in Java: compiled by Maven, which fetches what they need.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;

/// Compiles the program whose `pom.xml` lies in `folder`, and gives its class path.
///
/// # Errors
/// Without Maven, and when it can't build the program.
pub fn class_path(folder: &Path) -> Result<String, Failure> {
    let list = folder.join("target/class-path");
    let status = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(folder.join("pom.xml"))
        .args(["compile", "dependency:build-classpath"])
        .arg(format!("-Dmdep.outputFile={}", list.display()))
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("Maven is missing: {error}"))?;
    if !status.success() {
        return Err(format!("Maven could not build {}: {status}", folder.display()).into());
    }
    let classes = folder.join("target/classes");
    let libraries = std::fs::read_to_string(list)?;
    Ok(format!("{}:{}", classes.display(), libraries.trim()))
}
