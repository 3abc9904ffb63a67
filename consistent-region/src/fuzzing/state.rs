//! The state of operators, as it lies in checkpoint objects.

use crate::archive::{one_value, read_values};
use crate::manifest::ObjectRecord;
use crate::protocol::InstanceId;
use crate::source::{STATE_TYPES, describe};
use crate::state::{SavedEntry, read_entries};
use crate::store::{CheckpointStore as _, Encoding, MemoryStore, Written, read_state, write_state};

/// The state of any operator: the entries of a keyed one, the place of a source, JSON, MessagePack,
/// and the same compressed. It is read or is an error; state that is written is read as it was.
///
/// # Panics
/// When not.
pub fn state(bytes: &[u8]) {
    content(bytes);
    let store = MemoryStore::new();
    let written = store.write_object("compressed", &mut |to| to.write_all(bytes));
    let written = written.expect("memory takes an object");
    let record = record("compressed", written, Encoding::Lz4Frame);
    if let Ok(state) = read_state(&store, &record) {
        content(&state);
    }
    written_and_read(bytes);
}

fn content(state: &[u8]) {
    let _ = read_entries(&mut &*state, |entry| {
        let _ = (one_value(&entry.key), entry.to_json());
        let _ = SavedEntry::decode::<(u64, Option<String>)>(&entry.key);
        Ok(())
    });
    if let Some(values) = read_values(state) {
        drop(serde_json::to_string(&values).expect("JSON can be written"));
    }
    for state_type in STATE_TYPES {
        let _ = describe(state_type, state);
    }
}

fn written_and_read(bytes: &[u8]) {
    let store = MemoryStore::new();
    // Above the length from which on state is compressed.
    let state = bytes.repeat(2 + 4096_usize.checked_div(bytes.len()).unwrap_or(0));
    let written = write_state(&store, "state", |to| to.write_all(&state));
    let (written, encoding) = written.expect("memory takes an object");
    let again = read_state(&store, &record("state", written, encoding));
    assert_eq!(again.expect("it is as it was written"), state);
}

fn record(object: &str, written: Written, encoding: Encoding) -> ObjectRecord {
    ObjectRecord {
        instance: InstanceId {
            operator: "counts".to_owned(),
            index: 0,
        },
        object: object.to_owned(),
        length: written.length,
        crc32: written.crc32,
        state_type: "counts".to_owned(),
        state_version: 1,
        encoding,
        base: Vec::new(),
    }
}
