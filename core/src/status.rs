//! What a console shows: each part of a program registers a [`StatusSource`] with its service.
//!
//! A source knows nothing of consoles, and a console nothing of sources: between them stands the
//! small model of [`StatusSnapshot`] (kind, state, facts, tables, a graph, series), which every
//! crate fills and the console (feature `web`) draws.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::broadcast;

pub use self::{
    control::{ActionFuture, StatusAction, StatusControl},
    event::{StatusEvent, now_unix_ms},
    graph::{StatusEdge, StatusGraph, StatusNode},
    snapshot::{
        Level, Plot, StatusFact, StatusKind, StatusSeries, StatusSnapshot, StatusState, StatusTable,
    },
    value::{StatusValue, Unit},
};

mod control;
mod event;
mod graph;
mod snapshot;
mod value;

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

    /// What can be done with it, if anything can. A console offers it only to whoever has the
    /// program's token.
    fn control(&self) -> Option<Arc<dyn StatusControl>> {
        None
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
