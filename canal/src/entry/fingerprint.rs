//! Recognising an entry that comes again.

use std::fmt;

use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::{Entry, EntryType};

/// Changes whenever what goes into a fingerprint changes: stored ones are not compared across.
const LAYOUT: u8 = 1;

/// `RowChange.tableId`: it is a number of the database server's run, not of the table.
const TABLE_ID: u32 = 1;

/// `Header.eventType` when it is absent.
const UPDATE: i32 = 2;

/// 128 bits that stand for an entry's content: its type, database server, time, schema, table,
/// kind of change and body.
///
/// The file's name and offset are left out, because an entry can come again under others, and so
/// is the body's table id. The bytes on the wire are hashed as they came: encoding a decoded entry
/// again does not give the same bytes. Equal entries have equal fingerprints, so a fingerprint
/// alone does not say *which* of several equal changes an entry is: align sequences, anchored at
/// [`Entry::transaction_end_id`].
///
/// It is the first half of a SHA-1, stable over processes, platforms and releases (a release that
/// changes it says so in the changelog).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryFingerprint([u8; 16]);

impl EntryFingerprint {
    pub(super) fn of(entry: &Entry) -> Self {
        let mut hash = Sha1::new();
        hash.update([LAYOUT]);
        hash.update(entry.entry_type.number().to_be_bytes());
        hash.update(entry.header.server_id.to_be_bytes());
        hash.update(entry.header.execute_time.to_be_bytes());
        text(&mut hash, &entry.header.schema_name);
        text(&mut hash, &entry.header.table_name);
        hash.update(entry.header.event_type.unwrap_or(UPDATE).to_be_bytes());
        match entry.entry_type {
            EntryType::RowData => without_table_id(&mut hash, &entry.content),
            _ => hash.update(&entry.content),
        }
        let whole: [u8; 20] = hash.finalize().into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        Self(half)
    }

    /// The bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl From<[u8; 16]> for EntryFingerprint {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for EntryFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EntryFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryFingerprint({self})")
    }
}

fn text(hash: &mut Sha1, text: &str) {
    hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(text);
}

/// Hashes a row change's fields as they are on the wire, all but the table id. What is no field
/// is hashed as it is: a body that cannot be read still has its fingerprint.
fn without_table_id(hash: &mut Sha1, content: &Bytes) {
    let mut rest = content.clone();
    while rest.has_remaining() {
        let start = rest.clone();
        match next_field(&mut rest) {
            Some((TABLE_ID, WireType::Varint)) => {}
            Some(_) => hash.update(&start[..start.len() - rest.len()]),
            None => return hash.update(&start),
        }
    }
}

fn next_field(rest: &mut Bytes) -> Option<(u32, WireType)> {
    let (tag, wire_type) = decode_key(rest).ok()?;
    skip_field(wire_type, tag, rest, DecodeContext::default()).ok()?;
    Some((tag, wire_type))
}
