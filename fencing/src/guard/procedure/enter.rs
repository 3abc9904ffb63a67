//! How a new leader enters: fence, then list and choose the base, then the base, then look again.

use super::look::{self, Look, OwnFence};
use super::walk::{Walk, Walked};
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::chain::Chain;
use crate::guard::record::{self, Base};
use crate::guard::store::Guarded;
use crate::guard::{GuardError, name};

/// The first half: creates the fence, then reads the chain that the base is chosen from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Announce {
    own: OwnFence,
    state: Announcing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Announcing {
    /// Not needed for safety: it keeps an epoch that is too low from leaving a fence.
    Looking,
    Fencing,
    Walking(Walk),
    /// The chain could not be read because somebody higher has pruned it, or because of a loss.
    LookingAgain {
        look: Look,
        missing: u64,
    },
}

impl Announce {
    pub(crate) fn new(own: OwnFence) -> Self {
        Announce {
            own,
            state: Announcing::Looking,
        }
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
                if highest >= self.own.epoch {
                    return Ok(Next::Done(Guarded::SteppedDown { highest }));
                }
                self.state = Announcing::Fencing;
                Ok(Next::Access(Access::Create {
                    name: name::fence(self.own.epoch),
                    bytes: self.own.bytes.clone(),
                }))
            }
            (Announcing::Fencing, Answer::Created) => {
                let walk = Walk::up_to(self.own.epoch - 1);
                let access = walk.begin();
                self.state = Announcing::Walking(walk);
                Ok(Next::Access(access))
            }
            // Somebody used this epoch before: an epoch leads once.
            (Announcing::Fencing, Answer::AlreadyExists) => Ok(Next::Done(Guarded::SteppedDown {
                highest: self.own.epoch,
            })),
            (Announcing::Walking(walk), answer) => Ok(match walk.step(answer)? {
                Next::Access(access) => Next::Access(access),
                Next::Done(Walked::Whole(chain)) => Next::Done(Guarded::Done(chain)),
                Next::Done(Walked::Overtaken { epoch: missing }) => {
                    let look = Look::new(self.own.clone());
                    let access = look.begin();
                    self.state = Announcing::LookingAgain { look, missing };
                    Next::Access(access)
                }
            }),
            (Announcing::LookingAgain { look, missing }, answer) => match look.step(answer)? {
                Next::Access(access) => Ok(Next::Access(access)),
                Next::Done(Guarded::SteppedDown { highest }) => {
                    Ok(Next::Done(Guarded::SteppedDown { highest }))
                }
                // Only somebody higher may remove it, and there is nobody.
                Next::Done(Guarded::Done(())) => Err(GuardError::Corrupt {
                    name: match *missing {
                        0 => format!("{}*", name::BASES),
                        epoch => name::base(epoch),
                    },
                    reason: "it is missing, and those below it have been removed".to_owned(),
                }),
            },
            (_, answer) => mismatched(&answer),
        }
    }
}

/// The second half: creates the base, then looks at the fences.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Settle {
    epoch: u64,
    base: Vec<u8>,
    look: Look,
    created: bool,
}

impl Settle {
    /// # Errors
    /// [`GuardError::Corrupt`] if the base cannot be written as JSON.
    pub(crate) fn new(own: OwnFence, base: &Base) -> Result<Self, GuardError> {
        let epoch = own.epoch;
        let base = record::encode(&name::base(epoch), base)?;
        Ok(Settle {
            epoch,
            base,
            look: Look::new(own),
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
                Ok(Next::Access(self.look.begin()))
            }
            Answer::AlreadyExists if !self.created => Ok(Next::Done(Guarded::SteppedDown {
                highest: self.epoch,
            })),
            answer if self.created => self.look.step(answer),
            answer => mismatched(&answer),
        }
    }
}
