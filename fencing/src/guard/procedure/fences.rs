//! The look at the fences of somebody who has none of his own.
//!
//! He takes one that is there for his own: as long as it stays, no higher one has been removed.

use super::look;
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::{GuardError, name};

/// How often leaders may take over under the eyes of somebody who looks for the highest fence.
const ATTEMPTS: usize = 5;

/// The highest epoch that has a fence, seen from one of them; `None` if that one was removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LookFrom {
    anchor: u64,
    state: Looking,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Looking {
    Anchoring,
    Listing { fence: Vec<u8> },
    Confirming { fence: Vec<u8>, highest: u64 },
}

impl LookFrom {
    pub(crate) fn new(anchor: u64) -> Self {
        LookFrom {
            anchor,
            state: Looking::Anchoring,
        }
    }

    fn read(&self) -> Access {
        Access::Read {
            name: name::fence(self.anchor),
        }
    }
}

impl Procedure for LookFrom {
    type Output = Option<u64>;

    fn begin(&self) -> Access {
        self.read()
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Option<u64>>, GuardError> {
        match (
            std::mem::replace(&mut self.state, Looking::Anchoring),
            answer,
        ) {
            (Looking::Anchoring | Looking::Confirming { .. }, Answer::Bytes(None)) => {
                Ok(Next::Done(None))
            }
            (Looking::Anchoring, Answer::Bytes(Some(fence))) => {
                self.state = Looking::Listing { fence };
                Ok(Next::Access(Access::List {
                    prefix: name::FENCES,
                }))
            }
            (Looking::Listing { fence }, Answer::Names(names)) => {
                let highest = look::highest(&names).max(self.anchor);
                self.state = Looking::Confirming { fence, highest };
                Ok(Next::Access(self.read()))
            }
            (Looking::Confirming { fence, highest }, Answer::Bytes(Some(found))) => {
                Ok(Next::Done((found == fence).then_some(highest)))
            }
            (_, answer) => mismatched(&answer),
        }
    }
}

/// The highest epoch that was used in the store, 0 if none was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HighestFence {
    attempts: usize,
    state: Searching,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Searching {
    Listing,
    /// None was listed: there never was one, unless some have been removed.
    ReadingPruned,
    Looking(LookFrom),
}

impl HighestFence {
    pub(crate) fn new() -> Self {
        HighestFence {
            attempts: 0,
            state: Searching::Listing,
        }
    }

    fn again(&mut self, fence: u64) -> Result<Next<u64>, GuardError> {
        self.attempts += 1;
        if self.attempts == ATTEMPTS {
            return Err(GuardError::Unsettled { fence });
        }
        self.state = Searching::Listing;
        Ok(Next::Access(self.begin()))
    }
}

impl Procedure for HighestFence {
    type Output = u64;

    fn begin(&self) -> Access {
        Access::List {
            prefix: name::FENCES,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<u64>, GuardError> {
        match (&mut self.state, answer) {
            (Searching::Listing, Answer::Names(names)) => {
                let access = match look::highest(&names) {
                    0 => {
                        self.state = Searching::ReadingPruned;
                        Access::Read {
                            name: name::PRUNED.to_owned(),
                        }
                    }
                    highest => {
                        let look = LookFrom::new(highest);
                        let access = look.begin();
                        self.state = Searching::Looking(look);
                        access
                    }
                };
                Ok(Next::Access(access))
            }
            (Searching::ReadingPruned, Answer::Bytes(None)) => Ok(Next::Done(0)),
            (Searching::ReadingPruned, Answer::Bytes(Some(_))) => self.again(0),
            (Searching::Looking(look), answer) => {
                let anchor = look.anchor;
                match look.step(answer)? {
                    Next::Access(access) => Ok(Next::Access(access)),
                    Next::Done(Some(highest)) => Ok(Next::Done(highest)),
                    Next::Done(None) => self.again(anchor),
                }
            }
            (_, answer) => mismatched(&answer),
        }
    }
}
