//! The step to another lineage: read the present one, look at the fences, create the next record.

use lockkeeper_core::token::Lineage;

use super::fences::HighestFence;
use super::lineage::{self, ReadLineage};
use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::GuardError;
use crate::guard::record::LineageRecord;

/// How often somebody else's record may come first; each time the store is one lineage further.
const ATTEMPTS: usize = 5;

/// Lets another lineage's epochs count, above the highest fence. Returns what is added to them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Adopt {
    former: Lineage,
    adopted: Lineage,
    attempts: usize,
    state: Adopting,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Adopting {
    Reading(ReadLineage),
    Looking { number: u64, look: HighestFence },
    Creating { above: u64 },
}

impl Adopt {
    pub(crate) fn new(former: Lineage, adopted: Lineage) -> Self {
        Adopt {
            former,
            adopted,
            attempts: 0,
            state: Adopting::Reading(ReadLineage::default()),
        }
    }

    fn changed(&self, found: Lineage) -> GuardError {
        GuardError::LineageChanged {
            expected: self.former,
            found,
        }
    }
}

impl Procedure for Adopt {
    type Output = u64;

    fn begin(&self) -> Access {
        ReadLineage::default().begin()
    }

    fn step(&mut self, answer: Answer) -> Result<Next<u64>, GuardError> {
        let (state, access) = match (&mut self.state, answer) {
            (Adopting::Reading(read), answer) => {
                let number = match read.step(answer)? {
                    Next::Access(access) => return Ok(Next::Access(access)),
                    Next::Done(Some((_, present))) if present.lineage == self.adopted => {
                        return Ok(Next::Done(present.epochs_above));
                    }
                    Next::Done(Some((_, present))) if present.lineage != self.former => {
                        return Err(self.changed(present.lineage));
                    }
                    Next::Done(Some((number, _))) => number,
                    // Fences of leaders without tokens only.
                    Next::Done(None) => 0,
                };
                let (number, look) = (number + 1, HighestFence::new());
                let access = look.begin();
                (Adopting::Looking { number, look }, access)
            }
            (Adopting::Looking { number, look }, answer) => {
                let above = match look.step(answer)? {
                    Next::Access(access) => return Ok(Next::Access(access)),
                    Next::Done(highest) => highest,
                };
                let record = LineageRecord {
                    lineage: self.adopted,
                    epochs_above: above,
                };
                let access = lineage::create(*number, &record)?;
                (Adopting::Creating { above }, access)
            }
            (Adopting::Creating { above }, Answer::Created) => return Ok(Next::Done(*above)),
            (Adopting::Creating { .. }, Answer::AlreadyExists) => {
                self.attempts += 1;
                if self.attempts == ATTEMPTS {
                    return Err(self.changed(self.former));
                }
                let read = ReadLineage::default();
                let access = read.begin();
                (Adopting::Reading(read), access)
            }
            (_, answer) => return mismatched(&answer),
        };
        self.state = state;
        Ok(Next::Access(access))
    }
}
