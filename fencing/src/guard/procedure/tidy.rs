//! Removing manifests: retired ones at the old end of the chain, and those that no chain has.

use super::look::Look;
use super::walk::Walk;
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::chain::Chain;
use crate::guard::store::Guarded;
use crate::guard::{GuardError, ManifestId};

/// What is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// Manifests of the chain below this number; never the newest.
    RetiredBelow(u64),
    /// Manifests of former leaders that are not in the chain.
    LeftOver,
}

/// Reads the chain, looks at the fences, and removes. The last look comes before the first
/// removal: a removal cannot be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tidy {
    epoch: u64,
    what: What,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Walking(Walk),
    Looking {
        doomed: Vec<ManifestId>,
    },
    Removing {
        doomed: Vec<ManifestId>,
        removed: Vec<ManifestId>,
    },
}

impl Tidy {
    pub(crate) fn new(epoch: u64, what: What) -> Self {
        Tidy {
            epoch,
            what,
            state: State::Walking(Walk::up_to(epoch)),
        }
    }

    fn doomed(&self, chain: &Chain) -> Vec<ManifestId> {
        match self.what {
            What::RetiredBelow(limit) => chain
                .manifests()
                .filter(|manifest| manifest.sequence < limit && Some(*manifest) != chain.newest())
                .collect(),
            What::LeftOver => chain
                .left_over()
                .filter(|manifest| manifest.epoch < self.epoch)
                .collect(),
        }
    }

    fn remove(
        &mut self,
        mut doomed: Vec<ManifestId>,
        removed: Vec<ManifestId>,
    ) -> Next<Guarded<Vec<ManifestId>>> {
        match doomed.pop() {
            Some(manifest) => {
                doomed.push(manifest);
                self.state = State::Removing { doomed, removed };
                Next::Access(Access::Remove {
                    name: manifest.name(),
                })
            }
            None => Next::Done(Guarded::Done(removed)),
        }
    }
}

impl Procedure for Tidy {
    type Output = Guarded<Vec<ManifestId>>;

    fn begin(&self) -> Access {
        Walk::up_to(self.epoch).begin()
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Self::Output>, GuardError> {
        let empty = State::Looking { doomed: Vec::new() };
        match (std::mem::replace(&mut self.state, empty), answer) {
            (State::Walking(mut walk), answer) => {
                let access = match walk.step(answer)? {
                    Next::Access(access) => {
                        self.state = State::Walking(walk);
                        access
                    }
                    Next::Done(chain) => {
                        self.state = State::Looking {
                            doomed: self.doomed(&chain),
                        };
                        Look { epoch: self.epoch }.begin()
                    }
                };
                Ok(Next::Access(access))
            }
            (State::Looking { mut doomed }, names @ Answer::Names(_)) => {
                match (Look { epoch: self.epoch }).step(names)? {
                    Next::Done(Guarded::SteppedDown { highest }) => {
                        Ok(Next::Done(Guarded::SteppedDown { highest }))
                    }
                    Next::Access(access) => Ok(Next::Access(access)),
                    Next::Done(Guarded::Done(())) => {
                        // The oldest goes first, so that what stays is an unbroken end.
                        doomed.reverse();
                        Ok(self.remove(doomed, Vec::new()))
                    }
                }
            }
            (
                State::Removing {
                    mut doomed,
                    mut removed,
                },
                Answer::Removed,
            ) => {
                removed.extend(doomed.pop());
                Ok(self.remove(doomed, removed))
            }
            (_, answer) => mismatched(&answer),
        }
    }
}
