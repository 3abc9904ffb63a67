//! A keyed state by itself: what is written is the state at the cut, whatever happens meanwhile.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::manifest::ObjectRecord;
use crate::protocol::InstanceId;
use crate::state::{Saved, SavedObject};
use crate::store::{CheckpointStore, MemoryStore, write_state};

fn cut(seq: u64, completed: u64) -> Cut {
    Cut {
        seq,
        term: 1,
        attempt: 1,
        completed,
        last: false,
    }
}

fn bytes(write: WriteState) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    bytes
}

/// Applies an object to what was read before it.
fn read(bytes: &[u8], to: &mut BTreeMap<u64, u64>) -> usize {
    let mut entries = 0;
    read_entries(&mut &bytes[..], |entry| {
        entries += 1;
        let (key, value) = decoded::<u64, u64>(&entry)?;
        assert_eq!(usize::from(entry.group), group_of(stable_hash(&key)));
        match value {
            None => to.remove(&key),
            Some(value) => to.insert(key, value),
        };
        Ok(())
    })
    .unwrap();
    entries
}

fn content(state: &KeyedState<u64, u64>) -> BTreeMap<u64, u64> {
    state.iter().map(|(key, value)| (*key, *value)).collect()
}

#[test]
fn s9_what_is_written_is_the_state_at_the_cut_although_it_changes_before_that() {
    let mut state = KeyedState::<u64, u64>::new();
    for key in 0..1_000 {
        state.insert(key, key);
    }
    let at_the_cut = content(&state);
    let write = state.prepare(cut(1, 0)).state.unwrap();
    for key in 0..500 {
        *state.entry(key) += 1_000_000;
    }
    for key in 900..1_100 {
        state.insert(key, 7);
    }
    for key in 400..450 {
        assert_eq!(state.remove(&key), Some(1_000_000 + key));
    }
    assert_eq!(state.get(&0), Some(&1_000_000));
    assert_eq!(state.get(&400), None);
    assert_eq!(state.len(), 1_050);
    let after = content(&state);
    assert_eq!(after.len(), 1_050);
    // Only what was touched is there twice.
    assert_eq!(state.copied(), 500 + 200);

    let mut written = BTreeMap::new();
    read(&bytes(write), &mut written);
    assert_eq!(written, at_the_cut);
    // The writer has let go: the next touch merges a group.
    for key in 0..1_000 {
        if state.get(&key).is_some() {
            state.entry(key);
        }
    }
    assert_eq!(state.copied(), 0);
    assert_eq!(content(&state), after);
}

#[test]
fn s29_changes_hold_what_changed_since_the_last_complete_cut_and_nothing_else() {
    let mut state = KeyedState::<u64, u64>::new().incremental();
    for key in 0..100 {
        state.insert(key, 1);
    }
    let mut saved = BTreeMap::new();
    read(&bytes(state.prepare(cut(1, 0)).state.unwrap()), &mut saved);
    assert!(state.changes(cut(1, 0)).is_none(), "nothing is saved yet");
    state.insert(5, 2);
    state.remove(&6);
    drop(state.prepare(cut(2, 1)));
    let changes = bytes(state.changes(cut(2, 1)).unwrap());
    assert_eq!(read(&changes, &mut saved), 2);
    assert_eq!(saved, content(&state));

    // Cut 2 came to nothing: what changed for it is part of the whole that follows.
    state.insert(7, 3);
    let whole = state.prepare(cut(3, 1)).state.unwrap();
    assert!(state.changes(cut(3, 1)).is_none());
    let mut saved = BTreeMap::new();
    read(&bytes(whole), &mut saved);
    assert_eq!(saved, content(&state));
}

/// One step of an operator's life.
#[derive(Debug, Clone)]
enum Step {
    Insert(u64, u64),
    Add(u64),
    /// The same for each key of a batch.
    AddEach(Vec<u64>),
    Remove(u64),
    /// A cut; its object is written after so many further steps. `fails`: it comes to nothing.
    Cut {
        late: usize,
        fails: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0_u64..40;
    prop_oneof![
        4 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        4 => key.clone().prop_map(Step::Add),
        2 => proptest::collection::vec(key.clone(), 0..100).prop_map(Step::AddEach),
        3 => key.prop_map(Step::Remove),
        2 => (0_usize..6, any::<bool>()).prop_map(|(late, fails)| Step::Cut { late, fails }),
    ]
}

/// A cut that is not written yet: after how many steps it is, whether it comes to nothing, whether
/// it is whole, its writer, and the state that it must hold.
type Writing = (usize, bool, bool, WriteState, BTreeMap<u64, u64>);

proptest! {
    #[test]
    fn s29_a_whole_state_and_its_changes_are_the_state_at_the_last_cut(
        steps in proptest::collection::vec(step(), 1..120),
        incremental: bool,
    ) {
        let mut state = KeyedState::<u64, u64>::new();
        state.incremental = incremental;
        let mut model = BTreeMap::<u64, u64>::new();
        let (mut seq, mut completed) = (0, 0);
        let mut saved: BTreeMap<u64, u64> = BTreeMap::new();
        let mut writing: Option<Writing> = None;
        for step in steps.into_iter().chain([Step::Cut { late: 0, fails: false }]) {
            match step {
                Step::Insert(key, value) => {
                    state.insert(key, value);
                    model.insert(key, value);
                }
                Step::Add(key) => {
                    let value = state.entry(key);
                    *value = value.wrapping_add(1);
                    let value = model.entry(key).or_default();
                    *value = value.wrapping_add(1);
                }
                Step::AddEach(keys) => {
                    let mut seen = Vec::new();
                    state.update_each(keys.clone(), |key| key, |_| 0, |key, value| {
                        *value = value.wrapping_add(1);
                        seen.push((key, *value));
                    });
                    let expected: Vec<_> = keys.iter().map(|&key| {
                        let value = model.entry(key).or_default();
                        *value = value.wrapping_add(1);
                        (key, *value)
                    }).collect();
                    prop_assert_eq!(seen, expected);
                }
                Step::Remove(key) => prop_assert_eq!(state.remove(&key), model.remove(&key)),
                Step::Cut { late, fails } if writing.is_none() => {
                    seq += 1;
                    let whole = state.prepare(cut(seq, completed)).state.unwrap();
                    let changes = state.changes(cut(seq, completed));
                    prop_assert!(incremental || changes.is_none());
                    let is_whole = changes.is_none();
                    let write = changes.unwrap_or(whole);
                    writing = Some((late, fails, is_whole, write, model.clone()));
                }
                Step::Cut { .. } => {}
            }
            prop_assert_eq!(state.len(), model.len());
            let due = writing.take_if(|(late, ..)| {
                let due = *late == 0;
                *late = late.saturating_sub(1);
                due
            });
            if let Some((_, fails, is_whole, write, at_the_cut)) = due
                && !fails
            {
                if is_whole {
                    saved.clear();
                }
                read(&bytes(write), &mut saved);
                prop_assert_eq!(&saved, &at_the_cut);
                completed = seq;
            }
        }
        prop_assert_eq!(content(&state), model);
    }
}

/// An object of the store with this content.
fn stored(
    store: &dyn CheckpointStore,
    name: &str,
    version: u32,
    write: WriteState,
) -> ObjectRecord {
    let (written, encoding) = write_state(store, name, write).unwrap();
    ObjectRecord {
        instance: InstanceId {
            operator: "totals".to_owned(),
            index: 0,
        },
        object: name.to_owned(),
        length: written.length,
        crc32: written.crc32,
        state_type: "totals".to_owned(),
        state_version: version,
        encoding,
        base: Vec::new(),
    }
}

#[test]
fn s30_state_of_an_older_program_is_upgraded_entry_by_entry() {
    let store = MemoryStore::new();
    let mut old = KeyedState::<u64, u32>::new();
    for key in 0..3_000 {
        old.insert(key, 7);
    }
    let write = old.prepare(cut(1, 0)).state.unwrap();
    let record = stored(&store, "1.1.1.totals.0", 1, write);
    let mut new = KeyedState::<u64, (u64, String)>::new();
    let loader = new.upgrading_loader(&InstanceContext::alone("totals"), |version, entry| {
        if version > 1 {
            return decoded(entry);
        }
        let (key, value) = decoded::<u64, u32>(entry)?;
        Ok((key, value.map(|value| (value.into(), "old".to_owned()))))
    });
    let objects = [SavedObject { record }];
    let mut saved = Saved::new(&store, &objects);
    new.take(loader.load(&mut saved).unwrap()).unwrap();
    assert_eq!(saved.remaining(), 0);
    assert_eq!(new.len(), 3_000);
    assert_eq!(new.get(&2_999), Some(&(7, "old".to_owned())));
}

#[test]
fn damaged_or_cut_off_state_is_an_error_and_never_a_part_of_it() {
    let mut state = KeyedState::<u64, u64>::new();
    for key in 0..10 {
        state.insert(key, key);
    }
    let whole = bytes(state.prepare(cut(1, 0)).state.unwrap());
    for length in 0..whole.len() {
        let read = read_entries(&mut &whole[..length], |_| Ok(()));
        assert!(read.is_err(), "{length} of {}", whole.len());
    }
    let store = MemoryStore::new();
    let mut record = stored(
        &store,
        "1.1.1.totals.0",
        1,
        Box::new(move |to| to.write_all(&whole)),
    );
    record.crc32 ^= 1;
    let loader = state.loader(&InstanceContext::alone("totals"));
    let objects = [SavedObject { record }];
    assert!(loader.load(&mut Saved::new(&store, &objects)).is_err());
}

#[test]
fn saved_entries_are_readable_without_their_types() {
    let mut state = KeyedState::<String, (u64, bool)>::new();
    state.insert("a".to_owned(), (1, true));
    let whole = bytes(state.prepare(cut(1, 0)).state.unwrap());
    let mut told = Vec::new();
    read_entries(&mut &whole[..], |entry| {
        let (key, value) = entry.to_json()?;
        told.push(format!("{key} {}", value.unwrap_or_default()));
        Ok(())
    })
    .unwrap();
    assert_eq!(told, [r#""a" [1,true]"#]);
}

#[test]
fn what_another_loader_made_is_refused() {
    let state = KeyedState::<u64, u64>::new();
    let store = MemoryStore::new();
    let loader = state.loader(&InstanceContext::alone("totals"));
    let loaded = loader.load(&mut Saved::new(&store, &[])).unwrap();
    let mut other = KeyedState::<u64, String>::new();
    assert!(matches!(
        other.take(loaded),
        Err(OperatorError::Permanent(_))
    ));
}

#[test]
fn when_generations_have_run_out_a_whole_state_is_written_and_nothing_is_left_out_of_a_change() {
    let mut state = KeyedState::<u64, u64>::new().incremental();
    state.generation = Generation::MAX - 1;
    let mut saved = BTreeMap::new();
    let mut whole = 0;
    for seq in 1..8 {
        state.insert(seq, seq);
        state.insert(0, seq);
        state.remove(&seq.saturating_sub(2).max(1));
        let prepared = state.prepare(cut(seq, seq - 1));
        let Some(changes) = state.changes(cut(seq, seq - 1)) else {
            saved.clear();
            read(&bytes(prepared.state.unwrap()), &mut saved);
            whole += 1;
            continue;
        };
        drop(prepared);
        read(&bytes(changes), &mut saved);
        assert_eq!(saved, content(&state), "cut {seq}");
    }
    assert_eq!(whole, 2, "the first, and the one after the last generation");
}
