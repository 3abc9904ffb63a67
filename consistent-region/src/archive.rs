//! A region's store as a person looks at it: what it holds, whether that is whole, and the few changes
//! that may be made while nobody works on it.
//!
//! Everything but [`Archive::reset_to`] and [`Archive::adopt`] only reads, and may be done while the
//! region runs: what is read may then be retired under one's hands, which is told as missing. All
//! calls block. The command `lockkeeper-region` among the examples is this on a command line.

mod change;
mod export;
mod value;
mod verify;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use lockkeeper_core::token::Lineage;
use lockkeeper_fencing::guard::{
    Base, GuardError, GuardStore, ManifestId, current_lineage, highest_fence, read_newest,
};
use serde::{Deserialize, Serialize};

use crate::coordinator::{
    Entry, Record, Retained, Savepoint, decode_entry, list_savepoints, read_savepoint,
};
use crate::manifest::{Manifest, ObjectRecord};
use crate::protocol::InstanceId;
use crate::store::{CheckpointStore, ObjectName, StoreError, read_state};

pub use self::change::{Adoption, Claimed, Live};
pub use self::export::Exported;
#[cfg(feature = "_fuzzing")]
pub(crate) use self::value::{one as one_value, read as read_values};
pub use self::verify::{CutVerdict, Fault};

/// A region's store, read from outside.
#[derive(Clone)]
pub struct Archive {
    store: Arc<dyn CheckpointStore>,
    log: Arc<dyn GuardStore>,
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Archive")
            .field(&self.store.location())
            .finish()
    }
}

/// Why an archive can't be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// No coordinator has ever completed a term here.
    #[error("{location} holds no region")]
    Empty {
        /// The store.
        location: String,
    },
    /// The store can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log can't be read.
    #[error("the region's log: {0}")]
    Log(#[from] GuardError),
    /// A newer version wrote it, or it is damaged.
    #[error("entry {entry} of the region's log: {what}")]
    Entry {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        what: String,
    },
    /// No cut of this number may be restored.
    #[error("no cut {seq} is kept; those that are: {kept:?}")]
    NoCut {
        /// The number that was asked for.
        seq: u64,
        /// What there is, newest first; 0 is the state before the first tuple.
        kept: Vec<u64>,
    },
    /// Processes of the region may still act: end them first.
    #[error("the region is alive: {}", list(.0))]
    Alive(Vec<Claimed>),
    /// What was committed since that cut can't be taken back.
    #[error("{sink} has committed cut {seq}, and can't take that back")]
    Irrevocable {
        /// The sink, or the source that acknowledged.
        sink: InstanceId,
        /// The cut.
        seq: u64,
    },
    /// A coordinator took over meanwhile: end it first.
    #[error("a coordinator of term {highest} took over meanwhile")]
    Overtaken {
        /// Its term.
        highest: u64,
    },
    /// A newer version wrote this state, or not this crate.
    #[error("the state in {object}: {what}")]
    State {
        /// The object.
        object: String,
        /// What is wrong with it.
        what: String,
    },
    /// What was exported can't be written.
    #[error("writing: {0}")]
    Write(#[from] std::io::Error),
}

fn list(claimed: &[Claimed]) -> String {
    let texts: Vec<String> = claimed.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// What a store holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overview {
    /// The store.
    pub location: String,
    /// The newest entry of the log.
    pub record: Record,
    /// The highest term that anybody has announced; above that of the newest entry, a coordinator
    /// is beginning its term, or died while it did.
    pub highest_term: u64,
    /// Terms that announced themselves (fences), in ascending order. Those of former coordinators are
    /// removed.
    pub fences: Vec<u64>,
    /// The coordination store whose epochs the terms are; `None` before the first elected coordinator.
    pub lineage: Option<Lineage>,
    /// The cuts that may be restored, newest first.
    pub cuts: Vec<CutSummary>,
    /// Cuts that are kept under a name.
    pub savepoints: Vec<SavepointSummary>,
    /// Bytes of all objects that the cuts and savepoints above name, each counted once.
    pub bytes: u64,
    /// State objects that none of them names: of a round that is under way, or came to nothing and
    /// is swept with the next cut.
    pub unnamed: Vec<String>,
    /// Objects of sources and sinks beside the cuts: commands, outboxes, spools.
    pub beside: Vec<String>,
}

/// A cut that may be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutSummary {
    /// Its number.
    pub seq: u64,
    /// The entry of the log that holds its manifest.
    pub entry: String,
    /// The manifest; `None` when it can't be read.
    pub manifest: Option<Manifest>,
    /// Why it can't be read.
    pub fault: Option<String>,
    /// How far each source had come, as far as this version can read its state.
    pub positions: Vec<SourcePosition>,
}

/// A cut that is kept under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavepointSummary {
    /// Its name.
    pub name: String,
    /// What it holds; `None` when it can't be read.
    pub savepoint: Option<Savepoint>,
    /// Why it can't be read.
    pub fault: Option<String>,
}

/// How far a source had come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePosition {
    /// The source.
    pub instance: InstanceId,
    /// Where it stood, in its own words.
    pub position: String,
    /// How often it went on although it was another source
    /// ([`OnSourceChange::AtLeastOnce`](crate::source::change::OnSourceChange)): rows count at
    /// least once since then.
    pub changes: u64,
}

impl Archive {
    /// Looks at a store.
    ///
    /// # Errors
    /// When its log can't be opened.
    pub fn open(store: Arc<dyn CheckpointStore>) -> Result<Self, ArchiveError> {
        let log = store.guard_store()?;
        Ok(Self { store, log })
    }

    /// Everything that the store holds.
    ///
    /// # Errors
    /// [`ArchiveError::Empty`], and when the newest entry can't be read. What can't be read of
    /// older ones is told by its place.
    pub fn overview(&self) -> Result<Overview, ArchiveError> {
        let record = self.newest()?.record;
        let cuts: Vec<CutSummary> = record.retained.iter().map(|cut| self.cut(cut)).collect();
        let savepoints = self.savepoints()?;
        let mut named = BTreeSet::new();
        let mut bytes = 0;
        let manifests = cuts.iter().filter_map(|cut| cut.manifest.as_ref());
        let kept = savepoints.iter().filter_map(|kept| kept.savepoint.as_ref());
        for manifest in manifests.chain(kept.map(|kept| &kept.manifest)) {
            for object in manifest.parts() {
                if named.insert(object.object.clone()) {
                    bytes += object.length;
                }
            }
        }
        let (mut unnamed, mut beside) = (Vec::new(), Vec::new());
        for name in self.store.list_objects()? {
            if ObjectName::parse(&name).is_none() {
                beside.push(name);
            } else if !named.contains(&name) {
                unnamed.push(name);
            }
        }
        unnamed.sort();
        beside.sort();
        Ok(Overview {
            location: self.store.location(),
            highest_term: highest_fence(self.log.as_ref())?,
            fences: self.fences()?,
            lineage: current_lineage(self.log.as_ref())?,
            record,
            cuts,
            savepoints,
            bytes,
            unnamed,
            beside,
        })
    }

    /// The newest entry of the log.
    fn newest(&self) -> Result<Entry, ArchiveError> {
        let empty = || ArchiveError::Empty {
            location: self.store.location(),
        };
        match read_newest(self.log.as_ref()) {
            Ok(Some((id, bytes))) => decode(id, &bytes),
            Ok(None) => Err(empty()),
            // A coordinator has announced its term and chosen nothing: it begins just now, was
            // refused, or died. What the one before it published last is what there is.
            Err(GuardError::Unsettled { .. }) => {
                let id = self.newest_of_the_last_base()?.ok_or_else(empty)?;
                let bytes = self.log.read(&id.name())?.ok_or_else(|| missing(id))?;
                decode(id, &bytes)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The newest entry of the last term that had chosen where it begins.
    fn newest_of_the_last_base(&self) -> Result<Option<ManifestId>, ArchiveError> {
        const BASE: &str = "base-";
        let number = |name: &String| name.strip_prefix(BASE)?.parse::<u64>().ok();
        let Some(term) = self.log.list(BASE)?.iter().filter_map(number).max() else {
            return Ok(None);
        };
        let name = format!("{BASE}{term}");
        let bytes = self.log.read(&name)?.unwrap_or_default();
        let json = bytes
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let base: Base = serde_json::from_slice(json).map_err(|error| ArchiveError::Entry {
            entry: name,
            what: error.to_string(),
        })?;
        let own = self.log.list("manifest-")?;
        let own = own.iter().filter_map(|name| {
            let (sequence, epoch) = name.strip_prefix("manifest-")?.split_once('.')?;
            let (sequence, epoch) = (sequence.parse().ok()?, epoch.parse().ok()?);
            (epoch == term).then_some(ManifestId { sequence, epoch })
        });
        Ok(own.max_by_key(|id| id.sequence).or(base.manifest))
    }

    fn fences(&self) -> Result<Vec<u64>, ArchiveError> {
        const FENCE: &str = "fence-";
        let names = self.log.list(FENCE)?;
        let mut terms: Vec<u64> = names
            .iter()
            .filter_map(|name| name.strip_prefix(FENCE)?.parse().ok())
            .collect();
        terms.sort_unstable();
        Ok(terms)
    }

    fn manifest(&self, retained: &Retained) -> Result<Manifest, ArchiveError> {
        let id = ManifestId {
            sequence: retained.entry,
            epoch: retained.term,
        };
        let bytes = self.log.read(&id.name())?.ok_or_else(|| missing(id))?;
        let entry = decode(id, &bytes)?;
        entry
            .manifest
            .filter(|manifest| manifest.seq == retained.seq)
            .ok_or_else(|| ArchiveError::Entry {
                entry: id.to_string(),
                what: format!("it does not hold cut {}", retained.seq),
            })
    }

    fn cut(&self, retained: &Retained) -> CutSummary {
        let (manifest, fault) = match self.manifest(retained) {
            Ok(manifest) => (Some(manifest), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let objects = manifest.iter().flat_map(|manifest| &manifest.objects);
        CutSummary {
            seq: retained.seq,
            entry: format!("{}.{}", retained.entry, retained.term),
            positions: objects.filter_map(|object| self.position(object)).collect(),
            manifest,
            fault,
        }
    }

    fn position(&self, object: &ObjectRecord) -> Option<SourcePosition> {
        if !crate::source::is_source(&object.state_type) {
            return None;
        }
        let state = read_state(self.store.as_ref(), object).ok()?;
        let (position, changes) = crate::source::describe(&object.state_type, &state)?;
        Some(SourcePosition {
            instance: object.instance.clone(),
            position,
            changes,
        })
    }

    fn savepoints(&self) -> Result<Vec<SavepointSummary>, ArchiveError> {
        let names = list_savepoints(self.store.as_ref())?;
        let read = |name: String| match read_savepoint(self.store.as_ref(), &name) {
            Ok(savepoint) => SavepointSummary {
                name,
                savepoint: Some(savepoint),
                fault: None,
            },
            Err(error) => SavepointSummary {
                name,
                savepoint: None,
                fault: Some(error.to_string()),
            },
        };
        Ok(names.into_iter().map(read).collect())
    }
}

fn missing(id: ManifestId) -> ArchiveError {
    ArchiveError::Entry {
        entry: id.to_string(),
        what: "it is missing".to_owned(),
    }
}

fn decode(id: ManifestId, bytes: &[u8]) -> Result<Entry, ArchiveError> {
    decode_entry(bytes).map_err(|error| ArchiveError::Entry {
        entry: id.to_string(),
        what: error.to_string(),
    })
}
