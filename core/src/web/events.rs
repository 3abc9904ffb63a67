//! The last events of all sources.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use serde::Serialize;
use tokio::sync::broadcast::{self, error::TryRecvError};

use crate::status::{Level, StatusEvent, StatusSource};

/// Events that are kept.
const KEPT: usize = 200;
/// Events that are taken of one source at a time: one that tells without end must not hold up the
/// others.
const AT_ONCE: usize = 1_000;

/// An event with where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Happened {
    /// Grows with each event of this console.
    pub(super) number: u64,
    pub(super) source: String,
    #[serde(flatten)]
    pub(super) event: StatusEvent,
}

/// Listens to every source from when it is first seen.
#[derive(Default)]
pub(super) struct EventLog {
    listening: HashMap<usize, Listening>,
    kept: VecDeque<Happened>,
    number: u64,
}

struct Listening {
    /// Keeps its place in memory from being another source's meanwhile.
    source: Weak<dyn StatusSource>,
    events: Option<broadcast::Receiver<StatusEvent>>,
    name: String,
}

impl EventLog {
    /// Begins to listen to sources that are new.
    pub(super) fn listen(&mut self, sources: &[(String, Arc<dyn StatusSource>)]) {
        for (name, source) in sources {
            let place = Arc::as_ptr(source).cast::<()>().addr();
            self.listening.entry(place).or_insert_with(|| Listening {
                source: Arc::downgrade(source),
                events: source.events(),
                name: name.clone(),
            });
        }
    }

    /// Takes what the sources have told since, and forgets those that are gone, after their last
    /// words.
    pub(super) fn collect(&mut self) {
        let mut told = Vec::new();
        self.listening.retain(|_, one| {
            told.extend(take(one));
            one.source.strong_count() > 0
        });
        self.keep(told);
    }

    /// The kept events, newest first.
    pub(super) fn newest(&self) -> Vec<Happened> {
        self.kept.iter().rev().cloned().collect()
    }

    fn keep(&mut self, mut told: Vec<(String, StatusEvent)>) {
        // Each source's own are in order.
        told.sort_by_key(|(_, event)| event.at_unix_ms);
        for (source, event) in told {
            self.number += 1;
            self.kept.push_back(Happened {
                number: self.number,
                source,
                event,
            });
        }
        while self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }
}

fn take(one: &mut Listening) -> Vec<(String, StatusEvent)> {
    let Some(events) = &mut one.events else {
        return Vec::new();
    };
    let mut told = Vec::new();
    for _ in 0..AT_ONCE {
        match events.try_recv() {
            Ok(event) => told.push((one.name.clone(), event)),
            Err(TryRecvError::Lagged(missed)) => {
                let text = format!("{missed} events were missed: they came too fast");
                let event = StatusEvent::now(text).with_level(Level::Warning);
                told.push((one.name.clone(), event));
            }
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Closed) => {
                one.events = None;
                break;
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::StatusSnapshot;

    struct Source(broadcast::Sender<StatusEvent>);

    impl StatusSource for Source {
        fn name(&self) -> String {
            "source".into()
        }

        fn snapshot(&self) -> StatusSnapshot {
            StatusSnapshot::default()
        }

        fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
            Some(self.0.subscribe())
        }
    }

    fn source() -> (broadcast::Sender<StatusEvent>, Arc<dyn StatusSource>) {
        let sender = broadcast::Sender::new(8);
        (sender.clone(), Arc::new(Source(sender)))
    }

    fn texts(log: &EventLog) -> Vec<String> {
        let newest = log.newest().into_iter();
        newest.map(|happened| happened.event.text).collect()
    }

    #[test]
    fn the_last_words_of_a_source_are_kept_and_a_slow_console_says_what_it_missed() {
        let mut log = EventLog::default();
        let (sender, source) = source();
        let sources = vec![("source".to_owned(), source)];
        log.listen(&sources);
        for number in 0..10 {
            let _ = sender.send(StatusEvent::now(number.to_string()));
        }
        log.collect();
        let missed = "2 events were missed: they came too fast";
        assert!(texts(&log).contains(&missed.to_owned()));
        let _ = sender.send(StatusEvent::now("last words"));
        drop(sources);
        log.collect();
        assert_eq!(texts(&log)[0], "last words");
        assert!(log.listening.is_empty());
    }

    #[test]
    fn events_are_numbered_and_bounded() {
        let mut log = EventLog::default();
        let (sender, source) = source();
        let sources = vec![("source".to_owned(), source)];
        log.listen(&sources);
        for _ in 0..2 * KEPT {
            let _ = sender.send(StatusEvent::now("one more"));
            log.collect();
        }
        let newest = log.newest();
        assert_eq!(newest.len(), KEPT);
        assert!(newest.is_sorted_by(|one, other| one.number > other.number));
    }
}
