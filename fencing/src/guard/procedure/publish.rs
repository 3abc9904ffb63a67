//! How a manifest is published: create it, then look at the fences.

use super::look::{Look, OwnFence};
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::store::Guarded;
use crate::guard::{GuardError, ManifestId};

/// Creates the manifest, *then* looks. A publisher that has to step down leaves its manifest where
/// it is: it may be the newest of the chain that the successor has already chosen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Publish {
    manifest: ManifestId,
    bytes: Vec<u8>,
    look: Look,
    created: bool,
}

impl Publish {
    pub(crate) fn new(own: OwnFence, sequence: u64, bytes: Vec<u8>) -> Self {
        Publish {
            manifest: ManifestId {
                sequence,
                epoch: own.epoch,
            },
            bytes,
            look: Look::new(own),
            created: false,
        }
    }
}

impl Publish {
    #[cfg(test)]
    pub(crate) fn manifest(&self) -> ManifestId {
        self.manifest
    }
}

impl Procedure for Publish {
    type Output = Guarded<ManifestId>;

    fn begin(&self) -> Access {
        Access::Create {
            name: self.manifest.name(),
            bytes: self.bytes.clone(),
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Guarded<ManifestId>>, GuardError> {
        match answer {
            Answer::Created if !self.created => {
                self.created = true;
                Ok(Next::Access(self.look.begin()))
            }
            // Only the leader of this epoch writes such names, and it writes each once.
            Answer::AlreadyExists if !self.created => Err(GuardError::Corrupt {
                name: self.manifest.name(),
                reason: "another process has published under this epoch".to_owned(),
            }),
            answer if self.created => Ok(match self.look.step(answer)? {
                Next::Access(access) => Next::Access(access),
                Next::Done(Guarded::Done(())) => Next::Done(Guarded::Done(self.manifest)),
                Next::Done(Guarded::SteppedDown { highest }) => {
                    Next::Done(Guarded::SteppedDown { highest })
                }
            }),
            answer => mismatched(&answer),
        }
    }
}
