//! The head of an object, and the names of its records.
//!
//! A head is one line of JSON ([`Head`]) and, if the object fits into one chunk, its content.

use serde::{Deserialize, Serialize};

pub(super) const HEAD: &str = "object-";
pub(super) const CHUNK: &str = "chunk-";
pub(super) const BEGUN: &str = "begun-";

/// What a record's name may have in bytes.
const LONGEST: usize = 200;
/// What the name of a writer may have in bytes; it is a UUID.
const LONGEST_WRITER: usize = 64;
/// The newest format of heads that this version writes, and the newest it reads.
const FORMAT: u32 = 1;

/// Where an object's content is, and how it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) format: u32,
    /// The object: a head that comes to lie under another name is noticed.
    pub(super) object: String,
    /// Whose chunks they are.
    pub(super) writer: String,
    /// Of the whole content, in bytes.
    pub(super) length: u64,
    pub(super) crc32: u32,
    /// Empty when the content follows the head.
    pub(super) chunks: Vec<Chunk>,
}

/// One piece of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chunk {
    /// In bytes.
    pub(super) length: usize,
    pub(super) crc32: u32,
}

impl Chunk {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len(),
            crc32: crc32fast::hash(bytes),
        }
    }
}

impl Head {
    pub(super) fn new(object: &str, writer: &str) -> Self {
        Self {
            format: FORMAT,
            object: object.to_owned(),
            writer: writer.to_owned(),
            length: 0,
            crc32: 0,
            chunks: Vec::new(),
        }
    }

    pub(super) fn encode(&self, content: &[u8]) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        bytes.extend_from_slice(content);
        Ok(bytes)
    }

    /// Reads the head of `object`, and its content if that follows; says what does not fit.
    pub(super) fn decode(bytes: &[u8], object: &str) -> Result<(Self, Vec<u8>), String> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = end.and_then(|end| Some((bytes.get(..end)?, bytes.get(end + 1..)?)));
        let (line, content) = line.ok_or("its head is cut off")?;
        let head: Self = serde_json::from_slice(line)
            .map_err(|error| format!("its head can't be read: {error}"))?;
        if head.format > FORMAT {
            return Err(format!(
                "its head has format {}, this version reads up to {FORMAT}",
                head.format
            ));
        }
        if head.object != object {
            return Err(format!("its head is that of {}", head.object));
        }
        if !is_writer(&head.writer) {
            return Err("its head names no writer".to_owned());
        }
        if head.chunks.is_empty() {
            let found = Chunk::of(content);
            if u64::try_from(found.length) != Ok(head.length) || found.crc32 != head.crc32 {
                return Err(format!(
                    "{} bytes with CRC-32 {:08x} instead of {} with {:08x}",
                    found.length, found.crc32, head.length, head.crc32
                ));
            }
        }
        Ok((head, content.to_owned()))
    }
}

/// Whether it can be part of the names of chunks.
fn is_writer(writer: &str) -> bool {
    (1..=LONGEST_WRITER).contains(&writer.len())
        && writer
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The name of an object's head: names of records have no `%`.
pub(super) fn name_of(object: &str, fault: Option<&'static str>) -> Result<String, &'static str> {
    if let Some(fault) = fault {
        return Err(fault);
    }
    let name = format!("{HEAD}{}", object.replace('_', "__").replace('%', "_p"));
    if name.len() > LONGEST {
        return Err("it is too long for this store: 193 bytes, of which '_' and '%' count twice");
    }
    Ok(name)
}

/// The object whose head has this name.
pub(super) fn object_of(record: &str) -> Option<String> {
    let mut object = String::new();
    let mut characters = record.strip_prefix(HEAD)?.chars();
    while let Some(character) = characters.next() {
        object.push(match character {
            '_' => match characters.next()? {
                '_' => '_',
                'p' => '%',
                _ => return None,
            },
            other => other,
        });
    }
    Some(object)
}

pub(super) fn begun_name(writer: &str) -> String {
    format!("{BEGUN}{writer}")
}

pub(super) fn chunk_prefix(writer: &str) -> String {
    format!("{CHUNK}{writer}.")
}

pub(super) fn chunk_name(writer: &str, number: usize) -> String {
    format!("{CHUNK}{writer}.{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_has_a_head_of_its_own() {
        for object in ["1.1.0.a.0", "1.1.0.a_b%2f__.0", "1.1.0.%5f_p.0"] {
            let name = name_of(object, None).unwrap();
            assert!(!name.contains('%'), "{name}");
            assert_eq!(object_of(&name).as_deref(), Some(object));
        }
        assert!(name_of(&"x".repeat(194), None).is_err());
        assert!(name_of(&"x".repeat(193), None).is_ok());
        assert_eq!(object_of("object-a_"), None);
    }

    #[test]
    fn a_newer_head_and_another_objects_head_are_refused() {
        let head = Head {
            format: FORMAT + 1,
            ..Head::new("a", "w")
        };
        let refused = Head::decode(&head.encode(b"").unwrap(), "a").unwrap_err();
        assert!(refused.contains("format 2"), "{refused}");
        let head = Head::new("a", "w").encode(b"").unwrap();
        assert!(Head::decode(&head, "a").is_ok());
        let refused = Head::decode(&head, "b").unwrap_err();
        assert!(refused.contains("that of a"), "{refused}");
        assert!(Head::decode(b"", "a").is_err());
    }

    #[test]
    fn a_head_whose_chunks_no_record_can_have_is_damaged() {
        let long = "a".repeat(LONGEST_WRITER + 1);
        for writer in ["", "&", "a/b", "é", &long] {
            let head = Head::new("a", writer).encode(b"").unwrap();
            let refused = Head::decode(&head, "a").unwrap_err();
            assert_eq!(refused, "its head names no writer", "{writer}");
        }
    }
}
