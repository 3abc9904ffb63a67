//! Removing the fences and bases of former leaders.

use super::look::{Look, OwnFence};
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::record::{self, PrunedRecord};
use crate::guard::store::Guarded;
use crate::guard::{GuardError, name};

/// Lists bases and fences below the own epoch, looks, and removes them from the lowest up.
///
/// Only for a leader that has looked after its base: from then on its fence refuses what theirs
/// refused, and its base tells what theirs told. Before the first removal ever, `pruned` is created:
/// where it is not, nothing can have been missed in a listing because it was removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prune {
    own: OwnFence,
    limit: usize,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    ListingBases,
    ListingFences {
        bases: Vec<u64>,
    },
    Looking {
        look: Look,
        doomed: Vec<String>,
    },
    ReadingPruned {
        doomed: Vec<String>,
    },
    CreatingPruned {
        doomed: Vec<String>,
    },
    /// What is to be removed next is the last.
    Removing {
        doomed: Vec<String>,
        removed: usize,
    },
}

impl Prune {
    /// Removes at most `limit` records.
    pub(crate) fn new(own: OwnFence, limit: usize) -> Self {
        Prune {
            own,
            limit,
            state: State::ListingBases,
        }
    }

    /// The numbers of former leaders, in ascending order.
    fn former(&self, prefix: &str, names: &[String]) -> Vec<u64> {
        let mut former: Vec<u64> = name::numbers(prefix, names)
            .filter(|epoch| *epoch < self.own.epoch)
            .collect();
        former.sort_unstable();
        former
    }

    fn remove(&mut self, doomed: Vec<String>, removed: usize) -> Next<Guarded<usize>> {
        match doomed.last().cloned() {
            Some(name) => {
                self.state = State::Removing { doomed, removed };
                Next::Access(Access::Remove { name })
            }
            None => Next::Done(Guarded::Done(removed)),
        }
    }
}

impl Procedure for Prune {
    type Output = Guarded<usize>;

    fn begin(&self) -> Access {
        Access::List {
            prefix: name::BASES,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Self::Output>, GuardError> {
        let empty = State::ListingBases;
        let (state, access) = match (std::mem::replace(&mut self.state, empty), answer) {
            (State::ListingBases, Answer::Names(names)) => {
                let bases = self.former(name::BASES, &names);
                let prefix = name::FENCES;
                (State::ListingFences { bases }, Access::List { prefix })
            }
            (State::ListingFences { bases }, Answer::Names(names)) => {
                let fences = self.former(name::FENCES, &names);
                let bases = bases.into_iter().map(name::base);
                let doomed = bases.chain(fences.into_iter().map(name::fence));
                let mut doomed: Vec<String> = doomed.take(self.limit).collect();
                if doomed.is_empty() {
                    return Ok(Next::Done(Guarded::Done(0)));
                }
                doomed.reverse();
                let look = Look::new(self.own.clone());
                let access = look.begin();
                (State::Looking { look, doomed }, access)
            }
            (State::Looking { mut look, doomed }, answer) => match look.step(answer)? {
                Next::Access(access) => (State::Looking { look, doomed }, access),
                Next::Done(Guarded::SteppedDown { highest }) => {
                    return Ok(Next::Done(Guarded::SteppedDown { highest }));
                }
                Next::Done(Guarded::Done(())) => {
                    let name = name::PRUNED.to_owned();
                    (State::ReadingPruned { doomed }, Access::Read { name })
                }
            },
            (State::ReadingPruned { doomed }, Answer::Bytes(None)) => {
                let first_by = self.own.epoch;
                let bytes = record::encode(name::PRUNED, &PrunedRecord { first_by })?;
                let name = name::PRUNED.to_owned();
                let access = Access::Create { name, bytes };
                (State::CreatingPruned { doomed }, access)
            }
            (State::ReadingPruned { doomed }, Answer::Bytes(Some(_)))
            | (State::CreatingPruned { doomed }, Answer::Created | Answer::AlreadyExists) => {
                return Ok(self.remove(doomed, 0));
            }
            (
                State::Removing {
                    mut doomed,
                    removed,
                },
                Answer::Removed,
            ) => {
                doomed.pop();
                return Ok(self.remove(doomed, removed + 1));
            }
            (_, answer) => return mismatched(&answer),
        };
        self.state = state;
        Ok(Next::Access(access))
    }
}
