//! Strangers that were not let in, counted by reason.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::link::IntroductionError;

/// The counts, and what was wrong last.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Seen>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) last: Option<String>,
}

impl Refusals {
    pub(crate) fn refuse(&self, error: &IntroductionError) {
        self.add(error.reason(), Some(error.to_string()));
    }

    pub(crate) fn count(&self, reason: &'static str) {
        self.add(reason, None);
    }

    fn add(&self, reason: &'static str, text: Option<String>) {
        crate::meters::refused(reason);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.counts.entry(reason).or_default() += 1;
        seen.last = text.or_else(|| Some(reason.to_owned()));
    }

    pub(crate) fn seen(&self) -> Seen {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
