//! The coordinator's hand on the store: the guarded log, the search for what can be restored, and
//! the removal of what nobody needs.
//!
//! All calls block. One publisher belongs to one term; after it has stepped down, or after a write
//! of unknown outcome, it does nothing any more.

mod choosing;
mod keeping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockkeeper_core::status::now_unix_ms;
use lockkeeper_core::token::{FencingToken, Lineage};
use lockkeeper_fencing::guard::{
    EpochGuard, GuardError, Guarded, MAX_PRUNED, ManifestId, Unusable, highest_fence,
};

use self::keeping::parts_of;
use super::codec::{self, NoEntry};
use super::event::Beginning;
use super::record::Entry;
use crate::point::{Hook, Point};
use crate::store::{CheckpointStore, StoreError};

#[derive(Debug)]
pub(crate) struct Publisher {
    store: Arc<dyn CheckpointStore>,
    guard: EpochGuard,
    hook: Hook,
    swept: bool,
    /// Nothing of former terms' fences and bases is left.
    pruned: bool,
    ours: Ours,
    /// The objects that savepoints need, as far as they were read.
    savepoints: BTreeMap<String, BTreeSet<String>>,
    /// The objects that retained cuts need, by the entries that hold their manifests (number and term):
    /// an entry never changes, so it is written or read once.
    cuts: BTreeMap<(u64, u64), BTreeSet<String>>,
}

/// Which region a term is for.
#[derive(Debug, Clone)]
pub(crate) struct Ours {
    pub(crate) region: String,
    pub(crate) graph: u64,
    pub(crate) structure: u64,
}

/// What gives a coordinator its term.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mandate {
    /// Nothing: the next free one is taken, which is right only where nothing else hands out terms.
    Alone,
    /// Somebody who knows which terms were used.
    Term(u64),
    /// An election: the store keeps whose epochs count.
    Token(FencingToken),
}

/// How a term can't begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnterError {
    /// A coordinator with this or a higher term has been here: get a higher one.
    #[error("a coordinator of term {highest} has been here before")]
    SteppedDown {
        /// The highest term that was used.
        highest: u64,
    },
    /// The store can't be used now: try again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log can't be used.
    #[error(transparent)]
    Log(#[from] GuardError),
    /// The store belongs to another region: give each its own.
    #[error("the store holds region {theirs}, not {ours}")]
    AnotherRegion {
        /// This region.
        ours: String,
        /// The store's.
        theirs: String,
    },
    /// The store was written by a program with another graph.
    #[error("the store holds a region with graph {theirs:016x}, this program's is {ours:016x}")]
    AnotherGraph {
        /// This program's fingerprint.
        ours: u64,
        /// The store's.
        theirs: u64,
    },
    /// The coordination store (lease files, ZooKeeper, etcd, …) is another one than that of the
    /// coordinators before: it was replaced, or restored. Its epochs may be lower than theirs, and
    /// whether they are gone only a person can know. Nothing was changed.
    #[error(
        "the leadership is of lineage {found}, and the terms in {location} are of lineage {expected}: \
         the coordination store was replaced or restored; make sure that no coordinator of the former \
         one is left, then give the region to the new one by `lockkeeper-region adopt --lineage {found} \
         STORE`"
    )]
    LineageChanged {
        /// The region's store.
        location: String,
        /// The lineage of the store's terms.
        expected: Lineage,
        /// That of the leadership.
        found: Lineage,
    },
    /// A newer version of this crate wrote the log.
    #[error("the newest entry of the log can't be read: {0}")]
    NewerFormat(String),
}

impl EnterError {
    /// Whether the same may work later without anybody doing something about it.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::SteppedDown { .. } | Self::Store(_) | Self::Log(_)
        ) && !matches!(
            self,
            Self::Log(GuardError::FallBackRefused { .. } | GuardError::Corrupt { .. })
        )
    }
}

/// What came of an entry.
#[derive(Debug)]
pub(crate) enum Outcome {
    Appended,
    /// It certainly is not there.
    NotWritten(String),
    Over(Over),
}

/// A term is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Over {
    /// A higher term has begun.
    SteppedDown { highest: u64 },
    /// A write may or may not be there: a new term has to find out.
    Unknown(String),
}

impl Publisher {
    /// Begins a term: fences the former ones out, reads what they left.
    pub(crate) fn enter(
        store: Arc<dyn CheckpointStore>,
        mandate: Mandate,
        ours: &Ours,
        hook: Hook,
    ) -> Result<(Self, u64, Beginning), EnterError> {
        let log = store.guard_store()?;
        let announced = match mandate {
            Mandate::Alone => {
                let term = highest_fence(log.as_ref())? + 1;
                EpochGuard::announce(log, term)
            }
            Mandate::Term(term) => EpochGuard::announce(log, term),
            Mandate::Token(token) => EpochGuard::announce_with(log, &token),
        };
        let announced = announced.map_err(|error| match error {
            GuardError::LineageChanged { expected, found } => EnterError::LineageChanged {
                location: store.location(),
                expected,
                found,
            },
            error => error.into(),
        });
        let entering = led(announced?)?;
        if let Some(newest) = entering.chain().newest()
            && let Some(bytes) = entering.read(newest)?
        {
            check(&bytes, ours)?;
        }
        // The floor: a log that cannot be read is never taken for an empty one.
        let guard = led(entering.continue_from_usable(1, |_, bytes| {
            codec::decode(bytes)
                .map(|_| ())
                .map_err(|error| Unusable(error.to_string()))
        })?)?;
        let term = guard.epoch();
        let unusable_entries = u64::try_from(guard.base().left_out.len()).unwrap_or(u64::MAX);
        let mut publisher = Self {
            store,
            guard,
            hook,
            swept: false,
            pruned: false,
            ours: ours.clone(),
            savepoints: BTreeMap::new(),
            cuts: BTreeMap::new(),
        };
        // Here and not only with a cut: a region that completes none may have many terms.
        match publisher.prune() {
            Ok(guarded) => led(guarded)?,
            Err(error) => tracing::warn!(%error, "former terms could not be removed from the log"),
        }
        let record = match publisher.guard.newest() {
            None => None,
            Some(newest) => Some(publisher.entry(newest)?.record),
        };
        Ok((
            publisher,
            term,
            Beginning {
                record,
                unusable_entries,
            },
        ))
    }

    pub(crate) fn append(&mut self, mut entry: Entry) -> Outcome {
        let (before, after) = match &mut entry.manifest {
            Some(manifest) => {
                manifest.published_at_ms = now_unix_ms();
                (Some(Point::BeforeManifest), Point::AfterManifest)
            }
            None => (None, Point::BetweenRecordAndMessage),
        };
        let bytes = match codec::encode(&entry) {
            Ok(bytes) => bytes,
            Err(error) => return Outcome::NotWritten(error.to_string()),
        };
        if let Some(point) = before {
            self.hook.at(point);
        }
        match self.guard.publish(entry.record.number, &bytes) {
            Ok(Guarded::Done(_)) => {
                self.hook.at(after);
                if let Some(manifest) = &entry.manifest {
                    let id = (entry.record.number, self.guard.epoch());
                    self.cuts.insert(id, parts_of(manifest));
                }
                Outcome::Appended
            }
            Ok(Guarded::SteppedDown { highest }) => Outcome::Over(Over::SteppedDown { highest }),
            Err(
                error @ (GuardError::NotWritten { .. }
                | GuardError::TooLarge { .. }
                | GuardError::InvalidName { .. }),
            ) => Outcome::NotWritten(error.to_string()),
            Err(error) => Outcome::Over(Over::Unknown(error.to_string())),
        }
    }

    /// Removes fences and bases of former terms, some at a time.
    fn prune(&mut self) -> Result<Guarded<()>, GuardError> {
        if self.pruned {
            return Ok(Guarded::Done(()));
        }
        Ok(match self.guard.prune()? {
            Guarded::Done(removed) => {
                self.pruned = removed < MAX_PRUNED;
                Guarded::Done(())
            }
            Guarded::SteppedDown { highest } => Guarded::SteppedDown { highest },
        })
    }

    fn entry(&self, id: ManifestId) -> Result<Entry, GuardError> {
        let corrupt = |reason: String| GuardError::Corrupt {
            name: id.name(),
            reason,
        };
        let bytes = self
            .guard
            .read(id)?
            .ok_or_else(|| corrupt("it is missing".to_owned()))?;
        codec::decode(&bytes).map_err(|error: NoEntry| corrupt(error.to_string()))
    }
}

/// The newest entry is of this region, or damaged (then the one before is looked for).
fn check(bytes: &[u8], ours: &Ours) -> Result<(), EnterError> {
    match codec::decode(bytes) {
        Err(error @ (NoEntry::Newer { .. } | NoEntry::NewerManifest(_))) => {
            Err(EnterError::NewerFormat(error.to_string()))
        }
        Err(NoEntry::Damaged(_)) => Ok(()),
        Ok(Entry { record, .. }) if record.region != ours.region => {
            Err(EnterError::AnotherRegion {
                ours: ours.region.clone(),
                theirs: record.region,
            })
        }
        // Other widths are restored from the newest cut.
        Ok(Entry { record, .. }) if record.structure == ours.structure => Ok(()),
        Ok(Entry { record, .. }) if record.graph != ours.graph => Err(EnterError::AnotherGraph {
            ours: ours.graph,
            theirs: record.graph,
        }),
        Ok(_) => Ok(()),
    }
}

fn led<T>(guarded: Guarded<T>) -> Result<T, EnterError> {
    match guarded {
        Guarded::Done(done) => Ok(done),
        Guarded::SteppedDown { highest } => Err(EnterError::SteppedDown { highest }),
    }
}
