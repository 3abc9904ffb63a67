//! How somebody who is not the leader reads the newest manifest.

use super::fences::LookFrom;
use super::look;
use super::walk::{Walk, Walked};
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
    Reading {
        top: u64,
        manifest: ManifestId,
    },
    Looking {
        top: u64,
        look: LookFrom,
        found: Found,
    },
    /// There was no base.
    LookingForAny,
}

type Found = Option<(ManifestId, Vec<u8>)>;

impl ReadNewest {
    pub(crate) fn new() -> Self {
        ReadNewest {
            state: State::Walking(Walk::up_to(u64::MAX)),
        }
    }

    fn look(&mut self, top: u64, found: Found) -> Next<Found> {
        let look = LookFrom::new(top);
        let access = look.begin();
        self.state = State::Looking { top, look, found };
        Next::Access(access)
    }

    fn walked(&mut self, chain: &Chain) -> Next<Found> {
        match (chain.top(), chain.newest()) {
            (Some(top), Some(manifest)) => {
                self.state = State::Reading { top, manifest };
                Next::Access(Access::Read {
                    name: manifest.name(),
                })
            }
            (Some(top), None) => self.look(top, None),
            (None, _) => {
                self.state = State::LookingForAny;
                Next::Access(Access::List {
                    prefix: name::FENCES,
                })
            }
        }
    }
}

impl Procedure for ReadNewest {
    type Output = Found;

    fn begin(&self) -> Access {
        Walk::up_to(u64::MAX).begin()
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Found>, GuardError> {
        let unsettled = |fence| Err(GuardError::Unsettled { fence });
        let empty = State::Walking(Walk::up_to(u64::MAX));
        match (std::mem::replace(&mut self.state, empty), answer) {
            (State::Walking(mut walk), answer) => match walk.step(answer)? {
                Next::Access(access) => {
                    self.state = State::Walking(walk);
                    Ok(Next::Access(access))
                }
                Next::Done(Walked::Whole(chain)) => Ok(self.walked(&chain)),
                Next::Done(Walked::Overtaken { epoch }) => unsettled(epoch),
            },
            (State::Reading { top, manifest }, Answer::Bytes(Some(bytes))) => {
                Ok(self.look(top, Some((manifest, bytes))))
            }
            // Retired since it was listed: somebody has published, so it is not the newest.
            (State::Reading { top, .. }, Answer::Bytes(None)) => unsettled(top),
            (
                State::Looking {
                    top,
                    mut look,
                    found,
                },
                answer,
            ) => match look.step(answer)? {
                Next::Access(access) => {
                    self.state = State::Looking { top, look, found };
                    Ok(Next::Access(access))
                }
                Next::Done(Some(highest)) if highest == top => Ok(Next::Done(found)),
                Next::Done(highest) => unsettled(highest.unwrap_or(top)),
            },
            (State::LookingForAny, Answer::Names(names)) => match look::highest(&names) {
                0 => Ok(Next::Done(None)),
                fence => unsettled(fence),
            },
            (_, answer) => mismatched(&answer),
        }
    }
}
