//! The manifest: what makes a set of checkpoint objects one cut.
//!
//! A cut exists when its manifest is published, not before: objects without one are orphans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::protocol::InstanceId;
use crate::store::Encoding;

/// The manifest format that this version writes, and the newest that it reads. Format 2 says how
/// objects are encoded; those of format 1 are as their operators wrote them. Format 3 says which
/// objects hold the part of a state that did not change, and how wide the operators were.
pub const MANIFEST_FORMAT: u32 = 3;

/// A manifest was written by a newer version of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the manifest of cut {seq} has format {format}, this version reads up to {MANIFEST_FORMAT}: \
     use a newer one"
)]
pub struct NewerManifest {
    /// The cut.
    pub seq: u64,
    /// Its manifest's format.
    pub format: u32,
}

/// One complete cut of a region, as published in its checkpoint store (JSON).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`MANIFEST_FORMAT`] of the writer.
    pub format: u32,
    /// The region's name.
    pub region: String,
    /// Fingerprint of the graph that the objects belong to.
    pub graph: u64,
    /// The cut's number.
    pub seq: u64,
    /// The term that published it.
    pub term: u64,
    /// The reset attempt under which its objects were written.
    pub attempt: u64,
    /// The complete cut before this one; 0 for the first.
    pub previous: u64,
    /// Milliseconds since 1970 when it was published, for people: no rule reads it.
    pub published_at_ms: u64,
    /// The region ended with this cut.
    pub last: bool,
    /// State of the stateful instances.
    pub objects: Vec<ObjectRecord>,
    /// Staged outputs; committed after publication, and again after a restore.
    pub tokens: Vec<CommitToken>,
    /// [`Region::structure`](crate::graph::Region::structure) of the graph: the same for all widths;
    /// 0 in formats before 3.
    #[serde(default)]
    pub structure: u64,
    /// How many instances each operator had; empty in formats before 3.
    #[serde(default)]
    pub widths: BTreeMap<String, u16>,
}

impl Manifest {
    /// Refuses a manifest whose meaning this version can't know.
    ///
    /// # Errors
    /// When a newer version wrote it.
    pub fn check_format(&self) -> Result<(), NewerManifest> {
        let Self { seq, format, .. } = *self;
        match format > MANIFEST_FORMAT {
            true => Err(NewerManifest { seq, format }),
            false => Ok(()),
        }
    }

    /// Every object that the cut needs, those of earlier cuts included.
    pub fn parts(&self) -> impl Iterator<Item = &ObjectRecord> {
        self.objects.iter().flat_map(ObjectRecord::parts)
    }
}

/// One instance's state in a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// Whose state.
    pub instance: InstanceId,
    /// The object's name in the store.
    pub object: String,
    /// Its length in bytes, as it is stored.
    pub length: u64,
    /// CRC-32 (IEEE) of its bytes, as they are stored.
    pub crc32: u32,
    /// The operator's `STATE_TYPE`.
    pub state_type: String,
    /// The operator's `STATE_VERSION`.
    pub state_version: u32,
    /// How the object's bytes are to be read.
    #[serde(default)]
    pub encoding: Encoding,
    /// Objects of earlier cuts that are to be read before this one, oldest first: this one holds
    /// only what changed since then. Empty for a whole state.
    #[serde(default)]
    pub base: Vec<ObjectRecord>,
}

impl ObjectRecord {
    /// The objects that make up the state, in the order in which they are read.
    pub fn parts(&self) -> impl Iterator<Item = &Self> {
        self.base.iter().chain(std::iter::once(self))
    }
}

/// What a sink staged for a cut, in the sink's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitToken {
    /// The sink.
    pub instance: InstanceId,
    /// The cut.
    pub seq: u64,
    /// Opaque to the region.
    pub token: Vec<u8>,
    /// The sink can take this commit back ([`Committer::can_take_back`]): only then may the region
    /// ever fall back to a cut before this one.
    ///
    /// [`Committer::can_take_back`]: crate::operator::Committer::can_take_back
    #[serde(default)]
    pub can_take_back: bool,
}

/// What a reset goes back to: the part of a manifest that workers need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestorePoint {
    /// The cut.
    pub seq: u64,
    /// The oldest cut that is still retained: sources acknowledge up to it.
    pub oldest_retained: u64,
    /// State of the stateful instances.
    pub objects: Vec<ObjectRecord>,
    /// Staged outputs of the cut: committed again before the region goes on.
    pub tokens: Vec<CommitToken>,
    /// How many instances each operator had; an operator that is missing had as many as now.
    #[serde(default)]
    pub widths: BTreeMap<String, u16>,
}
