//! Reading the chain: the bases are listed, the highest one is read, then the manifests are listed.

use std::collections::BTreeSet;

use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::chain::Chain;
use crate::guard::record::{self, Base};
use crate::guard::{GuardError, ManifestId, name};

/// Reads the chain as seen from the highest base that is not above `up_to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Walk {
    up_to: u64,
    state: State,
}

/// What came of a walk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Walked {
    /// The chain.
    Whole(Chain),
    /// A base that must be there is not: its leader's successor has removed it meanwhile.
    Overtaken {
        /// The epoch of the base that was looked for, 0 if there is none at all.
        epoch: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    ListingBases,
    /// There is no base: there never was one, unless some have been removed.
    ReadingPruned,
    ReadingBase {
        epoch: u64,
    },
    ListingManifests {
        top: Option<(u64, Base)>,
    },
}

impl Walk {
    pub(crate) fn up_to(epoch: u64) -> Self {
        Walk {
            up_to: epoch,
            state: State::ListingBases,
        }
    }

    fn list_manifests(&mut self, top: Option<(u64, Base)>) -> Next<Walked> {
        self.state = State::ListingManifests { top };
        Next::Access(Access::List {
            prefix: name::MANIFESTS,
        })
    }
}

impl Procedure for Walk {
    type Output = Walked;

    fn begin(&self) -> Access {
        Access::List {
            prefix: name::BASES,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Walked>, GuardError> {
        match (
            std::mem::replace(&mut self.state, State::ListingBases),
            answer,
        ) {
            (State::ListingBases, Answer::Names(names)) => {
                let up_to = self.up_to;
                let top = name::numbers(name::BASES, &names)
                    .filter(|epoch| *epoch <= up_to)
                    .max();
                let name = match top {
                    Some(epoch) => {
                        self.state = State::ReadingBase { epoch };
                        name::base(epoch)
                    }
                    None => {
                        self.state = State::ReadingPruned;
                        name::PRUNED.to_owned()
                    }
                };
                Ok(Next::Access(Access::Read { name }))
            }
            (State::ReadingPruned, Answer::Bytes(None)) => Ok(self.list_manifests(None)),
            (State::ReadingPruned, Answer::Bytes(Some(_))) => {
                Ok(Next::Done(Walked::Overtaken { epoch: 0 }))
            }
            (State::ReadingBase { epoch }, Answer::Bytes(None)) => {
                Ok(Next::Done(Walked::Overtaken { epoch }))
            }
            (State::ReadingBase { epoch }, Answer::Bytes(Some(bytes))) => {
                let base = record::decode(&name::base(epoch), &bytes)?;
                Ok(self.list_manifests(Some((epoch, base))))
            }
            (State::ListingManifests { top }, Answer::Names(names)) => {
                let manifests: BTreeSet<ManifestId> = name::manifests(&names).collect();
                let top = top.as_ref().map(|(epoch, base)| (*epoch, base));
                Ok(Next::Done(Walked::Whole(Chain::seen_from(top, manifests))))
            }
            (_, answer) => mismatched(&answer),
        }
    }
}
