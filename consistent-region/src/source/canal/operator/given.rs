//! What an entry gives the region: tuples, a bad row, or nothing because somebody wants it left out.

use lockkeeper_canal::{Entry, EntryType};

use super::super::Mapped;
use super::super::place::{self, CanalPlace};
use super::super::spooling::Raw;
use super::CanalSource;
use crate::operator::{OperatorError, Output, Tuple};
use crate::source::bad_row::{DeadLetter, shown};

/// What an entry gives the region.
#[derive(Debug)]
pub(super) struct Given<T> {
    pub(super) tuples: Result<Vec<T>, Box<DeadLetter>>,
    /// They are the last.
    pub(super) last: bool,
    /// Known only while something is to be left out.
    pub(super) place: Option<Box<(CanalPlace, String)>>,
    /// The entry itself, if it is to be spooled.
    pub(super) raw: Option<Raw>,
}

impl<T: Tuple> CanalSource<T> {
    /// What an entry gives; `None` if it is of no interest: other tables, statements, marks. Where
    /// every change of rows counts, one that is of no interest gives nothing.
    pub(super) fn map(&mut self, entry: &Entry) -> Option<Given<T>> {
        let (tuples, last) = match (self.map)(entry) {
            Ok(Mapped::Tuples(tuples)) if tuples.is_empty() => return self.nothing(entry),
            Ok(Mapped::Tuples(tuples)) => (Ok(tuples), false),
            Ok(Mapped::End(tuples)) => (Ok(tuples), true),
            Err(error) => (Err(Box::new(letter(entry, error.to_string()))), false),
        };
        let place = (!self.skipping.is_idle())
            .then(|| Box::new((CanalPlace::of(entry), place::shown(entry))));
        Some(Given {
            tuples,
            last,
            place,
            raw: self.raw(entry),
        })
    }

    fn nothing(&self, entry: &Entry) -> Option<Given<T>> {
        let counts = self.counts_all && entry.entry_type() == EntryType::RowData;
        counts.then(|| Given {
            tuples: Ok(Vec::new()),
            last: false,
            place: None,
            raw: self.raw(entry),
        })
    }

    fn raw(&self, entry: &Entry) -> Option<Raw> {
        self.spooling.is_some().then(|| Raw(entry.raw().clone()))
    }

    /// Gives the region what is new. Only here is anything left out or a dead letter: what the
    /// restored cut holds was given before.
    pub(super) fn give(
        &mut self,
        given: Given<T>,
        output: &mut Output<T>,
    ) -> Result<(), OperatorError> {
        if let Some(place) = given.place {
            let (place, row) = *place;
            let letter = |reason| DeadLetter {
                source: self.context.instance().to_string(),
                position: place.to_string(),
                row,
                reason,
            };
            if !self.letters.admit(self.skipping.pass(&place), letter)? {
                return Ok(());
            }
        }
        match given.tuples {
            Ok(tuples) => output.extend(tuples),
            Err(letter) => self.letters.take(*letter)?,
        }
        Ok(())
    }
}

fn letter(entry: &Entry, reason: String) -> DeadLetter {
    DeadLetter {
        source: entry.destination().to_owned(),
        position: entry.position().to_string(),
        row: shown(&place::shown(entry)),
        reason,
    }
}
