//! The bytes of an entry: one line of JSON and one with its checksum.

use serde::Serialize;

use super::record::{ENTRY_FORMAT, Entry};
use crate::manifest::NewerManifest;

/// Why bytes are no entry of this region.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoEntry {
    /// Not as written: the entry before it may be used.
    #[error("{0}")]
    Damaged(String),
    /// Well written, but not for this program: nothing may be fallen back to.
    #[error("its format is {format}, this version reads up to {ENTRY_FORMAT}: use a newer one")]
    Newer { format: u32 },
    /// The same, of the manifest in it.
    #[error(transparent)]
    NewerManifest(#[from] NewerManifest),
}

pub(crate) fn encode(entry: &Entry) -> Result<Vec<u8>, serde_json::Error> {
    seal(entry)
}

/// One line of JSON and one with its checksum.
pub(crate) fn seal<T: Serialize>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(value).map(seal_line)
}

/// A line, and one with its checksum.
pub(crate) fn seal_line(mut line: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&line);
    line.extend_from_slice(format!("\ncrc32 {checksum:08x}\n").as_bytes());
    line
}

/// The JSON of what was [sealed](seal).
pub(crate) fn unseal(bytes: &[u8]) -> Result<&str, NoEntry> {
    let damaged = |what: &str| NoEntry::Damaged(what.to_owned());
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no UTF-8"))?;
    let mut lines = text.lines();
    let (Some(json), Some(checksum), None) = (lines.next(), lines.next(), lines.next()) else {
        return Err(damaged("it does not have two lines"));
    };
    if checksum != format!("crc32 {:08x}", crc32fast::hash(json.as_bytes())) {
        return Err(damaged("the checksum differs"));
    }
    Ok(json)
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Entry, NoEntry> {
    let json = unseal(bytes)?;
    let entry = serde_json::from_str::<Entry>(json);
    match entry {
        Ok(entry) if entry.format <= ENTRY_FORMAT => {
            if let Some(manifest) = &entry.manifest {
                manifest.check_format()?;
            }
            Ok(entry)
        }
        Ok(Entry { format, .. }) => Err(NoEntry::Newer { format }),
        // A newer format may have other fields: its number is read by itself.
        Err(error) => match serde_json::from_str::<serde_json::Value>(json) {
            Ok(value) => match value.get("format").and_then(serde_json::Value::as_u64) {
                Some(format) if format > u64::from(ENTRY_FORMAT) => Err(NoEntry::Newer {
                    format: u32::try_from(format).unwrap_or(u32::MAX),
                }),
                _ => Err(NoEntry::Damaged(error.to_string())),
            },
            Err(error) => Err(NoEntry::Damaged(error.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::*;
    use crate::manifest::MANIFEST_FORMAT;

    #[test]
    fn a_damaged_or_newer_entry_is_told_from_a_good_one() {
        let record = Record {
            region: "r".to_owned(),
            number: 1_192,
            ..Record::default()
        };
        let entry = Entry {
            format: ENTRY_FORMAT,
            record,
            manifest: None,
        };
        let bytes = encode(&entry).unwrap();
        assert_eq!(decode(&bytes).unwrap(), entry);
        for position in 0..bytes.len() - 1 {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert!(
                matches!(decode(&damaged), Err(NoEntry::Damaged(_))),
                "byte {position}"
            );
        }
        let json = r#"{"format":7,"something":"else"}"#;
        let newer = format!("{json}\ncrc32 {:08x}\n", crc32fast::hash(json.as_bytes()));
        assert_eq!(decode(newer.as_bytes()), Err(NoEntry::Newer { format: 7 }));
    }
    #[test]
    fn a_manifest_of_a_newer_format_is_refused_by_its_cut_and_never_fallen_back_from() {
        let manifest = |format: u32| {
            serde_json::json!({
                "format": format, "region": "r", "graph": 1, "seq": 8, "term": 1, "attempt": 1,
                "previous": 7, "published_at_ms": 0, "last": false, "objects": [], "tokens": [],
            })
        };
        let entry = |format: u32| {
            let entry = Entry {
                format: ENTRY_FORMAT,
                record: Record::default(),
                manifest: Some(serde_json::from_value(manifest(format)).unwrap()),
            };
            decode(&encode(&entry).unwrap())
        };
        assert!(entry(MANIFEST_FORMAT).is_ok());
        let error = entry(MANIFEST_FORMAT + 1).unwrap_err();
        assert!(matches!(error, NoEntry::NewerManifest(_)));
        let text = error.to_string();
        assert!(
            text.contains("cut 8") && text.contains("use a newer one"),
            "{text}"
        );
    }
}
