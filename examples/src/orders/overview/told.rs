//! A part of another process, as that one tells it.

use std::sync::{Arc, Mutex};

use lockkeeper_core::status::{
    ActionFuture, StatusAction, StatusControl, StatusEvent, StatusSnapshot, StatusSource,
};
use tokio::sync::broadcast;

use super::{Wishes, lock};
use crate::orders::report::Told;

/// Events that a slow reader may be behind.
const EVENTS: usize = 256;

#[derive(Debug)]
pub(super) struct ToldSource {
    process: String,
    /// Its name in its process.
    name: String,
    told: Mutex<(StatusSnapshot, Vec<StatusAction>)>,
    events: broadcast::Sender<StatusEvent>,
    wishes: Arc<Wishes>,
}

impl ToldSource {
    pub(super) fn new(process: &str, name: &str, wishes: Arc<Wishes>) -> Self {
        Self {
            process: process.to_owned(),
            name: name.to_owned(),
            told: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            wishes,
        }
    }

    pub(super) fn tell(&self, told: &Told) {
        *lock(&self.told) = (told.snapshot.clone(), told.actions.clone());
    }

    pub(super) fn happened(&self, event: &StatusEvent) {
        // Nobody listens: nobody is told.
        let _ = self.events.send(event.clone());
    }
}

impl StatusSource for ToldSource {
    fn name(&self) -> String {
        format!("{} · {}", self.process, self.name)
    }

    fn snapshot(&self) -> StatusSnapshot {
        lock(&self.told).0.clone()
    }

    fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
        Some(self.events.subscribe())
    }

    fn control(&self) -> Option<Arc<dyn StatusControl>> {
        let actions = lock(&self.told).1.clone();
        (!actions.is_empty()).then(|| {
            let control = ToldControl {
                process: self.process.clone(),
                name: self.name.clone(),
                actions,
                wishes: Arc::clone(&self.wishes),
            };
            Arc::new(control) as Arc<dyn StatusControl>
        })
    }
}

struct ToldControl {
    process: String,
    name: String,
    actions: Vec<StatusAction>,
    wishes: Arc<Wishes>,
}

impl StatusControl for ToldControl {
    fn actions(&self) -> Vec<StatusAction> {
        self.actions.clone()
    }

    fn act(&self, action: &str) -> ActionFuture {
        let answer = self.wishes.ask(&self.process, &self.name, action);
        let process = self.process.clone();
        Box::pin(async move {
            let gone = || Err(format!("{process} ended before it answered"));
            answer.await.unwrap_or_else(|_| gone())
        })
    }
}
