//! What a coordinator knows for good: one entry of the region's guarded log for every step that
//! must not be forgotten.
//!
//! The newest entry of the log's chain is the truth. An entry with a manifest completes a cut; the
//! others come before a message leaves (S22). Numbers given to anybody are covered by an entry that
//! was durable before: `highest` is a reserve, so that a completed cut needs no entry beside its
//! manifest.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::manifest::Manifest;
use crate::process::ProcessIdentity;
use crate::protocol::InstanceId;

/// The newest format of entries that this version writes, and the newest it reads.
pub const ENTRY_FORMAT: u32 = 1;

/// One entry of the log (JSON).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// [`ENTRY_FORMAT`] of the writer.
    pub format: u32,
    /// What the coordinator knows.
    pub record: Record,
    /// The cut that this entry completes.
    pub manifest: Option<Manifest>,
}

/// What the coordinator of a region knows for good.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Record {
    /// The region's name.
    pub region: String,
    /// Fingerprint of its graph.
    pub graph: u64,
    /// The same for graphs that differ in widths only; 0: not known.
    #[serde(default)]
    pub structure: u64,
    /// The number of the entry in the log: strictly increasing.
    pub number: u64,
    /// The term that wrote it.
    pub term: u64,
    /// No message ever had a higher sequence number.
    pub highest: u64,
    /// Cuts that complete after this entry have this number or a higher one.
    pub next_cut: u64,
    /// Counts the resets of the region.
    pub attempt: u64,
    /// Resets since the last completed cut.
    pub consecutive_resets: u32,
    /// How many there may be; a forced reset grants more.
    pub allowed_resets: u32,
    /// The newest completed cut that counts; 0: none. Cuts between this one and `next_cut` were
    /// aborted, whatever the store holds.
    pub completed: u64,
    /// The cuts that may be restored, newest first, and the entries that hold their manifests.
    pub retained: Vec<Retained>,
    /// Fewer cuts than may be kept have completed: the state before the first tuple is one of those
    /// that may be restored.
    #[serde(default)]
    pub initial_state_retained: bool,
    /// Sources were allowed to acknowledge what this cut covers, and what they read from may have
    /// forgotten it: no older cut may ever be restored. 0: nothing was, or everything can be read
    /// again. Written before the order to acknowledge leaves.
    #[serde(default)]
    pub acked_through: u64,
    /// No registration ever had a higher worker epoch.
    pub worker_epochs: u64,
    /// Where each instance runs; empty before the first start.
    #[serde(with = "crate::shared")]
    pub placement: Arc<[(InstanceId, String)]>,
    /// The processes that run them: the next term may not let others in before these are dead.
    pub claims: Vec<Claim>,
    /// Some sink committed, or was about to, what it can't take back.
    pub irrevocable: bool,
    /// Why the region is in its failed state.
    pub failed: Option<String>,
    /// The region has ended: everything is committed.
    pub ended: bool,
}

/// A completed cut that may be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    /// The cut.
    pub seq: u64,
    /// The number of the entry that holds its manifest.
    pub entry: u64,
    /// The term that wrote that entry.
    pub term: u64,
}

/// A process that was given instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The worker's name.
    pub worker: String,
    /// The process.
    pub incarnation: Uuid,
    /// How its end can be proved.
    pub process: Option<ProcessIdentity>,
    /// How long it may act after the end of the term that gave them, margin included.
    pub lasts: Duration,
}

impl Record {
    /// The oldest cut that may be restored; 0 when there is none, or when the initial state may be
    /// restored as well.
    #[must_use]
    pub fn oldest_retained(&self) -> u64 {
        match self.retained.last() {
            Some(oldest) if !self.initial_state_retained => oldest.seq,
            _ => 0,
        }
    }

    /// Why a cut may not be restored: sources have moved on since then, for good.
    pub(crate) fn moved_on_since(&self, seq: u64) -> Option<String> {
        let acknowledged = self.acked_through;
        (seq < acknowledged).then(|| {
            let cut = match seq {
                0 => "the initial state".to_owned(),
                seq => format!("cut {seq}"),
            };
            format!(
                "{cut} is older than cut {acknowledged}, up to which rows were acknowledged to a source \
                 that does not give them again"
            )
        })
    }
}
