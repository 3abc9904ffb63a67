//! What is wrong with a setting: which one, where it was written, what it must be.

use std::fmt;

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A file, and the line if it is known.
    File {
        /// The file as it was named.
        file: String,
        /// From 1.
        line: Option<usize>,
    },
    /// An environment variable.
    Environment(String),
    /// A flag on the command line.
    Flag(String),
    /// The program's own.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line: None } => f.write_str(file),
            Self::File {
                file,
                line: Some(line),
            } => write!(f, "{file}:{line}"),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => f.write_str(flag),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting that can't be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {}{what}", prefix(.key))]
pub struct SettingsError {
    /// Where it was written.
    pub place: Place,
    /// Which one, as `section.key`; empty for a file that is none.
    pub key: String,
    /// What is wrong with it, and what it must be.
    pub what: String,
}

fn prefix(key: &str) -> String {
    match key {
        "" => String::new(),
        key => format!("{key} "),
    }
}
