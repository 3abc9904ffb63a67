//! What happened to a part of a program.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::Level;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusEvent {
    /// Milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// What happened, in one line.
    pub text: String,
    /// Whether it was good.
    #[serde(default, skip_serializing_if = "Level::is_neutral")]
    pub level: Level,
}

impl StatusEvent {
    /// Something that happens now.
    #[must_use]
    pub fn now(text: impl Into<String>) -> Self {
        Self {
            at_unix_ms: now_unix_ms(),
            text: text.into(),
            level: Level::Neutral,
        }
    }

    /// The event, good or bad.
    #[must_use]
    pub fn with_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }
}

/// Now, as [`Unit::UnixMilliseconds`](super::Unit::UnixMilliseconds) counts: by the system's clock, which may be set. For
/// people: no rule should read it. 0 before 1970.
#[must_use]
pub fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
