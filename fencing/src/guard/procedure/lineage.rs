//! Which lineage's epochs count: the record with the highest number.

use lockkeeper_core::token::Lineage;

use super::{Access, Answer, Next, Procedure, mismatched};
use crate::guard::record::{self, LineageRecord};
use crate::guard::{GuardError, name};

/// Reads the newest record; `None` for a store that has had no leader with a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ReadLineage {
    /// The record that is being read.
    number: Option<u64>,
}

impl Procedure for ReadLineage {
    type Output = Option<(u64, LineageRecord)>;

    fn begin(&self) -> Access {
        Access::List {
            prefix: name::LINEAGES,
        }
    }

    fn step(&mut self, answer: Answer) -> Result<Next<Self::Output>, GuardError> {
        match (self.number, answer) {
            (None, Answer::Names(names)) => {
                self.number = name::numbers(name::LINEAGES, &names).max();
                Ok(match self.number {
                    Some(number) => Next::Access(Access::Read {
                        name: name::lineage(number),
                    }),
                    None => Next::Done(None),
                })
            }
            (Some(number), Answer::Bytes(Some(bytes))) => {
                let record = record::decode(&name::lineage(number), &bytes)?;
                Ok(Next::Done(Some((number, record))))
            }
            (Some(number), Answer::Bytes(None)) => Err(GuardError::Corrupt {
                name: name::lineage(number),
                reason: "it is missing, and such records are never removed".to_owned(),
            }),
            (_, answer) => mismatched(&answer),
        }
    }
}

/// The guard's epoch of a leadership: the token's, above what former lineages have used. The first
/// leader with a token decides which lineage counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResolveEpoch {
    lineage: Lineage,
    epoch: u64,
    state: Resolving,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Resolving {
    Reading(ReadLineage),
    Creating,
    /// Another one came first, and its record counts.
    ReadingAgain(ReadLineage),
}

impl ResolveEpoch {
    pub(crate) fn new(lineage: Lineage, epoch: u64) -> Self {
        ResolveEpoch {
            lineage,
            epoch,
            state: Resolving::Reading(ReadLineage::default()),
        }
    }

    fn own(&self) -> LineageRecord {
        LineageRecord {
            lineage: self.lineage,
            epochs_above: 0,
        }
    }

    fn under(&self, present: &LineageRecord) -> Result<Next<u64>, GuardError> {
        if present.lineage != self.lineage {
            return Err(GuardError::LineageChanged {
                expected: present.lineage,
                found: self.lineage,
            });
        }
        let (epoch, above) = (self.epoch, present.epochs_above);
        let resolved = above.checked_add(epoch);
        resolved
            .map(Next::Done)
            .ok_or(GuardError::EpochsExhausted { epoch, above })
    }
}

impl Procedure for ResolveEpoch {
    type Output = u64;

    fn begin(&self) -> Access {
        ReadLineage::default().begin()
    }

    fn step(&mut self, answer: Answer) -> Result<Next<u64>, GuardError> {
        let found = match (&mut self.state, answer) {
            (Resolving::Reading(read), answer) => match read.step(answer)? {
                Next::Access(access) => return Ok(Next::Access(access)),
                Next::Done(Some((_, present))) => present,
                Next::Done(None) => {
                    self.state = Resolving::Creating;
                    return create(1, &self.own()).map(Next::Access);
                }
            },
            (Resolving::Creating, Answer::Created) => self.own(),
            (Resolving::Creating, Answer::AlreadyExists) => {
                let read = ReadLineage::default();
                let access = read.begin();
                self.state = Resolving::ReadingAgain(read);
                return Ok(Next::Access(access));
            }
            (Resolving::ReadingAgain(read), answer) => match read.step(answer)? {
                Next::Access(access) => return Ok(Next::Access(access)),
                Next::Done(present) => {
                    let missing = || GuardError::Corrupt {
                        name: name::lineage(1),
                        reason: "it is missing, and such records are never removed".to_owned(),
                    };
                    present.ok_or_else(missing)?.1
                }
            },
            (Resolving::Creating, answer) => return mismatched(&answer),
        };
        self.under(&found)
    }
}

pub(super) fn create(number: u64, record: &LineageRecord) -> Result<Access, GuardError> {
    let name = name::lineage(number);
    let bytes = record::encode(&name, record)?;
    Ok(Access::Create { name, bytes })
}
