//! The bytes of a fence, a base and the few other records of a guard: one line of JSON and one line with its checksum.

use lockkeeper_core::token::Lineage;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{GuardError, ManifestId};

/// What `base-<epoch>` says: where the leader of that epoch began. It grows with the leaders whose
/// manifests are still in the store, some 40 bytes each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The manifest that it continues; none at the beginning of a series.
    pub manifest: Option<ManifestId>,
    /// Published manifests that it leaves out because they could not be used.
    pub left_out: Vec<LeftOut>,
    /// Whose the numbers up to that manifest are, the newest first.
    pub history: Vec<Segment>,
}

/// A part of the history: the manifests that one leader has published in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The epoch of that leader.
    pub epoch: u64,
    /// Its numbers are above this one.
    pub above: u64,
    /// The last of them.
    pub up_to: u64,
}

impl Segment {
    pub(crate) fn has(&self, manifest: ManifestId) -> bool {
        let is_within = self.above < manifest.sequence && manifest.sequence <= self.up_to;
        manifest.epoch == self.epoch && is_within
    }
}

/// A published manifest that a leader could not use, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// The manifest.
    pub manifest: ManifestId,
    /// Why it could not be used.
    pub reason: String,
}

/// What `fence-<epoch>` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fence {
    pub(crate) epoch: u64,
    /// A number of this fence's own: one that is created again under the same name is another one.
    pub(crate) holder: Uuid,
}

/// What `pruned` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PrunedRecord {
    /// The first leader that has removed records of former ones.
    pub(crate) first_by: u64,
}

/// What `lineage-<number>` says: whose epochs count, from this record on up to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LineageRecord {
    pub(crate) lineage: Lineage,
    /// The guard's epoch is a token's epoch plus this: above all fences there were before.
    pub(crate) epochs_above: u64,
}

pub(crate) fn encode<T: Serialize>(name: &str, record: &T) -> Result<Vec<u8>, GuardError> {
    let json = serde_json::to_vec(record).map_err(|error| corrupt(name, &error))?;
    Ok(seal(json))
}

/// A line, and one with its checksum.
pub(crate) fn seal(mut line: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&line);
    line.extend_from_slice(format!("\ncrc32 {checksum:08x}\n").as_bytes());
    line
}

pub(crate) fn decode<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, GuardError> {
    let text = std::str::from_utf8(bytes).map_err(|error| corrupt(name, &error))?;
    let mut lines = text.lines();
    let (Some(json), Some(checksum), None) = (lines.next(), lines.next(), lines.next()) else {
        return Err(corrupt(name, &"it does not have two lines"));
    };
    if checksum != format!("crc32 {:08x}", crc32fast::hash(json.as_bytes())) {
        return Err(corrupt(name, &"the checksum differs"));
    }
    serde_json::from_str(json).map_err(|error| corrupt(name, &error))
}

fn corrupt(name: &str, reason: &dyn std::fmt::Display) -> GuardError {
    GuardError::Corrupt {
        name: name.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_is_never_taken_for_a_good_one() {
        let base = Base {
            manifest: Some(ManifestId {
                sequence: 12,
                epoch: 3,
            }),
            left_out: vec![LeftOut {
                manifest: ManifestId {
                    sequence: 13,
                    epoch: 3,
                },
                reason: "checksum\nof two lines".to_owned(),
            }],
            history: vec![Segment {
                epoch: 3,
                above: 0,
                up_to: 12,
            }],
        };
        let bytes = encode("base-4", &base).unwrap();
        assert_eq!(decode::<Base>("base-4", &bytes).unwrap(), base);
        for position in 0..bytes.len() - 1 {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert!(
                decode::<Base>("base-4", &damaged).is_err(),
                "byte {position}"
            );
            assert!(
                decode::<Base>("base-4", &bytes[..position]).is_err(),
                "cut at {position}"
            );
        }
    }
}
