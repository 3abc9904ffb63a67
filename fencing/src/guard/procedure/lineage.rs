//! Which lineage's epochs count: the record with the highest number.

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
