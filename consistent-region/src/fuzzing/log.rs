//! What the coordinators write: the log with the manifests in it, and savepoints.

use crate::coordinator::{decode_entry, encode_entry, read_savepoint, seal_line};
use crate::store::{CheckpointStore as _, MemoryStore};

/// An entry of the region's log with its manifest, and a savepoint, as they come and with a checksum
/// that fits: an entry that is read is written again as bytes that are the same entry.
///
/// # Panics
/// When they are not.
pub fn log(bytes: &[u8]) {
    let sealed = seal_line(bytes.to_vec());
    for bytes in [bytes, &sealed] {
        if let Ok(entry) = decode_entry(bytes) {
            let written = encode_entry(&entry).expect("what was decoded can be encoded");
            assert_eq!(decode_entry(&written).as_ref(), Ok(&entry));
        }
        let store = MemoryStore::new();
        let written = store.write_object("savepoint.a", &mut |to| to.write_all(bytes));
        written.expect("memory takes an object");
        if let Ok(savepoint) = read_savepoint(&store, "a") {
            let _ = savepoint.manifest.parts().count();
        }
    }
}
