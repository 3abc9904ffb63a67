//! A value that is shown, and its unit.

use serde::{Deserialize, Serialize};

/// A value to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum StatusValue {
    /// Yes or no.
    Flag(bool),
    /// A count, or a size; its [`Unit`] says which.
    Count(u64),
    /// A measure.
    Number(f64),
    /// Text.
    Text(String),
}

impl StatusValue {
    /// The value as a number, if it is one. Counts beyond 2^53 lose their last digits.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for plots")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            Self::Flag(_) | Self::Text(_) => None,
        }
    }
}

/// What a number counts or measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unit {
    /// Things that the label names, or text.
    #[default]
    None,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Things a second.
    PerSecond,
    /// A moment: milliseconds since the Unix epoch.
    UnixMilliseconds,
}

impl Unit {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl From<bool> for StatusValue {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl From<u64> for StatusValue {
    fn from(value: u64) -> Self {
        Self::Count(value)
    }
}

impl From<u32> for StatusValue {
    fn from(value: u32) -> Self {
        Self::Count(value.into())
    }
}

impl From<usize> for StatusValue {
    fn from(value: usize) -> Self {
        Self::Count(u64::try_from(value).unwrap_or(u64::MAX))
    }
}

impl From<f64> for StatusValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<String> for StatusValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for StatusValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}
