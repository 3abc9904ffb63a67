//! The guarded log as the machine sees it: entries of the highest term only.

use crate::coordinator::event::{Beginning, Choice};
use crate::coordinator::record::{Entry, Record};
use crate::manifest::RestorePoint;

#[derive(Debug, Default)]
pub(super) struct Log {
    fence: u64,
    entries: Vec<Entry>,
}

pub(super) enum Appended {
    Yes,
    SteppedDown,
}

impl Log {
    /// A new leader: from now on former terms append nothing.
    pub(super) fn enter(&mut self) -> (u64, Beginning) {
        self.fence += 1;
        let record = self.entries.last().map(|entry| entry.record.clone());
        (
            self.fence,
            Beginning {
                record,
                unusable_entries: 0,
            },
        )
    }

    pub(super) fn append(&mut self, term: u64, entry: Entry) -> Appended {
        if term < self.fence {
            return Appended::SteppedDown;
        }
        if let Some(last) = self.entries.last() {
            assert!(
                entry.record.number > last.record.number,
                "entry numbers grow"
            );
            assert!(entry.record.attempt >= last.record.attempt, "attempts grow");
            assert!(
                entry.record.highest >= last.record.highest,
                "the reserve grows"
            );
            assert!(
                entry.record.acked_through >= last.record.acked_through,
                "an acknowledgement can't be taken back"
            );
        }
        if let Some(manifest) = &entry.manifest {
            assert!(
                manifest.seq >= self.record().next_cut,
                "an aborted number came back"
            );
            if let Some(newest) = self.cuts().next_back() {
                assert!(manifest.seq > newest, "cut {} after {newest}", manifest.seq);
            }
        }
        self.entries.push(entry);
        Appended::Yes
    }

    pub(super) fn record(&self) -> Record {
        self.entries
            .last()
            .map(|entry| entry.record.clone())
            .unwrap_or_default()
    }

    pub(super) fn cuts(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.entries
            .iter()
            .filter_map(|entry| Some(entry.manifest.as_ref()?.seq))
    }

    pub(super) fn has_cut(&self, seq: u64, attempt: u64) -> bool {
        let manifests = self
            .entries
            .iter()
            .filter_map(|entry| entry.manifest.as_ref());
        manifests
            .into_iter()
            .any(|manifest| manifest.seq == seq && manifest.attempt == attempt)
    }

    /// Some durable entry allows a message with these numbers.
    pub(super) fn covers(&self, term: u64, seq: u64, attempt: u64) -> bool {
        self.entries.iter().any(|entry| {
            let record = &entry.record;
            record.term == term && record.highest >= seq && record.attempt == attempt
        })
    }

    pub(super) fn choose(&self, record: &Record) -> Choice {
        let newest = record.retained.first().map_or(0, |kept| kept.seq);
        assert_eq!(record.moved_on_since(newest), None);
        let entry = |number: u64| {
            self.entries
                .iter()
                .find(|entry| entry.record.number == number)
        };
        let manifest = record
            .retained
            .first()
            .and_then(|kept| entry(kept.entry)?.manifest.clone());
        Choice::Restore {
            last: manifest.as_ref().is_some_and(|manifest| manifest.last),
            restore: manifest.map(|manifest| RestorePoint {
                seq: manifest.seq,
                oldest_retained: record.oldest_retained(),
                objects: manifest.objects,
                tokens: manifest.tokens,
                widths: std::collections::BTreeMap::default(),
            }),
            retained: record.retained.clone(),
            left_out: Vec::new(),
            manifest: None,
        }
    }
}
