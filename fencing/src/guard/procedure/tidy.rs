//! Removing manifests: retired ones at the old end of the chain, and those that no chain has.

use super::look::{Look, OwnFence};
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::chain::Chain;
use crate::guard::record::Base;
use crate::guard::store::Guarded;
use crate::guard::{GuardError, ManifestId, name};

/// What is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// Manifests of the chain below this number; never the newest.
    RetiredBelow(u64),
    /// Manifests of former leaders that are not in the chain.
    LeftOver,
}

/// Lists the manifests, looks at the fences, and removes. The last look comes before the first
/// removal: a removal cannot be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tidy {
    own: OwnFence,
    base: Base,
    what: What,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Listing,
    Looking {
        look: Look,
        doomed: Vec<ManifestId>,
    },
    Removing {
        doomed: Vec<ManifestId>,
        removed: Vec<ManifestId>,
    },
}

impl Tidy {
    pub(crate) fn new(own: OwnFence, base: Base, what: What) -> Self {
        Tidy {
            own,
            base,
            what,
            state: State::Listing,
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
                .filter(|manifest| manifest.epoch < self.own.epoch)
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
        Access::List {
            prefix: name::MANIFESTS,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Self::Output>, GuardError> {
        match (std::mem::replace(&mut self.state, State::Listing), answer) {
            (State::Listing, Answer::Names(names)) => {
                let manifests = name::manifests(&names).collect();
                let top = Some((self.own.epoch, &self.base));
                let doomed = self.doomed(&Chain::seen_from(top, manifests));
                let look = Look::new(self.own.clone());
                let access = look.begin();
                self.state = State::Looking { look, doomed };
                Ok(Next::Access(access))
            }
            (
                State::Looking {
                    mut look,
                    mut doomed,
                },
                answer,
            ) => match look.step(answer)? {
                Next::Access(access) => {
                    self.state = State::Looking { look, doomed };
                    Ok(Next::Access(access))
                }
                Next::Done(Guarded::SteppedDown { highest }) => {
                    Ok(Next::Done(Guarded::SteppedDown { highest }))
                }
                Next::Done(Guarded::Done(())) => {
                    // The oldest goes first, so that what stays is an unbroken end.
                    doomed.reverse();
                    Ok(self.remove(doomed, Vec::new()))
                }
            },
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
