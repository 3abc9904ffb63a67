//! What there is to go back to: the newest cut of the record, or a savepoint, that can be read as it
//! was written.

use lockkeeper_fencing::guard::{GuardError, ManifestId};

use super::Publisher;
use crate::coordinator::event::Choice;
use crate::coordinator::record::{Record, Retained};
use crate::coordinator::savepoint::{Savepoint, read_savepoint};
use crate::manifest::{Manifest, RestorePoint};
use crate::store::{StoreError, verify};

/// How often damage is looked at before it is believed.
const READS: usize = 3;

impl Publisher {
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

    pub(super) fn manifest(&self, retained: &Retained) -> Result<Manifest, Unreadable> {
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
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
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

/// Nothing may be gone back to; `left_out` is the last cut that was tried before.
fn impossible(reason: String, left_out: Option<(u64, String)>) -> Choice {
    let reason = match left_out {
        Some((seq, unreadable)) => format!("cut {seq} can't be read ({unreadable}), and {reason}"),
        None => reason,
    };
    Choice::Impossible { reason }
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
