//! The guard's rules as pure machines: which access to the store comes next, and what it means.
//!
//! A procedure does no input or output. It is given the answer to the access that it asked for and
//! says what comes next, so that a test can stop it between any two accesses, for ever if it likes.

mod adopt;
mod enter;
mod fences;
mod lineage;
mod look;
mod prune;
mod publish;
mod read;
mod tidy;
mod walk;

pub(crate) use adopt::Adopt;
pub(crate) use enter::{Announce, Settle};
pub(crate) use fences::HighestFence;
pub(crate) use lineage::{ReadLineage, ResolveEpoch};
pub(crate) use look::{Look, OwnFence};
pub(crate) use prune::Prune;
pub(crate) use publish::Publish;
pub(crate) use read::ReadNewest;
pub(crate) use tidy::{Tidy, What};
#[cfg(test)]
pub(crate) use walk::{Walk, Walked};

use super::GuardError;
use super::store::{Creation, GuardStore};

/// One access to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Create { name: String, bytes: Vec<u8> },
    List { prefix: &'static str },
    Read { name: String },
    Remove { name: String },
}

/// What the store answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Created,
    AlreadyExists,
    Names(Vec<String>),
    Bytes(Option<Vec<u8>>),
    Removed,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Next<T> {
    Access(Access),
    Done(T),
}

pub(crate) trait Procedure {
    type Output;

    /// The first access.
    fn begin(&self) -> Access;

    /// What follows from the answer to the last access.
    ///
    /// # Errors
    /// [`GuardError`] for a damaged record.
    fn step(&mut self, answer: Answer) -> Result<Next<Self::Output>, GuardError>;
}

/// Runs a procedure to its end.
pub(crate) fn run<P: Procedure>(
    store: &dyn GuardStore,
    mut procedure: P,
) -> Result<P::Output, GuardError> {
    let mut access = procedure.begin();
    loop {
        let answer = carry_out(store, &access)?;
        match procedure.step(answer)? {
            Next::Access(next) => access = next,
            Next::Done(output) => return Ok(output),
        }
    }
}

pub(crate) fn carry_out(store: &dyn GuardStore, access: &Access) -> Result<Answer, GuardError> {
    Ok(match access {
        Access::Create { name, bytes } => match store.create_if_absent(name, bytes)? {
            Creation::Created => Answer::Created,
            Creation::AlreadyExists => Answer::AlreadyExists,
        },
        Access::List { prefix } => Answer::Names(store.list(prefix)?),
        Access::Read { name } => Answer::Bytes(store.read(name)?),
        Access::Remove { name } => {
            store.remove(name)?;
            Answer::Removed
        }
    })
}

/// An answer of another kind than the access: the driver's mistake, told instead of a panic.
fn mismatched<T>(answer: &Answer) -> Result<T, GuardError> {
    Err(GuardError::Corrupt {
        name: "(answer of the store)".to_owned(),
        reason: format!("{answer:?} does not answer what was asked"),
    })
}
