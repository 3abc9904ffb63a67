//! The look at the fences: has a higher epoch announced itself?

use uuid::Uuid;

use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::record::{self, Fence};
use crate::guard::store::Guarded;
use crate::guard::{GuardError, name};

/// The fence of a leader, by which it knows itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnFence {
    pub(crate) epoch: u64,
    pub(crate) bytes: Vec<u8>,
}

impl OwnFence {
    /// `holder` is a number that nobody else has, not even for the same epoch.
    ///
    /// # Errors
    /// [`GuardError::EpochZero`].
    pub(crate) fn new(epoch: u64, holder: Uuid) -> Result<Self, GuardError> {
        if epoch == 0 {
            return Err(GuardError::EpochZero);
        }
        let bytes = record::encode(&name::fence(epoch), &Fence { epoch, holder })?;
        Ok(OwnFence { epoch, bytes })
    }
}

/// One look at the fences, for the leader whose fence is `own`: lists them, *then* reads its own.
///
/// A listing need not be of one moment: a fence that is removed while it goes on may be missing, and the
/// higher one, for which it was removed, may be too new for it. But fences are removed from the
/// lowest up, so that then the own one is gone as well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    own: OwnFence,
    listed: bool,
}

impl Look {
    pub(crate) fn new(own: OwnFence) -> Self {
        Look { own, listed: false }
    }
}

impl Procedure for Look {
    type Output = Guarded<()>;

    fn begin(&self) -> Access {
        Access::List {
            prefix: name::FENCES,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Guarded<()>>, GuardError> {
        match answer {
            Answer::Names(names) if !self.listed => {
                let highest = highest(&names);
                if highest > self.own.epoch {
                    return Ok(Next::Done(Guarded::SteppedDown { highest }));
                }
                self.listed = true;
                Ok(Next::Access(Access::Read {
                    name: name::fence(self.own.epoch),
                }))
            }
            Answer::Bytes(bytes) if self.listed => {
                Ok(Next::Done(if bytes.as_ref() == Some(&self.own.bytes) {
                    Guarded::Done(())
                } else {
                    // Whoever removed it is higher; how much is not known here.
                    let highest = self.own.epoch.saturating_add(1);
                    Guarded::SteppedDown { highest }
                }))
            }
            answer => mismatched(&answer),
        }
    }
}

/// The highest epoch that has a fence, 0 if none has.
pub(crate) fn highest(names: &[String]) -> u64 {
    name::numbers(name::FENCES, names).max().unwrap_or(0)
}
