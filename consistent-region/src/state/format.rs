//! How the entries of a keyed state are written.
//!
//! `LKKS`, the format's number (1), then entries: a byte that says what it is (1: a value, 2: the
//! key was removed, 0: the end), the key group (u16), the key's length (u32) and bytes, and for a
//! value its length (u32) and bytes. Numbers are little-endian, keys and values MessagePack.

use std::io::{self, Read, Write};

use lockkeeper_core::codec;
use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: [u8; 4] = *b"LKKS";
const FORMAT: u8 = 1;
const END: u8 = 0;
const PUT: u8 = 1;
const REMOVED: u8 = 2;
/// The longest key or value, in bytes: a length is believed only up to here.
const LONGEST: u32 = 1 << 30;
/// So much is reserved for a key or value before its bytes are there.
const RESERVED: usize = 64 * 1024;

/// Bytes that are handed on at once: so many that whoever takes them need not gather them again.
const GATHERED: usize = 256 * 1024;

/// Writes entries; see the module.
pub(super) struct EntryWriter<'a> {
    to: &'a mut dyn Write,
    buffer: Vec<u8>,
}

impl<'a> EntryWriter<'a> {
    pub(super) fn new(to: &'a mut dyn Write) -> io::Result<Self> {
        to.write_all(&MAGIC)?;
        to.write_all(&[FORMAT])?;
        Ok(Self {
            to,
            buffer: Vec::new(),
        })
    }

    pub(super) fn put<K: Serialize, V: Serialize>(
        &mut self,
        group: u16,
        key: &K,
        value: Option<&V>,
    ) -> io::Result<()> {
        self.buffer
            .push(if value.is_some() { PUT } else { REMOVED });
        self.buffer.extend_from_slice(&group.to_le_bytes());
        self.field(key)?;
        if let Some(value) = value {
            self.field(value)?;
        }
        if self.buffer.len() >= GATHERED {
            self.to.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// The length is known only afterwards: its place is kept.
    fn field<T: Serialize>(&mut self, field: &T) -> io::Result<()> {
        let at = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        rmp_serde::encode::write(&mut self.buffer, field).map_err(io::Error::other)?;
        let length = u32::try_from(self.buffer.len() - at - 4).unwrap_or(u32::MAX);
        if length > LONGEST {
            let what = format!("a key or value of {length} bytes: at most {LONGEST} are possible");
            return Err(io::Error::other(what));
        }
        self.buffer[at..at + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.buffer.push(END);
        self.to.write_all(&self.buffer)
    }
}

/// An entry of a saved [`KeyedState`](super::KeyedState), undecoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedEntry {
    /// Its key group.
    pub group: u16,
    /// The key (MessagePack).
    pub key: Vec<u8>,
    /// The value (MessagePack); `None`: the key was removed since the object before.
    pub value: Option<Vec<u8>>,
}

impl SavedEntry {
    /// The key as a value of its type.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
        rmp_serde::from_slice(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Key and value as JSON, whatever their types are: structures as arrays of their fields.
    ///
    /// # Errors
    /// When they are no MessagePack that JSON can say, or nest deeper than
    /// [`MAX_DEPTH`](lockkeeper_core::codec::MAX_DEPTH).
    pub fn to_json(&self) -> io::Result<(serde_json::Value, Option<serde_json::Value>)> {
        let json = |bytes| {
            codec::decode(bytes).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))
        };
        let value = self.value.as_deref().map(json).transpose()?;
        Ok((json(&self.key)?, value))
    }
}

/// Whether this is the begin of an object of a saved [`KeyedState`](super::KeyedState).
pub(crate) fn is_keyed(state: &[u8]) -> bool {
    state.starts_with(&MAGIC)
}

/// Reads the entries of one object of a saved [`KeyedState`](super::KeyedState), one after the
/// other, and gives each to `each`.
///
/// # Errors
/// When it is no such object, ends before its end, or `each` fails.
pub fn read_entries(
    from: &mut dyn Read,
    mut each: impl FnMut(SavedEntry) -> io::Result<()>,
) -> io::Result<()> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    if head[..4] != MAGIC {
        return Err(invalid("this is no keyed state".to_owned()));
    }
    if head[4] != FORMAT {
        let format = head[4];
        return Err(invalid(format!(
            "the keyed state has format {format}, this version reads {FORMAT}: use a newer one"
        )));
    }
    loop {
        let mut kind = [0];
        from.read_exact(&mut kind)?;
        let removed = match kind[0] {
            END => return Ok(()),
            PUT => false,
            REMOVED => true,
            other => return Err(invalid(format!("{other} is no entry of a keyed state"))),
        };
        let mut group = [0; 2];
        from.read_exact(&mut group)?;
        let key = read_field(from)?;
        let value = match removed {
            true => None,
            false => Some(read_field(from)?),
        };
        each(SavedEntry {
            group: u16::from_le_bytes(group),
            key,
            value,
        })?;
    }
}

fn read_field(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    let wanted = usize::try_from(length).unwrap_or(usize::MAX);
    if length > LONGEST {
        let what = format!("a key or value of {length} bytes: at most {LONGEST} are possible");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let mut bytes = Vec::with_capacity(wanted.min(RESERVED));
    from.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() != wanted {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}
