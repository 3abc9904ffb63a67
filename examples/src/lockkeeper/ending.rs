//! How the program ends, and why.

use std::fmt;

use lockkeeper_core::{Outcome, RpcError};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Done, and what was looked at is in order.
    Done,
    /// Refused, came to nothing, or what was looked at is not in order.
    Refused,
    /// The command line can't be carried out: a bad argument, a file that can't be read.
    Usage,
    /// Nobody answers there, or does not let this program in. Nothing was done.
    Unreachable,
    /// It was asked for, and no answer came: it may have been done.
    Unknown,
}

impl Ending {
    /// The exit code.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Unknown => 4,
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) ending: Ending,
    text: String,
}

impl Failure {
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self::new(Ending::Refused, text)
    }

    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self::new(Ending::Usage, text)
    }

    pub(super) fn unreachable(text: impl Into<String>) -> Self {
        Self::new(Ending::Unreachable, text)
    }

    /// What a call that was to change something says about whether it did.
    pub(super) fn of_call(what: &str, error: &RpcError) -> Self {
        let (ending, note) = match error.outcome() {
            Outcome::NotSent => (Ending::Unreachable, ""),
            Outcome::Unknown => (
                Ending::Unknown,
                "; it may have been done: look at the status",
            ),
            _ => (Ending::Refused, ""),
        };
        Self::new(ending, format!("{what}: {error}{note}"))
    }

    fn new(ending: Ending, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { ending, text }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
