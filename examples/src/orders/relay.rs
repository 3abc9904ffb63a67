//! What a process of the cluster tells of itself for the console of the one that started it, and
//! what that one asks of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::status::{StatusEvent, StatusRegistry, StatusSource};
use tokio::sync::{broadcast, mpsc};

use super::armed::Act;
use super::report::{Report, Told};

/// How often the process tells how it is.
const EVERY: Duration = Duration::from_millis(200);

/// Tells how the process is until it is dropped.
#[derive(Debug)]
pub struct Relay(tokio::task::JoinHandle<()>);

impl Relay {
    /// Tells of everything in `registry`, and of `sources`, which are put into it; does what it is
    /// asked for.
    #[must_use]
    pub fn start(
        registry: &StatusRegistry,
        sources: Vec<Arc<dyn StatusSource>>,
        acts: mpsc::UnboundedReceiver<Act>,
    ) -> Self {
        for source in &sources {
            registry.register(source);
        }
        let registry = registry.clone();
        Self(actix_rt::spawn(async move {
            let _sources = sources;
            tell(&registry, acts).await;
        }))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn tell(registry: &StatusRegistry, mut acts: mpsc::UnboundedReceiver<Act>) {
    let mut listening = HashMap::<String, broadcast::Receiver<StatusEvent>>::new();
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = tick.tick() => {
                let sources = registry.sources();
                let told = sources.iter().map(|source| told(source.as_ref(), &mut listening));
                Report::Status { sources: told.collect() }.write();
                tell_events(&mut listening);
            }
            Some(act) = acts.recv() => { actix_rt::spawn(carry_out(registry.clone(), act)); }
        }
    }
}

fn told(
    source: &dyn StatusSource,
    listening: &mut HashMap<String, broadcast::Receiver<StatusEvent>>,
) -> Told {
    let name = source.name();
    // Before the snapshot: some sources tell what has happened while they are asked.
    if let Some(events) = source.events() {
        listening.entry(name.clone()).or_insert(events);
    }
    let control = source.control();
    Told {
        name,
        snapshot: source.snapshot(),
        actions: control.map(|control| control.actions()).unwrap_or_default(),
    }
}

fn tell_events(listening: &mut HashMap<String, broadcast::Receiver<StatusEvent>>) {
    for (source, events) in listening {
        loop {
            match events.try_recv() {
                Ok(event) => Report::Happened {
                    source: source.clone(),
                    event,
                }
                .write(),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => break,
            }
        }
    }
}

async fn carry_out(registry: StatusRegistry, act: Act) {
    let Act {
        number,
        source,
        action,
    } = act;
    let found = registry
        .sources()
        .into_iter()
        .find(|one| one.name() == source);
    let control = found.and_then(|found| found.control());
    let result = match control {
        Some(control) => control.act(&action).await,
        None => Err(format!("{source} offers nothing now")),
    };
    Report::Acted { number, result }.write();
}
