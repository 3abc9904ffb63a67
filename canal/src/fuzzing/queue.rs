//! What lies in a message queue, written by Canal's own server or by others.

use bytes::Bytes;

use super::row::{self, DESTINATION};
use crate::entry::Entry;
use crate::mq::{FlatMessage, decode_protobuf, encode_protobuf};
use crate::parsed::Parsed;

/// A message in the flat form, or in the protobuf form: it becomes entries or is an error, and is
/// written again as the same message.
///
/// # Panics
/// When not.
pub fn queue(bytes: &[u8]) {
    if let Ok(message) = FlatMessage::parse(bytes) {
        let again = FlatMessage::parse(&message.to_json());
        assert_eq!(again.as_ref(), Ok(&message));
        if let Ok(raw) = message.to_entry(("example.0", 7)) {
            let entry = Entry::decode(DESTINATION.into(), raw);
            let entry = entry.expect("what was encoded can be decoded");
            let parsed = Parsed::of(&entry);
            assert!(matches!(parsed, Ok(Some(_))), "no entry that carries rows");
            row::read(&entry);
        }
    }
    if let Ok(entries) = decode_protobuf(Bytes::copy_from_slice(bytes)) {
        let written = encode_protobuf(entries.clone());
        assert_eq!(decode_protobuf(written), Ok(entries));
    }
}
