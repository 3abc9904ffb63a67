//! Changes that a person may make while nobody works on the store.
//!
//! Each is one entry of the region's log, published under a new term by the same guard as a
//! coordinator's: one that lives after all is fenced out by it and steps down.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::token::Lineage;
use lockkeeper_fencing::guard::{EpochGuard, GuardError, Guarded, adopt_lineage, highest_fence};
use serde::{Deserialize, Serialize};

use super::{Archive, ArchiveError};
use crate::coordinator::{ENTRY_FORMAT, Entry, Record, encode_entry};
use crate::process::ProcessIdentity;

/// A process that was given operators, and may still act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The worker's name.
    pub worker: String,
    /// The process, where it is known.
    pub process: Option<ProcessIdentity>,
    /// What is known of it.
    pub live: Live,
    /// How long it may act after it has lost its coordinator.
    pub lasts: Duration,
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Live {
    /// It lives, on this host.
    Here,
    /// It ran on another host, or its host does not tell: only a person can know.
    Unknown,
}

impl fmt::Display for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.live, &self.process) {
            (Live::Here, Some(process)) => {
                write!(f, "worker {} is process {}", self.worker, process.pid)
            }
            _ => write!(
                f,
                "worker {} ran on another host and may act for {:?} after its coordinator's end",
                self.worker, self.lasts
            ),
        }
    }
}

/// What a store is to belong to from now on; see [`Archive::adopt`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Adoption {
    /// The region's new name.
    pub region: Option<String>,
    /// The fingerprint of the program's graph, as the refusal shows it.
    pub graph: Option<u64>,
    /// The lineage of the coordination store that elects the region's coordinators, as the refusal shows
    /// it.
    pub lineage: Option<Lineage>,
}

impl Archive {
    /// Processes that may still act on the region, and so forbid every change. Those of an ended
    /// region may not.
    ///
    /// # Errors
    /// As [`overview`](Self::overview).
    pub fn live(&self) -> Result<Vec<Claimed>, ArchiveError> {
        Ok(live(&self.newest()?.record))
    }

    /// Sets the region back to the kept cut `seq` (0: the state before the first tuple, if that is
    /// kept): cuts above it are dropped, a failure is cleared, an end is undone. The next start of
    /// the region begins with it. `assume_dead`: names of workers of other hosts that a person knows
    /// to have ended.
    ///
    /// # Errors
    /// [`ArchiveError::Alive`]; [`ArchiveError::NoCut`]; [`ArchiveError::Irrevocable`] when a sink
    /// has committed, or a source has acknowledged, more than that cut for good;
    /// [`ArchiveError::Overtaken`].
    pub fn reset_to(&self, seq: u64, assume_dead: &[String]) -> Result<Record, ArchiveError> {
        self.change(assume_dead, |record| {
            let mut kept: Vec<u64> = record.retained.iter().map(|cut| cut.seq).collect();
            if record.initial_state_retained {
                kept.push(0);
            }
            if !kept.contains(&seq) {
                return Err(ArchiveError::NoCut { seq, kept });
            }
            for dropped in record.retained.iter().filter(|cut| cut.seq > seq) {
                let manifest = self.manifest(dropped)?;
                if let Some(token) = manifest.tokens.iter().find(|token| !token.can_take_back) {
                    return Err(ArchiveError::Irrevocable {
                        sink: token.instance.clone(),
                        seq: dropped.seq,
                    });
                }
            }
            record.retained.retain(|cut| cut.seq <= seq);
            record.completed = seq;
            record.failed = None;
            record.ended = false;
            record.consecutive_resets = 0;
            Ok(())
        })
    }

    /// Gives the store to a region of another name, to a program with another graph, or to the
    /// coordinators of another coordination store: all are refused at start otherwise. State goes to
    /// the operators of the same name; an operator that has none begins empty, and state of one that is
    /// gone is dropped with its cut. Whether that makes sense, and whether no coordinator of a former
    /// coordination store is left, only a person can know.
    ///
    /// # Errors
    /// [`ArchiveError::Alive`] and [`ArchiveError::Overtaken`].
    pub fn adopt(
        &self,
        adoption: &Adoption,
        assume_dead: &[String],
    ) -> Result<Record, ArchiveError> {
        let record = self.change(assume_dead, |record| {
            if let Some(region) = &adoption.region {
                record.region.clone_from(region);
            }
            if let Some(graph) = adoption.graph {
                record.graph = graph;
                // Where instances ran means nothing for another graph.
                record.placement = Arc::default();
            }
            Ok(())
        })?;
        // Last: the epochs of the adopted one count from the highest term on, which is this change's.
        if let Some(lineage) = adoption.lineage {
            self.adopt_lineage(lineage)?;
        }
        Ok(record)
    }

    /// Whichever lineage counts now: nobody of it lives.
    fn adopt_lineage(&self, adopted: Lineage) -> Result<(), ArchiveError> {
        let log = self.log.as_ref();
        let above = match adopt_lineage(log, adopted, adopted) {
            Err(GuardError::LineageChanged { found: former, .. }) => {
                adopt_lineage(log, former, adopted)
            }
            other => other,
        };
        above?;
        Ok(())
    }

    /// Publishes the newest record with a change.
    fn change(
        &self,
        assume_dead: &[String],
        change: impl Fn(&mut Record) -> Result<(), ArchiveError>,
    ) -> Result<Record, ArchiveError> {
        // Before anything is touched: a refusal must not disturb a region that works.
        let mut before = self.newest()?.record;
        refuse_if_alive(&before, assume_dead)?;
        change(&mut before)?;

        let term = highest_fence(self.log.as_ref())? + 1;
        let entering = led(EpochGuard::announce(Arc::clone(&self.log), term)?)?;
        let mut guard = led(entering.continue_from_newest()?)?;
        // From here on nobody else publishes; what was read before may be out of date.
        let mut record = self.newest()?.record;
        refuse_if_alive(&record, assume_dead)?;
        change(&mut record)?;
        record.number += 1;
        record.term = term;
        record.next_cut = record.next_cut.max(record.highest + 1);
        let entry = Entry {
            format: ENTRY_FORMAT,
            record: record.clone(),
            manifest: None,
        };
        let bytes = encode_entry(&entry).map_err(std::io::Error::from)?;
        led(guard.publish(record.number, &bytes)?)?;
        Ok(record)
    }
}

fn refuse_if_alive(record: &Record, assume_dead: &[String]) -> Result<(), ArchiveError> {
    let mut live = live(record);
    live.retain(|claimed| claimed.live == Live::Here || !assume_dead.contains(&claimed.worker));
    match live.is_empty() {
        true => Ok(()),
        false => Err(ArchiveError::Alive(live)),
    }
}

fn live(record: &Record) -> Vec<Claimed> {
    if record.ended {
        return Vec::new();
    }
    let claims = record.claims.iter().filter_map(|claim| {
        let live = match &claim.process {
            Some(process) if process.is_gone() => return None,
            Some(process) if process.is_of_this_host() => Live::Here,
            _ => Live::Unknown,
        };
        Some(Claimed {
            worker: claim.worker.clone(),
            process: claim.process.clone(),
            live,
            lasts: claim.lasts,
        })
    });
    claims.collect()
}

fn led<T>(guarded: Guarded<T>) -> Result<T, ArchiveError> {
    match guarded {
        Guarded::Done(done) => Ok(done),
        Guarded::SteppedDown { highest } => Err(ArchiveError::Overtaken { highest }),
    }
}
