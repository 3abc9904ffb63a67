//! How a new leader enters: fence, then list and choose the base, then the base, then look again.

use super::look::{self, Look};
use super::walk::Walk;
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::chain::Chain;
use crate::guard::record::{self, Base, Fence};
use crate::guard::store::Guarded;
use crate::guard::{GuardError, name};

/// The first half: creates the fence, then reads the chain that the base is chosen from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Announce {
    epoch: u64,
    fence: Vec<u8>,
    state: Announcing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Announcing {
    /// Not needed for safety: it keeps an epoch that is too low from leaving a fence.
    Looking,
    Fencing,
    Walking(Walk),
}

impl Announce {
    /// # Errors
    /// [`GuardError::EpochZero`].
    pub(crate) fn new(epoch: u64) -> Result<Self, GuardError> {
        if epoch == 0 {
            return Err(GuardError::EpochZero);
        }
        let fence = record::encode(&name::fence(epoch), &Fence { epoch })?;
        Ok(Announce {
            epoch,
            fence,
            state: Announcing::Looking,
        })
    }
}

impl Procedure for Announce {
    type Output = Guarded<Chain>;

    fn begin(&self) -> Access {
        Access::List {
            prefix: name::FENCES,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Guarded<Chain>>, GuardError> {
        match (&mut self.state, answer) {
            (Announcing::Looking, Answer::Names(names)) => {
                let highest = look::highest(&names);
                if highest >= self.epoch {
                    return Ok(Next::Done(Guarded::SteppedDown { highest }));
                }
                self.state = Announcing::Fencing;
                let bytes = std::mem::take(&mut self.fence);
                Ok(Next::Access(Access::Create {
                    name: name::fence(self.epoch),
                    bytes,
                }))
            }
            (Announcing::Fencing, Answer::Created) => {
                let walk = Walk::up_to(self.epoch - 1);
                let access = walk.begin();
                self.state = Announcing::Walking(walk);
                Ok(Next::Access(access))
            }
            // Somebody used this epoch before: an epoch leads once.
            (Announcing::Fencing, Answer::AlreadyExists) => Ok(Next::Done(Guarded::SteppedDown {
                highest: self.epoch,
            })),
            (Announcing::Walking(walk), answer) => Ok(match walk.step(answer)? {
                Next::Access(access) => Next::Access(access),
                Next::Done(chain) => Next::Done(Guarded::Done(chain)),
            }),
            (_, answer) => mismatched(&answer),
        }
    }
}

/// The second half: creates the base, then looks at the fences.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Settle {
    epoch: u64,
    base: Vec<u8>,
    created: bool,
}

impl Settle {
    /// # Errors
    /// [`GuardError::Corrupt`] if the base cannot be written as JSON.
    pub(crate) fn new(epoch: u64, base: &Base) -> Result<Self, GuardError> {
        let base = record::encode(&name::base(epoch), base)?;
        Ok(Settle {
            epoch,
            base,
            created: false,
        })
    }
}

impl Procedure for Settle {
    type Output = Guarded<()>;

    fn begin(&self) -> Access {
        Access::Create {
            name: name::base(self.epoch),
            bytes: self.base.clone(),
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Guarded<()>>, GuardError> {
        match answer {
            Answer::Created if !self.created => {
                self.created = true;
                Ok(Next::Access(Look { epoch: self.epoch }.begin()))
            }
            Answer::AlreadyExists if !self.created => Ok(Next::Done(Guarded::SteppedDown {
                highest: self.epoch,
            })),
            names @ Answer::Names(_) if self.created => Look { epoch: self.epoch }.step(names),
            answer => mismatched(&answer),
        }
    }
}
