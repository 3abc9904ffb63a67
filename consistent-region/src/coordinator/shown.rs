//! What a console shows of a region: its graph with the round that flows through it, its workers,
//! the times of its rounds, what happened to it; and what can be done with it.
//!
//! A source has no task of its own: it takes up what happened whenever it is asked.

mod events;
mod picture;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_core::FencingToken;
use lockkeeper_core::status::{
    ActionFuture, Level, Plot, StatusAction, StatusControl, StatusEvent, StatusKind,
    StatusSnapshot, StatusSource, StatusTable, StatusValue, Unit,
};
use tokio::sync::{broadcast, watch};

use super::handle::CoordinatorHandle;
use super::status::{CompletedCut, RegionEvent, RegionState, RegionStatus, RoundPhase};
use crate::graph::Region;
use crate::graph::topology::Topology;

/// Rounds whose times are kept.
const ROUNDS: usize = 240;
/// Events that a slow reader may be behind.
const EVENTS: usize = 256;

/// Whether a coordinator that is elected leads.
pub(super) type Leads = watch::Receiver<Option<FencingToken>>;

/// A region as its coordinator sees it.
pub(super) struct RegionSource {
    handle: CoordinatorHandle,
    topology: Topology,
    leads: Option<Leads>,
    past: Mutex<Past>,
    events: broadcast::Sender<StatusEvent>,
}

/// What the source has heard of.
struct Past {
    news: broadcast::Receiver<RegionEvent>,
    took: VecDeque<f64>,
    paused: VecDeque<f64>,
    bytes: Option<u64>,
    resets: u64,
}

impl Past {
    fn keep(&mut self, cut: &CompletedCut) {
        self.took.push_back(cut.took.as_secs_f64());
        self.paused.push_back(cut.pause.as_secs_f64());
        for rounds in [&mut self.took, &mut self.paused] {
            while rounds.len() > ROUNDS {
                rounds.pop_front();
            }
        }
        self.bytes = Some(cut.bytes);
    }
}

impl RegionSource {
    pub(super) fn shared(
        handle: CoordinatorHandle,
        region: &Region,
        leads: Option<Leads>,
    ) -> Arc<dyn StatusSource> {
        Arc::new(Self {
            past: Mutex::new(Past {
                news: handle.events(),
                took: VecDeque::new(),
                paused: VecDeque::new(),
                bytes: None,
                resets: 0,
            }),
            handle,
            topology: region.topology().clone(),
            leads,
            events: broadcast::Sender::new(EVENTS),
        })
    }

    /// Takes up what has happened.
    fn catch_up(&self) -> std::sync::MutexGuard<'_, Past> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match past.news.try_recv() {
                Ok(event) => {
                    match &event {
                        RegionEvent::CutCompleted(cut) => past.keep(cut),
                        RegionEvent::ResetBegun { .. } => past.resets += 1,
                        _ => {}
                    }
                    if let Some(told) = events::told(&event) {
                        // Nobody listens: nobody is told.
                        let _ = self.events.send(told);
                    }
                }
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return past,
            }
        }
    }

    fn is_led_here(&self, status: &RegionStatus) -> bool {
        match &self.leads {
            Some(token) => token.borrow().is_some(),
            None => status.term > 0,
        }
    }
}

impl StatusSource for RegionSource {
    fn name(&self) -> String {
        format!("region {}", self.handle.status().region)
    }

    fn snapshot(&self) -> StatusSnapshot {
        let status = self.handle.status();
        let past = self.catch_up();
        let snapshot = StatusSnapshot::new(StatusKind::Region);
        if !self.is_led_here(&status) {
            return snapshot.with_state("coordinated elsewhere", Level::Neutral);
        }
        let ((text, level), (_, is_ready)) = (named(&status), judged(status.state));
        let reason = status.reason.clone();
        let unready = (!is_ready).then(|| match &reason {
            Some(reason) => format!("{:?}: {reason}", status.state),
            None => format!("{:?}", status.state),
        });
        let mut snapshot = snapshot
            .with_state(text, level)
            .with_unready(unready)
            .with("term", status.term)
            .with("cut under way", status.seq)
            .with("newest complete cut", status.completed)
            .with("oldest cut kept", status.oldest_retained)
            .with("resets heard of", past.resets)
            .with("resets in a row", status.consecutive_resets)
            .with("workers", status.workers.len())
            .with("instances without a place", status.waiting.len())
            .with("stale messages", status.stale_messages);
        if let Some(reason) = reason {
            snapshot = snapshot.with("reason", reason);
        }
        if let Some(since) = status.sources_paused_since_unix_ms {
            snapshot = snapshot.with_unit("paused since", since, Unit::UnixMilliseconds);
        }
        if let Some(bytes) = past.bytes {
            snapshot = snapshot.with_plot("state written", bytes, Unit::Bytes, Plot::None);
        }
        snapshot
            .with_graph(picture::of(&self.topology, &status))
            .with_table(workers(&status))
            .with_series("time of a round", Unit::Seconds, past.took.iter().copied())
            .with_series(
                "pause of a round",
                Unit::Seconds,
                past.paused.iter().copied(),
            )
    }

    fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
        Some(self.events.subscribe())
    }

    fn control(&self) -> Option<Arc<dyn StatusControl>> {
        let status = self.handle.status();
        self.is_led_here(&status).then(|| {
            let control = RegionControl {
                handle: self.handle.clone(),
                state: status.state,
                paused: status.sources_paused_since_unix_ms.is_some(),
            };
            Arc::new(control) as Arc<dyn StatusControl>
        })
    }
}

/// How good a state is, and whether the region does its work in it.
fn judged(state: RegionState) -> (Level, bool) {
    match state {
        RegionState::Opening | RegionState::Started => (Level::Busy, false),
        RegionState::Processing | RegionState::Completed => (Level::Good, true),
        RegionState::Draining | RegionState::CheckpointPending | RegionState::Ending => {
            (Level::Busy, true)
        }
        RegionState::Resetting => (Level::Warning, false),
        RegionState::Unhealthy | RegionState::Failed => (Level::Bad, false),
    }
}

/// The state in words, and how good it is: a pause is for somebody to look at, who may have forgotten it.
fn named(status: &RegionStatus) -> (String, Level) {
    let (text, level) = (format!("{:?}", status.state), judged(status.state).0);
    match (status.sources_paused_since_unix_ms, level) {
        (None, _) => (text, level),
        (Some(_), Level::Bad) => (format!("{text}, paused"), Level::Bad),
        (Some(_), _) => (format!("{text}, paused"), Level::Warning),
    }
}

fn workers(status: &RegionStatus) -> StatusTable {
    let columns = [
        ("worker", Unit::None),
        ("in the round", Unit::None),
        ("instances", Unit::None),
        ("registration", Unit::None),
        ("address", Unit::None),
    ];
    let table = StatusTable::new("workers", columns);
    status.workers.iter().fold(table, |table, worker| {
        let phase = phase_of(status, &worker.worker).map_or("", phase_name);
        table.with_row([
            StatusValue::from(worker.worker.as_str()),
            phase.into(),
            worker.instances.len().into(),
            worker.worker_epoch.into(),
            worker.address.as_str().into(),
        ])
    })
}

/// How far a worker is in the round, if it takes part in one.
fn phase_of(status: &RegionStatus, worker: &str) -> Option<RoundPhase> {
    let round = status.round.as_ref()?;
    let part = round.workers.iter().find(|(name, _)| name == worker);
    part.map(|(_, phase)| *phase)
}

fn phase_name(phase: RoundPhase) -> &'static str {
    match phase {
        RoundPhase::Draining => "draining",
        RoundPhase::Writing => "writing",
        RoundPhase::Durable => "durable",
    }
}

/// What can be done with a region.
struct RegionControl {
    handle: CoordinatorHandle,
    state: RegionState,
    paused: bool,
}

/// What can be done in a state.
fn offered(state: RegionState, paused: bool) -> Vec<StatusAction> {
    let cut = ("cut", "Takes a cut now, or as soon as tuples flow again.");
    let reset = (
        "reset",
        "Sets the region back to its newest cut: tuples since then are processed again.",
    );
    let forced = (
        "force-reset",
        "Takes the failed region up again from its newest cut.",
    );
    let pause = (
        "pause",
        "The sources take nothing in until they are resumed, or the leader changes; cuts go on.",
    );
    let resume = ("resume", "The sources go on.");
    let offered = match (state, paused) {
        (RegionState::Ending | RegionState::Completed, _) => Vec::new(),
        (RegionState::Failed, false) => vec![forced],
        (RegionState::Failed, true) => vec![forced, resume],
        (_, false) => vec![cut, reset, pause],
        (_, true) => vec![cut, reset, resume],
    };
    let offered = offered.into_iter();
    offered
        .map(|(name, effect)| StatusAction::new(name, effect))
        .collect()
}

impl StatusControl for RegionControl {
    fn actions(&self) -> Vec<StatusAction> {
        offered(self.state, self.paused)
    }

    fn act(&self, action: &str) -> ActionFuture {
        let (handle, action) = (self.handle.clone(), action.to_owned());
        Box::pin(async move {
            let reason = "asked for from the console";
            let (done, answer) = match action.as_str() {
                "cut" => (handle.cut().await, "a cut is taken"),
                "reset" => (
                    handle.reset(false, reason).await,
                    "the region is being reset",
                ),
                "force-reset" => (handle.reset(true, reason).await, "the region is taken up"),
                "pause" => (
                    handle.pause_sources().await,
                    "the sources pause with their workers' next heartbeat",
                ),
                "resume" => (
                    handle.resume_sources().await,
                    "the sources go on with their workers' next heartbeat",
                ),
                other => return Err(format!("a region has no action {other:?}")),
            };
            done.map(|()| answer.to_owned())
                .map_err(|refused| refused.to_string())
        })
    }
}

#[cfg(test)]
mod tests;
