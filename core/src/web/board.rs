//! Everything that is shown, as of one moment.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    events::{EventLog, Happened},
    history::History,
};
use crate::status::{
    Level, Plot, StatusAction, StatusKind, StatusRegistry, StatusSeries, StatusSnapshot,
    StatusSource, Unit, now_unix_ms,
};

/// Sources that are shown; of others only their number.
const SOURCES: usize = 500;

/// How everything was at one moment.
#[derive(Debug, Default, Serialize)]
pub(super) struct Board {
    pub(super) at_unix_ms: u64,
    pub(super) ready: bool,
    /// Why not.
    pub(super) reasons: Vec<Reason>,
    pub(super) sources: Vec<Shown>,
    /// Sources beyond the limit.
    pub(super) more_sources: usize,
    /// Newest first.
    pub(super) events: Vec<Happened>,
}

/// Why a part is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    pub(super) source: String,
    pub(super) reason: String,
}

/// One source.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) snapshot: StatusSnapshot,
    /// What the console has seen of the facts whose course is drawn.
    pub(super) plots: Vec<StatusSeries>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<StatusAction>,
}

impl Shown {
    fn place(&self) -> (StatusKind, &str) {
        (self.snapshot.kind, &self.name)
    }
}

/// Asks the sources.
#[derive(Default)]
pub(super) struct Gatherer {
    events: EventLog,
    history: History,
    last: Option<(Instant, Arc<Board>)>,
    begun: Option<Instant>,
    /// Whether anything can be done by this console.
    offers_actions: bool,
}

impl Gatherer {
    pub(super) fn new(offers_actions: bool) -> Self {
        Self {
            offers_actions,
            ..Self::default()
        }
    }

    /// How everything is, as of now or not longer ago than `age`.
    pub(super) fn gather(&mut self, registry: &StatusRegistry, age: Duration) -> Arc<Board> {
        let now = Instant::now();
        if let Some((at, board)) = &self.last
            && now.duration_since(*at) < age
        {
            return Arc::clone(board);
        }
        let sources = named(registry);
        // Some sources take up what has happened while they are asked how they are.
        self.events.listen(&sources);
        let mut board = Board {
            more_sources: sources.len().saturating_sub(SOURCES),
            ..Board::default()
        };
        for (name, source) in sources.into_iter().take(SOURCES) {
            let shown = self.show(name, source.as_ref());
            board
                .reasons
                .extend(shown.snapshot.unready.as_ref().map(|reason| Reason {
                    source: shown.name.clone(),
                    reason: reason.clone(),
                }));
            board.sources.push(shown);
        }
        board.ready = board.reasons.is_empty();
        // Parts of one kind stand together; one that is started again keeps its place.
        board
            .sources
            .sort_by(|one, other| one.place().cmp(&other.place()));
        self.events.collect();
        board.events = self.events.newest();
        board.at_unix_ms = now_unix_ms();
        let board = Arc::new(board);
        self.last = Some((now, Arc::clone(&board)));
        board
    }

    /// Takes the next value of each plot.
    pub(super) fn sample(&mut self, board: &Board) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let now = begun.elapsed();
        self.history.begin();
        for shown in &board.sources {
            for fact in &shown.snapshot.facts {
                if fact.plot != Plot::None {
                    self.history.take(now, &shown.name, fact);
                }
            }
        }
        self.history.end();
    }

    fn show(&self, name: String, source: &dyn StatusSource) -> Shown {
        // A source that panics must not take the page of all others with it.
        let told = catch_unwind(AssertUnwindSafe(|| {
            let control = self.offers_actions.then(|| source.control()).flatten();
            let actions = control.map(|control| control.actions());
            (source.snapshot(), actions.unwrap_or_default())
        }));
        let (snapshot, actions) = told.unwrap_or_else(|_| {
            let reason = "it panicked when it was asked".to_owned();
            let broken = StatusSnapshot::default()
                .with_state("no answer", Level::Bad)
                .with_unready(Some(reason));
            (broken, Vec::new())
        });
        let drawn = snapshot.facts.iter().filter(|fact| fact.plot != Plot::None);
        let plots = drawn.map(|fact| StatusSeries {
            label: fact.label.clone(),
            unit: match fact.plot {
                Plot::Rate => Unit::PerSecond,
                _ => fact.unit,
            },
            points: self.history.points(&name, &fact.label),
        });
        Shown {
            plots: plots.collect(),
            name,
            snapshot,
            actions,
        }
    }
}

/// The sources, each under a name of its own: the second `a` is `a (2)`.
pub(super) fn named(registry: &StatusRegistry) -> Vec<(String, Arc<dyn StatusSource>)> {
    let mut seen = HashMap::<String, usize>::new();
    let sources = registry.sources().into_iter().map(|source| {
        let name = source.name();
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        let name = if *times == 1 {
            name
        } else {
            format!("{name} ({times})")
        };
        (name, source)
    });
    sources.collect()
}
