//! State that is saved as changes: what a kept cut needs is never removed (S29).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::coordinator::publisher::{Mandate, Ours, Outcome, Publisher};
use crate::coordinator::record::{ENTRY_FORMAT, Entry, Record, Retained};
use crate::manifest::{MANIFEST_FORMAT, Manifest};
use crate::store::{Encoding, verify};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A cut whose state is whole, or what changed since the last complete one.
    Cut { whole: bool },
    /// A round that came to nothing after its state was written.
    Abort { whole: bool },
    /// Back to the oldest cut that is kept: newer ones could not be read.
    FallBack,
    /// The newest cut is kept under a name.
    Keep,
    /// The oldest savepoint is forgotten.
    Forget,
    /// Another coordinator takes over, who has written nothing of what is kept.
    TakeOver,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..4).prop_map(|n| Step::Cut { whole: n == 0 }),
        3 => any::<bool>().prop_map(|whole| Step::Abort { whole }),
        1 => Just(Step::FallBack),
        1 => Just(Step::Keep),
        1 => Just(Step::Forget),
        1 => Just(Step::TakeOver),
    ]
}

struct Region {
    store: Arc<MemoryStore>,
    publisher: Publisher,
    record: Record,
    retained: usize,
    manifests: BTreeMap<u64, Manifest>,
    savepoints: Vec<(String, u64)>,
}

fn enter(store: &Arc<MemoryStore>) -> (Publisher, u64) {
    let ours = Ours {
        region: "region".to_owned(),
        graph: 7,
        structure: 7,
    };
    let store = Arc::clone(store) as Arc<dyn CheckpointStore>;
    let entered = Publisher::enter(store, Mandate::Alone, &ours, Hook::default());
    let (publisher, term, _) = entered.unwrap();
    (publisher, term)
}

impl Region {
    fn new(retained: usize) -> Self {
        let store = Arc::new(MemoryStore::new());
        let (publisher, term) = enter(&store);
        let record = Record {
            region: "region".to_owned(),
            graph: 7,
            structure: 7,
            term,
            next_cut: 1,
            ..Record::default()
        };
        Self {
            store,
            publisher,
            record,
            retained,
            manifests: BTreeMap::new(),
            savepoints: Vec::new(),
        }
    }

    /// Writes an object, which stands for itself or on what the newest cut needs.
    fn write(&self, whole: bool) -> ObjectRecord {
        let stamp = Stamp {
            term: self.record.term,
            seq: self.record.next_cut,
            attempt: 1,
        };
        let object = object_name(stamp, &instance());
        let content = object.clone().into_bytes();
        let written = self
            .store
            .write_object(&object, &mut |to| to.write_all(&content))
            .unwrap();
        let newest = self.manifests.get(&self.record.completed);
        let base = match newest {
            Some(manifest) if !whole => manifest.objects[0].parts().cloned().collect(),
            _ => Vec::new(),
        };
        let part = |part: ObjectRecord| ObjectRecord {
            base: Vec::new(),
            ..part
        };
        ObjectRecord {
            instance: instance(),
            object,
            length: written.length,
            crc32: written.crc32,
            state_type: "text".to_owned(),
            state_version: 1,
            encoding: Encoding::Plain,
            base: base.into_iter().map(part).collect(),
        }
    }

    fn cut(&mut self, whole: bool) {
        let object = self.write(whole);
        let seq = self.record.next_cut;
        let manifest = Manifest {
            format: MANIFEST_FORMAT,
            region: "region".to_owned(),
            graph: 7,
            seq,
            term: self.record.term,
            attempt: 1,
            previous: self.record.completed,
            published_at_ms: 0,
            last: false,
            objects: vec![object],
            tokens: Vec::new(),
            structure: 7,
            widths: BTreeMap::new(),
        };
        self.record.number += 1;
        self.record.completed = seq;
        self.record.next_cut = seq + 1;
        let kept = Retained {
            seq,
            entry: self.record.number,
            term: self.record.term,
        };
        self.record.retained.insert(0, kept);
        self.record.retained.truncate(self.retained);
        let entry = Entry {
            format: ENTRY_FORMAT,
            record: self.record.clone(),
            manifest: Some(manifest.clone()),
        };
        assert!(matches!(self.publisher.append(entry), Outcome::Appended));
        self.manifests.insert(seq, manifest);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Cut { whole } => self.cut(whole),
            Step::Abort { whole } => {
                self.write(whole);
                self.record.next_cut += 1;
            }
            Step::FallBack => {
                let last = self.record.retained.len().saturating_sub(1);
                self.record.retained.drain(..last);
                self.record.completed = self.record.retained.first().map_or(0, |kept| kept.seq);
                self.record.next_cut += 1;
            }
            Step::Keep => {
                if let Some(kept) = self.record.retained.first() {
                    let name = format!("at-{}", kept.seq);
                    if self.publisher.keep_savepoint(&name, kept).is_ok() {
                        self.savepoints.push((name, kept.seq));
                    }
                }
            }
            Step::Forget if !self.savepoints.is_empty() => {
                let (name, _) = self.savepoints.remove(0);
                self.publisher.remove_savepoint(&name).unwrap();
            }
            Step::Forget => {}
            Step::TakeOver => (self.publisher, self.record.term) = enter(&self.store),
        }
        self.publisher.tidy(&self.record).unwrap();
    }

    /// Everything that is needed is there as it was written, and of cuts that are over nothing else.
    fn check(&self) {
        let kept = self.record.retained.iter().map(|kept| kept.seq);
        let named = self.savepoints.iter().map(|(_, seq)| *seq);
        let mut needed = BTreeSet::new();
        for seq in kept.chain(named) {
            for part in self.manifests[&seq].parts() {
                verify(self.store.as_ref(), part).unwrap();
                needed.insert(part.object.clone());
            }
        }
        let names = self.store.list_objects().unwrap();
        let states = names.iter().filter(|name| !name.starts_with("savepoint."));
        let left: Vec<&String> = states.filter(|name| !needed.contains(*name)).collect();
        assert!(left.is_empty(), "nobody needs {left:?}");
    }
}

proptest! {
    #[test]
    fn s29_what_a_kept_cut_or_a_savepoint_stands_on_is_never_removed_and_nothing_else_stays(
        retained in 1_usize..4,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut region = Region::new(retained);
        for step in steps {
            region.take(step);
            region.check();
        }
    }
}
