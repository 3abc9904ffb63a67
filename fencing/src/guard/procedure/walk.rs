//! Reading the chain: the bases are listed first, then the manifests, then bases are read from the
//! top down as far as the manifests go.

use std::collections::BTreeSet;

use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::chain::{Chain, ChainBuilder};
use crate::guard::{GuardError, ManifestId, name, record};

/// Reads the chain as seen from the highest base that is not above `up_to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Walk {
    up_to: u64,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    ListingBases,
    ListingManifests { top: Option<u64> },
    ReadingBase { epoch: u64, builder: ChainBuilder },
}

impl Walk {
    pub(crate) fn up_to(epoch: u64) -> Self {
        Walk {
            up_to: epoch,
            state: State::ListingBases,
        }
    }

    fn next(&mut self, builder: ChainBuilder) -> Next<Chain> {
        match builder.wanted() {
            Some(epoch) => {
                self.state = State::ReadingBase { epoch, builder };
                Next::Access(Access::Read {
                    name: name::base(epoch),
                })
            }
            None => Next::Done(builder.finish()),
        }
    }
}

impl Procedure for Walk {
    type Output = Chain;

    fn begin(&self) -> Access {
        Access::List {
            prefix: name::BASES,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Chain>, GuardError> {
        match (
            std::mem::replace(&mut self.state, State::ListingBases),
            answer,
        ) {
            (State::ListingBases, Answer::Names(names)) => {
                let up_to = self.up_to;
                let top = name::numbers(name::BASES, &names)
                    .filter(|epoch| *epoch <= up_to)
                    .max();
                self.state = State::ListingManifests { top };
                Ok(Next::Access(Access::List {
                    prefix: name::MANIFESTS,
                }))
            }
            (State::ListingManifests { top }, Answer::Names(names)) => {
                let manifests: BTreeSet<ManifestId> = name::manifests(&names).collect();
                Ok(self.next(ChainBuilder::new(top, manifests)))
            }
            (State::ReadingBase { epoch, mut builder }, Answer::Bytes(bytes)) => {
                let name = name::base(epoch);
                let Some(bytes) = bytes else {
                    return Err(GuardError::Corrupt {
                        name,
                        reason: "it is missing".to_owned(),
                    });
                };
                builder.follow(epoch, &record::decode(&name, &bytes)?);
                Ok(self.next(builder))
            }
            (_, answer) => mismatched(&answer),
        }
    }
}
