//! What a console shows of leadership: who leads, since when, and who led before.
//!
//! A source has no task of its own: it looks whenever it is asked, and keeps what it saw. A
//! leadership that came and went between two looks is not in its history.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockkeeper_core::status::{
    Level, StatusEvent, StatusKind, StatusSnapshot, StatusSource, StatusTable, StatusValue, Unit,
};
use lockkeeper_core::token::FencingToken;
use tokio::sync::broadcast;

use crate::election::LeaderElection;
use crate::retrieval::LeaderRetrieval;

/// Leaderships that are kept.
const KEPT: usize = 32;
/// Events that a slow reader may be behind.
const EVENTS: usize = 64;

/// A deadline that is farther away than this never passes by itself.
const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A leadership as it was seen from here. Times are milliseconds since the Unix epoch.
#[derive(Clone, Debug)]
struct Seen {
    token: FencingToken,
    address: String,
    from: u64,
    until: Option<u64>,
}

/// What was seen, newest first.
#[derive(Debug)]
struct History {
    seen: Mutex<VecDeque<Seen>>,
    events: broadcast::Sender<StatusEvent>,
}

impl History {
    fn new() -> Self {
        Self {
            seen: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
        }
    }

    /// Notes what is seen now, and returns all.
    fn look(&self, now: Option<(FencingToken, String)>, gained: &str, lost: &str) -> Vec<Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.front().filter(|one| one.until.is_none());
        let known = known.map(|one| (one.token, one.address.clone()));
        if known != now {
            if let Some((token, _)) = known {
                let event = StatusEvent::now(format!("epoch {} {lost}", token.epoch));
                if let Some(last) = seen.front_mut() {
                    last.until = Some(event.at_unix_ms);
                }
                self.tell(event.with_level(Level::Warning));
            }
            if let Some((token, address)) = now {
                let event = StatusEvent::now(format!("epoch {} {gained}", token.epoch));
                seen.push_front(Seen {
                    token,
                    address,
                    from: event.at_unix_ms,
                    until: None,
                });
                seen.truncate(KEPT);
                self.tell(event.with_level(Level::Good));
            }
        }
        seen.iter().cloned().collect()
    }

    fn tell(&self, event: StatusEvent) {
        // Nobody listens: nobody is told.
        let _ = self.events.send(event);
    }
}

fn table(seen: &[Seen]) -> StatusTable {
    let columns = [
        ("epoch", Unit::None),
        ("from", Unit::UnixMilliseconds),
        ("until", Unit::UnixMilliseconds),
        ("address", Unit::None),
    ];
    let table = StatusTable::new("epochs, as seen from here", columns);
    seen.iter().fold(table, |table, one| {
        table.with_row([
            StatusValue::from(one.token.epoch),
            one.from.into(),
            one.until.map_or_else(|| "now".into(), StatusValue::from),
            one.address.as_str().into(),
        ])
    })
}

/// Who leads a component, wherever it is.
struct RetrievalSource {
    retrieval: LeaderRetrieval,
    history: History,
}

impl StatusSource for RetrievalSource {
    fn name(&self) -> String {
        format!("leader of {}", self.retrieval.component())
    }

    fn snapshot(&self) -> StatusSnapshot {
        let leader = self.retrieval.current();
        let leader = leader.map(|leader| (leader.token, leader.address));
        let seen = self
            .history
            .look(leader.clone(), "leads", "does not lead any more");
        let snapshot = StatusSnapshot::new(StatusKind::Leader);
        let snapshot = match (&leader, seen.first()) {
            (Some((token, address)), Some(now)) => snapshot
                .with_state("there is a leader", Level::Good)
                .with("address", address.as_str())
                .with("epoch", token.epoch)
                .with("session", token.session.to_string())
                .with("lineage", token.lineage.to_string())
                .with_unit("since", now.from, Unit::UnixMilliseconds),
            _ => snapshot
                .with_state("no leader", Level::Warning)
                .with_unready(Some("nobody is known to lead".to_owned())),
        };
        snapshot.with_table(table(&seen))
    }

    fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
        Some(self.history.events.subscribe())
    }
}

/// Whether this process leads.
struct ElectionSource {
    election: LeaderElection,
    history: History,
}

impl StatusSource for ElectionSource {
    fn name(&self) -> String {
        format!("election of {}", self.election.component())
    }

    fn snapshot(&self) -> StatusSnapshot {
        let leadership = self.election.leadership();
        let leads = leadership
            .as_ref()
            .map(|leadership| (leadership.token, "this process".to_owned()));
        let seen = self
            .history
            .look(leads, "is led by this process", "is over");
        let snapshot = StatusSnapshot::new(StatusKind::Leader);
        let snapshot = match (leadership, seen.first()) {
            (Some(leadership), Some(now)) => {
                let snapshot = snapshot
                    .with_state("leads", Level::Good)
                    .with("epoch", leadership.token.epoch)
                    .with("session", leadership.token.session.to_string())
                    .with("lineage", leadership.token.lineage.to_string())
                    .with_unit("since", now.from, Unit::UnixMilliseconds);
                let left = leadership.deadline.remaining();
                if left < UNLIMITED {
                    snapshot.with_unit("may act for", left.as_secs_f64(), Unit::Seconds)
                } else {
                    snapshot
                }
            }
            // It may take over at any time: that is what it is there for.
            _ => snapshot.with_state("stands by", Level::Neutral),
        };
        snapshot.with_table(table(&seen))
    }

    fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
        Some(self.history.events.subscribe())
    }
}

impl LeaderRetrieval {
    /// The leadership for a console: who leads, since when, and the epochs before. To be kept, and
    /// registered with a [`StatusRegistry`](lockkeeper_core::status::StatusRegistry), which does
    /// not keep it alive. Without a leader it is not ready.
    #[must_use]
    pub fn status_source(&self) -> Arc<dyn StatusSource> {
        Arc::new(RetrievalSource {
            retrieval: self.clone(),
            history: History::new(),
        })
    }
}

impl LeaderElection {
    /// This process's part in the election for a console: whether it leads, under which token,
    /// since when, how long it may act without a renewal, and its epochs before. To be kept, and
    /// registered with a [`StatusRegistry`](lockkeeper_core::status::StatusRegistry), which does
    /// not keep it alive. A process that stands by is ready.
    #[must_use]
    pub fn status_source(&self) -> Arc<dyn StatusSource> {
        Arc::new(ElectionSource {
            election: self.clone(),
            history: History::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(epoch: u64) -> FencingToken {
        FencingToken::new(1_u64, epoch, uuid::Uuid::from_u128(epoch.into()))
    }

    #[test]
    fn each_epoch_is_kept_with_its_beginning_and_end_up_to_the_limit() {
        let history = History::new();
        let mut events = history.events.subscribe();
        let look = |epoch: Option<u64>| {
            let now = epoch.map(|epoch| (token(epoch), format!("address {epoch}")));
            history.look(now, "leads", "is over")
        };
        assert!(look(None).is_empty());
        look(Some(1));
        assert_eq!(look(Some(1)).len(), 1);
        assert!(look(None)[0].until.is_some());
        let seen = look(Some(2));
        assert_eq!(seen[0].token, token(2));
        assert_eq!((seen[0].until, seen.len()), (None, 2));
        for expected in ["epoch 1 leads", "epoch 1 is over", "epoch 2 leads"] {
            assert_eq!(events.try_recv().unwrap().text, expected);
        }
        assert!(events.try_recv().is_err());
        for epoch in 3..100 {
            look(Some(epoch));
        }
        assert_eq!(look(Some(99)).len(), KEPT);
        assert_eq!(table(&look(Some(99))).rows.len(), KEPT);
    }
}
