//! Listings that take their time, as a folder's, `SCAN`'s or an object store's do: what is created or
//! removed while one goes on may be missing in it.

use std::collections::BTreeMap;

use super::explore::{Records, perform_on};
use crate::guard::procedure::{Access, Answer};

/// Who lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Process {
    Leader(usize),
    Operator(usize),
    Reader,
}

/// The listings that have begun, with the names there were then.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Listings {
    take_time: bool,
    begun: BTreeMap<Process, Vec<String>>,
}

impl Listings {
    pub(super) fn new(take_time: bool) -> Self {
        let begun = BTreeMap::new();
        Listings { take_time, begun }
    }

    /// Carries out an access; `None` for a listing that has only begun. It ends with the same access once
    /// more, without all that has come or gone in between.
    pub(super) fn perform(
        &mut self,
        process: Process,
        records: &mut Records,
        access: &Access,
    ) -> Option<Answer> {
        let answer = perform_on(records, access);
        let Answer::Names(mut names) = answer else {
            return Some(answer);
        };
        if self.take_time {
            let Some(before) = self.begun.remove(&process) else {
                self.begun.insert(process, names);
                return None;
            };
            names.retain(|name| before.contains(name));
        }
        Some(Answer::Names(names))
    }
}
