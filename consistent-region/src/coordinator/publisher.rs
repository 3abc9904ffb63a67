//! The coordinator's hand on the store: the guarded log, the search for what can be restored, and
//! the removal of what nobody needs.
//!
//! All calls block. One publisher belongs to one term; after it has stepped down, or after a write
//! of unknown outcome, it does nothing any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lockkeeper_core::token::{FencingToken, Lineage};
use lockkeeper_fencing::guard::{
    EpochGuard, GuardError, Guarded, ManifestId, Unusable, highest_fence,
};

use super::codec::{self, NoEntry};
use super::event::{Beginning, Choice, CommandRefused};
use super::record::{Entry, Record, Retained};
use super::savepoint::{self, Savepoint, list_savepoints, read_savepoint};
use crate::manifest::{Manifest, RestorePoint};
use crate::point::{Hook, Point};
use crate::store::{CheckpointStore, ObjectName, StoreError, verify};

/// How often damage is looked at before it is believed.
const READS: usize = 3;

#[derive(Debug)]
pub(crate) struct Publisher {
    store: Arc<dyn CheckpointStore>,
    guard: EpochGuard,
    hook: Hook,
    swept: bool,
    ours: Ours,
    /// The objects that savepoints need, as far as they were read.
    savepoints: BTreeMap<String, BTreeSet<String>>,
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
        let publisher = Self {
            store,
            guard,
            hook,
            swept: false,
            ours: ours.clone(),
            savepoints: BTreeMap::new(),
        };
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
                manifest.published_at_ms = now_ms();
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

    /// The newest cut of `record` whose manifest and objects are as they were written.
    pub(crate) fn choose(&self, record: &Record) -> Choice {
        let mut left_out = Vec::new();
        for (position, retained) in record.retained.iter().enumerate() {
            if let Some(reason) = record.moved_on_since(retained.seq) {
                return impossible(reason, left_out.pop());
            }
            match self.readable(retained) {
                Ok(manifest) => {
                    let retained = record.retained[position..].to_vec();
                    let oldest_retained = record.oldest_retained();
                    return restore(manifest, retained, oldest_retained, left_out);
                }
                Err(Unreadable::Now(reason)) => return Choice::Unavailable { reason },
                Err(Unreadable::ForGood { reason, may_skip }) => {
                    tracing::error!(seq = retained.seq, reason, "a completed cut can't be read");
                    if !may_skip.unwrap_or(!record.irrevocable) {
                        let seq = retained.seq;
                        return Choice::Impossible {
                            reason: format!(
                                "cut {seq} can't be read ({reason}), and what its sinks committed \
                                 can't be taken back"
                            ),
                        };
                    }
                    left_out.push((retained.seq, reason));
                }
            }
        }
        if record.completed == 0 || record.initial_state_retained {
            if let Some(reason) = record.moved_on_since(0) {
                return impossible(reason, left_out.pop());
            }
            let (restore, last, retained) = (None, false, Vec::new());
            return Choice::Restore {
                restore,
                last,
                retained,
                left_out,
                manifest: None,
            };
        }
        let (seq, reason) = left_out
            .pop()
            .unwrap_or((record.completed, "nothing is kept".into()));
        Choice::Impossible {
            reason: format!("no kept cut can be read; {seq}: {reason}"),
        }
    }

    fn readable(&self, retained: &Retained) -> Result<Manifest, Unreadable> {
        let mut last = Unreadable::Now(String::new());
        for _ in 0..READS {
            match self.read_whole(retained) {
                Err(error @ Unreadable::ForGood { .. }) => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    fn read_whole(&self, retained: &Retained) -> Result<Manifest, Unreadable> {
        let manifest = self.manifest(retained)?;
        let may_skip = Some(manifest.tokens.iter().all(|token| token.can_take_back));
        self.verify(&manifest)
            .map_err(|error| match Unreadable::from(error) {
                Unreadable::ForGood { reason, .. } => Unreadable::ForGood { reason, may_skip },
                now @ Unreadable::Now(_) => now,
            })?;
        Ok(manifest)
    }

    fn verify(&self, manifest: &Manifest) -> Result<(), StoreError> {
        manifest
            .parts()
            .try_for_each(|part| verify(self.store.as_ref(), part))
    }

    /// The cut of a savepoint, if it is as it was written.
    pub(crate) fn choose_savepoint(&self, name: &str) -> Choice {
        let read = || -> Result<Manifest, Unreadable> {
            let Savepoint { manifest, .. } = read_savepoint(self.store.as_ref(), name)?;
            let fits =
                manifest.graph == self.ours.graph || manifest.structure == self.ours.structure;
            if !fits {
                return Err(Unreadable::ForGood {
                    reason: "it is of a region with another graph".to_owned(),
                    may_skip: None,
                });
            }
            self.verify(&manifest)?;
            Ok(manifest)
        };
        let mut last = read();
        for _ in 1..READS {
            if matches!(last, Err(Unreadable::ForGood { .. })) {
                last = read();
            }
        }
        match last {
            Ok(manifest) => {
                let (kept, oldest) = (manifest.clone(), manifest.seq);
                match restore(manifest, Vec::new(), oldest, Vec::new()) {
                    Choice::Restore {
                        restore,
                        retained,
                        left_out,
                        ..
                    } => Choice::Restore {
                        restore,
                        last: false,
                        retained,
                        left_out,
                        manifest: Some(Box::new(kept)),
                    },
                    other => other,
                }
            }
            Err(Unreadable::Now(reason)) => Choice::Unavailable { reason },
            Err(Unreadable::ForGood { reason, .. }) => Choice::Impossible {
                reason: format!("savepoint {name} can't be restored: {reason}"),
            },
        }
    }

    /// Keeps a completed cut under a name.
    pub(crate) fn keep_savepoint(
        &mut self,
        name: &str,
        cut: &Retained,
    ) -> Result<(), CommandRefused> {
        let manifest = self.manifest(cut).map_err(|error| CommandRefused::Store {
            reason: error.to_string(),
        })?;
        let needed = parts_of(&manifest);
        savepoint::write(self.store.as_ref(), &Savepoint::now(name, manifest))
            .map_err(|error| refused(name, error))?;
        self.savepoints.insert(name.to_owned(), needed);
        Ok(())
    }

    pub(crate) fn find_savepoint(&self, name: &str) -> Result<Savepoint, CommandRefused> {
        read_savepoint(self.store.as_ref(), name).map_err(|error| refused(name, error))
    }

    pub(crate) fn remove_savepoint(&mut self, name: &str) -> Result<(), CommandRefused> {
        savepoint::remove(self.store.as_ref(), name).map_err(|error| refused(name, error))?;
        self.savepoints.remove(name);
        Ok(())
    }

    /// What the savepoints that lie in the store need.
    fn needed_by_savepoints(&mut self) -> Result<BTreeSet<String>, StoreError> {
        let names = list_savepoints(self.store.as_ref())?;
        self.savepoints.retain(|name, _| names.contains(name));
        for name in names {
            if !self.savepoints.contains_key(&name) {
                let Savepoint { manifest, .. } = read_savepoint(self.store.as_ref(), &name)?;
                self.savepoints.insert(name, parts_of(&manifest));
            }
        }
        Ok(self.savepoints.values().flatten().cloned().collect())
    }

    fn manifest(&self, retained: &Retained) -> Result<Manifest, Unreadable> {
        let id = ManifestId {
            sequence: retained.entry,
            epoch: retained.term,
        };
        let for_good = |reason: String| Unreadable::ForGood {
            reason,
            may_skip: None,
        };
        let entry = self.entry(id).map_err(|error| match error {
            GuardError::Corrupt { .. } => for_good(error.to_string()),
            error => Unreadable::Now(error.to_string()),
        })?;
        match entry.manifest {
            Some(manifest) if manifest.seq == retained.seq => Ok(manifest),
            _ => Err(for_good(format!("entry {id} holds another cut"))),
        }
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

    /// Removes entries and objects that `record` does not retain, and those of rounds that came to
    /// nothing. What can't be removed now is removed next time.
    pub(crate) fn tidy(&mut self, record: &Record) -> Result<(), Over> {
        match self.try_tidy(record) {
            Ok(Guarded::Done(())) => Ok(()),
            Ok(Guarded::SteppedDown { highest }) => Err(Over::SteppedDown { highest }),
            Err(reason) => {
                tracing::warn!(reason, "the store could not be tidied up");
                Ok(())
            }
        }
    }

    fn try_tidy(&mut self, record: &Record) -> Result<Guarded<()>, String> {
        if let Guarded::SteppedDown { highest } = self.guard.look().map_err(text)? {
            return Ok(Guarded::SteppedDown { highest });
        }
        // Whose objects are not known might lose them: rather remove nothing.
        let mut needed = self.needed_by_savepoints().map_err(text)?;
        for retained in &record.retained {
            let manifest = self.manifest(retained).map_err(|error| error.to_string())?;
            needed.extend(parts_of(&manifest));
        }
        let over = |name: &str| {
            ObjectName::parse(name).is_some_and(|name| name.stamp.seq < record.next_cut)
        };
        for name in self.store.list_objects().map_err(text)? {
            if over(&name) && !needed.contains(&name) {
                self.store.remove_object(&name).map_err(text)?;
            }
        }
        self.store.remove_unfinished(&over).map_err(text)?;
        // One entry before the newest stays as well, should the newest be damaged one day.
        let oldest = record.retained.iter().map(|retained| retained.entry).min();
        let limit = oldest
            .unwrap_or(u64::MAX)
            .min(record.number.saturating_sub(1));
        if let Guarded::SteppedDown { highest } = self.guard.retire_below(limit).map_err(text)? {
            return Ok(Guarded::SteppedDown { highest });
        }
        if !self.swept {
            if let Guarded::SteppedDown { highest } = self.guard.sweep().map_err(text)? {
                return Ok(Guarded::SteppedDown { highest });
            }
            self.swept = true;
        }
        Ok(Guarded::Done(()))
    }
}

/// Nothing may be gone back to; `left_out` is the last cut that was tried before.
fn impossible(reason: String, left_out: Option<(u64, String)>) -> Choice {
    let reason = match left_out {
        Some((seq, unreadable)) => format!("cut {seq} can't be read ({unreadable}), and {reason}"),
        None => reason,
    };
    Choice::Impossible { reason }
}

#[derive(Debug, thiserror::Error)]
enum Unreadable {
    /// The store does not answer.
    #[error("{0}")]
    Now(String),
    /// Damaged or missing. `may_skip`: whether everything that was committed with it can be taken
    /// back; unknown when the manifest itself can't be read.
    #[error("{reason}")]
    ForGood {
        reason: String,
        may_skip: Option<bool>,
    },
}

fn parts_of(manifest: &Manifest) -> BTreeSet<String> {
    manifest.parts().map(|part| part.object.clone()).collect()
}

fn refused(name: &str, error: StoreError) -> CommandRefused {
    let name = name.to_owned();
    match error {
        StoreError::Missing { .. } => CommandRefused::NoSavepoint { name },
        StoreError::Exists { .. } => CommandRefused::NameTaken { name },
        error => CommandRefused::Store {
            reason: error.to_string(),
        },
    }
}

impl From<StoreError> for Unreadable {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { .. } => Self::Now(error.to_string()),
            error => Self::ForGood {
                reason: error.to_string(),
                may_skip: None,
            },
        }
    }
}

fn restore(
    manifest: Manifest,
    retained: Vec<Retained>,
    oldest_retained: u64,
    left_out: Vec<(u64, String)>,
) -> Choice {
    let Manifest {
        seq,
        last,
        objects,
        tokens,
        widths,
        ..
    } = manifest;
    let restore = Some(RestorePoint {
        seq,
        oldest_retained,
        objects,
        tokens,
        widths,
    });
    Choice::Restore {
        restore,
        last,
        retained,
        left_out,
        manifest: None,
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

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
