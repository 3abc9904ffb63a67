//! The look at the fences: has a higher epoch announced itself?

use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::store::Guarded;
use crate::guard::{GuardError, name};

/// One look at the fences, for the leader of `epoch`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    pub(crate) epoch: u64,
}

impl Procedure for Look {
    type Output = Guarded<()>;

    fn begin(&self) -> Access {
        Access::List {
            prefix: name::FENCES,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Guarded<()>>, GuardError> {
        let Answer::Names(names) = answer else {
            return mismatched(&answer);
        };
        let highest = highest(&names);
        Ok(Next::Done(if highest > self.epoch {
            Guarded::SteppedDown { highest }
        } else {
            Guarded::Done(())
        }))
    }
}

/// The highest epoch that has a fence, 0 if none has.
pub(crate) fn highest(names: &[String]) -> u64 {
    name::numbers(name::FENCES, names).max().unwrap_or(0)
}
