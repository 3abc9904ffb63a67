//! How somebody who is not the leader reads the newest manifest.

use super::look;
use super::walk::Walk;
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::chain::Chain;
use crate::guard::{GuardError, ManifestId, name};

/// Reads the chain and its newest manifest, *then* the fences: with a fence above the highest base
/// a new leader may be choosing a base that leaves this manifest out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReadNewest {
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Walking(Walk),
    Reading { chain: Chain, manifest: ManifestId },
    Looking { chain: Chain, found: Found },
}

type Found = Option<(ManifestId, Vec<u8>)>;

impl ReadNewest {
    pub(crate) fn new() -> Self {
        ReadNewest {
            state: State::Walking(Walk::up_to(u64::MAX)),
        }
    }

    fn look(&mut self, chain: Chain, found: Found) -> Next<Found> {
        self.state = State::Looking { chain, found };
        Next::Access(Access::List {
            prefix: name::FENCES,
        })
    }
}

impl Procedure for ReadNewest {
    type Output = Found;

    fn begin(&self) -> Access {
        Walk::up_to(u64::MAX).begin()
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Found>, GuardError> {
        let empty = State::Walking(Walk::up_to(u64::MAX));
        match (std::mem::replace(&mut self.state, empty), answer) {
            (State::Walking(mut walk), answer) => match walk.step(answer)? {
                Next::Access(access) => {
                    self.state = State::Walking(walk);
                    Ok(Next::Access(access))
                }
                Next::Done(chain) => match chain.newest() {
                    Some(manifest) => {
                        self.state = State::Reading { chain, manifest };
                        Ok(Next::Access(Access::Read {
                            name: manifest.name(),
                        }))
                    }
                    None => Ok(self.look(chain, None)),
                },
            },
            (State::Reading { chain, manifest }, Answer::Bytes(Some(bytes))) => {
                Ok(self.look(chain, Some((manifest, bytes))))
            }
            // Retired since it was listed: somebody has published, so it is not the newest.
            (State::Reading { chain, .. }, Answer::Bytes(None)) => Err(GuardError::Unsettled {
                fence: chain.top().unwrap_or(0),
            }),
            (State::Looking { chain, found }, Answer::Names(names)) => {
                let fence = look::highest(&names);
                if fence > chain.top().unwrap_or(0) {
                    return Err(GuardError::Unsettled { fence });
                }
                Ok(Next::Done(found))
            }
            (_, answer) => mismatched(&answer),
        }
    }
}
