//! What a console shows: each part of a program registers a [`StatusSource`] with its service.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// One part of a program that can tell how it is.
pub trait StatusSource: Send + Sync + 'static {
    /// The part's name, such as `endpoint counter`.
    fn name(&self) -> String;

    /// How it is now. Called often and from any thread: must not block.
    fn snapshot(&self) -> StatusSnapshot;

    /// Events from now on, if the part has any. A slow reader loses the oldest.
    fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
        None
    }
}

/// Named values, in the order in which they are to be shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusSnapshot {
    /// The values.
    pub values: Vec<(String, StatusValue)>,
}

impl StatusSnapshot {
    /// The snapshot with one value more.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<StatusValue>) -> Self {
        self.values.push((name.into(), value.into()));
        self
    }

    /// The first value of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&StatusValue> {
        self.values
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value)
    }
}

/// A value to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum StatusValue {
    /// Yes or no.
    Flag(bool),
    /// A count, or a size in bytes; the name says which.
    Count(u64),
    /// A measure; the name has its unit.
    Number(f64),
    /// Text.
    Text(String),
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

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusEvent {
    /// Milliseconds since the Unix epoch.
    pub at_unix_ms: u64,
    /// What happened, in one line.
    pub text: String,
}

impl StatusEvent {
    /// Something that happens now.
    #[must_use]
    pub fn now(text: impl Into<String>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            at_unix_ms: since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            text: text.into(),
        }
    }
}

/// The sources of one service. Cheap to clone. Holds them weakly: a part that is gone is not shown.
#[derive(Clone, Default)]
pub struct StatusRegistry {
    sources: Arc<Mutex<Vec<Weak<dyn StatusSource>>>>,
}

impl StatusRegistry {
    /// Adds a source, for as long as it lives.
    pub fn register(&self, source: &Arc<dyn StatusSource>) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|known| known.strong_count() > 0);
        sources.push(Arc::downgrade(source));
    }

    /// The living sources, oldest first.
    #[must_use]
    pub fn sources(&self) -> Vec<Arc<dyn StatusSource>> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().filter_map(Weak::upgrade).collect()
    }
}

impl std::fmt::Debug for StatusRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self
            .sources()
            .iter()
            .map(|source| source.name())
            .collect::<Vec<_>>();
        f.debug_tuple("StatusRegistry").field(&names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Source;

    impl StatusSource for Source {
        fn name(&self) -> String {
            "source".into()
        }

        fn snapshot(&self) -> StatusSnapshot {
            StatusSnapshot::default().with("rows", 5_u64)
        }
    }

    #[test]
    fn a_source_is_shown_as_long_as_it_lives() {
        let registry = StatusRegistry::default();
        let source: Arc<dyn StatusSource> = Arc::new(Source);
        registry.register(&source);
        let snapshot = registry.sources()[0].snapshot();
        assert_eq!(snapshot.get("rows"), Some(&StatusValue::Count(5)));
        drop(source);
        assert!(registry.sources().is_empty());
    }
}
