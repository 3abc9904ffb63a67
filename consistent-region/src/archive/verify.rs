//! Whether everything is as it was written.

use serde::{Deserialize, Serialize};

use super::{Archive, ArchiveError};
use crate::manifest::Manifest;
use crate::store::verify;

/// What was found of one cut or savepoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutVerdict {
    /// The cut.
    pub seq: u64,
    /// The name that it is kept under; `None` for one of the region's own.
    pub savepoint: Option<String>,
    /// Objects that were read whole.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What is missing or damaged; the cut can't be restored then.
    pub faults: Vec<Fault>,
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The object, or the entry of the log.
    pub name: String,
    /// What is wrong with it.
    pub what: String,
}

impl Archive {
    /// Reads every object of every cut and savepoint, and compares lengths and checksums.
    ///
    /// # Errors
    /// As [`overview`](Self::overview). What is damaged is no error, but in the verdicts.
    pub fn verify(&self) -> Result<Vec<CutVerdict>, ArchiveError> {
        let record = self.newest()?.record;
        let mut verdicts = Vec::new();
        for retained in &record.retained {
            let entry = format!("entry {}.{}", retained.entry, retained.term);
            verdicts.push(match self.manifest(retained) {
                Ok(manifest) => self.verify_cut(&manifest, None),
                Err(error) => unreadable(retained.seq, None, entry, &error),
            });
        }
        for kept in self.savepoints()? {
            let name = Some(kept.name.clone());
            verdicts.push(match kept.savepoint {
                Some(savepoint) => self.verify_cut(&savepoint.manifest, name),
                None => unreadable(0, name, kept.name, &kept.fault.unwrap_or_default()),
            });
        }
        Ok(verdicts)
    }

    fn verify_cut(&self, manifest: &Manifest, savepoint: Option<String>) -> CutVerdict {
        let mut verdict = CutVerdict {
            seq: manifest.seq,
            savepoint,
            objects: 0,
            bytes: 0,
            faults: Vec::new(),
        };
        for object in manifest.parts() {
            match verify(self.store.as_ref(), object) {
                Ok(()) => {
                    verdict.objects += 1;
                    verdict.bytes += object.length;
                }
                Err(error) => verdict.faults.push(Fault {
                    name: object.object.clone(),
                    what: error.to_string(),
                }),
            }
        }
        verdict
    }
}

fn unreadable(
    seq: u64,
    savepoint: Option<String>,
    name: String,
    what: &impl ToString,
) -> CutVerdict {
    CutVerdict {
        seq,
        savepoint,
        objects: 0,
        bytes: 0,
        faults: vec![Fault {
            name,
            what: what.to_string(),
        }],
    }
}
