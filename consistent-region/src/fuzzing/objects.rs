//! How objects lie in a store of records, and rows in a spool.

use std::io::Read as _;
use std::sync::Arc;

use lockkeeper_fencing::guard::{GuardStore as _, MemoryGuardStore};

use crate::source::Segment;
use crate::store::{CheckpointStore as _, RecordStore};

/// The head of a checkpoint object, whose chunks are missing, and a segment of a spool with and
/// without a checksum that fits: each is read whole or is an error, and what is unreadable can be
/// removed.
///
/// # Panics
/// When not.
pub fn objects(bytes: &[u8]) {
    head(bytes);
    let sealed = [bytes, &crc32fast::hash(bytes).to_be_bytes()].concat();
    for bytes in [bytes, &sealed] {
        if let Ok(segment) = Segment::from_bytes(bytes) {
            assert_eq!(segment.to_bytes(), bytes);
        }
    }
}

fn head(bytes: &[u8]) {
    let records = Arc::new(MemoryGuardStore::new());
    let created = records.create_if_absent("object-a", bytes);
    created.expect("memory takes a record");
    let log = Arc::new(MemoryGuardStore::new());
    let store = RecordStore::new("memory", records.clone(), log);
    if let Ok(mut object) = store.read_object("a") {
        let mut content = Vec::new();
        if object.read_to_end(&mut content).is_ok() {
            assert!(bytes.ends_with(&content), "another content");
        }
    }
    let _ = store.remove_unfinished(&|_| true);
    store.remove_object("a").expect("it can be removed");
    let left = records.list("").expect("memory can be listed");
    assert_eq!(left, Vec::<String>::new());
}
