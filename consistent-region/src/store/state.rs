//! Operators' state as objects: compressed or as it is, in one way for all stores.
//!
//! Length and CRC-32 of an object's record are those of what is stored, so that a coordinator
//! verifies objects without decoding them. How they are encoded is said by the record
//! ([`ObjectRecord::encoding`]), not guessed from the bytes: a record of an earlier version has no
//! such field, and its object is read as it is.

use std::io;
use std::io::{Read, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use serde::{Deserialize, Serialize};

use super::verify::{read_verified, told};
use super::{CheckpointStore, StoreError, Written};
use crate::manifest::ObjectRecord;

/// How a store's state is written. Reading needs no setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As the operator writes it: for state that is compressed already, and for disks that are
    /// faster than LZ4 (some GB/s on one core).
    Off,
    /// In the LZ4 frame format, if the state is longer than `above` bytes; up to there as it is.
    /// At most that much is held back in memory.
    Lz4 {
        /// In bytes.
        above: usize,
    },
}

impl Default for Compression {
    /// LZ4 for state of more than 4 KiB.
    fn default() -> Self {
        Self::Lz4 { above: 4 * 1024 }
    }
}

/// How the bytes of an object are to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Encoding {
    /// As the operator wrote them. Versions that did not compress said nothing: it is the default.
    #[default]
    Plain,
    /// One frame of the LZ4 frame format.
    Lz4Frame,
}

/// Writes state to a new object, with the store's [`Compression`].
///
/// # Errors
/// Those of [`CheckpointStore::write_object`]; then there is no object.
pub fn write_state(
    store: &dyn CheckpointStore,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(Written, Encoding), StoreError> {
    let (mut write, mut encoding) = (Some(write), Encoding::Plain);
    let written = store.write_object(name, &mut |to| {
        let write = write.take().ok_or_else(written_twice)?;
        let mut encoder = Encoder::new(store.compression(), to);
        write(&mut encoder)?;
        encoding = encoder.finish()?;
        Ok(())
    })?;
    Ok((written, encoding))
}

/// Reads the state of `record` whole, verified and decoded, so that nobody sees a part of damaged
/// state.
///
/// # Errors
/// [`StoreError::Missing`], [`StoreError::Damaged`] (also when the content can't be decoded), and
/// [`StoreError::Io`] when the medium fails.
pub fn read_state(
    store: &dyn CheckpointStore,
    record: &ObjectRecord,
) -> Result<Vec<u8>, StoreError> {
    let mut stored = read_verified(store, record)?;
    let mut state = Vec::new();
    let read = match record.encoding {
        Encoding::Plain => stored.read_to_end(&mut state),
        Encoding::Lz4Frame => FrameDecoder::new(&mut stored).read_to_end(&mut state),
    };
    match read {
        Ok(_) => stored.finish().map(|()| state),
        Err(error) if is_undecodable(&error) => {
            // The checksum knows better what is wrong.
            stored.finish()?;
            Err(StoreError::Damaged {
                location: store.location(),
                name: record.object.clone(),
                what: format!("as stored, but no LZ4 frame: {error}"),
            })
        }
        Err(error) => Err(told(error, store.location(), &record.object)),
    }
}

fn is_undecodable(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(|inner| inner.is::<lz4_flex::frame::Error>())
        || error.kind() == io::ErrorKind::UnexpectedEof
}

fn written_twice() -> io::Error {
    io::Error::other("the state can be written only once")
}

/// Decides after the first bytes whether the rest is worth compressing.
enum Encoder<'a> {
    Undecided {
        held: Vec<u8>,
        above: usize,
        to: &'a mut dyn Write,
    },
    Plain(&'a mut dyn Write),
    Lz4(Box<FrameEncoder<&'a mut dyn Write>>),
    Failed,
}

impl<'a> Encoder<'a> {
    fn new(compression: Compression, to: &'a mut dyn Write) -> Self {
        match compression {
            Compression::Off => Self::Plain(to),
            Compression::Lz4 { above } => Self::Undecided {
                held: Vec::new(),
                above,
                to,
            },
        }
    }

    fn finish(self) -> io::Result<Encoding> {
        match self {
            Self::Undecided { held, to, .. } => {
                to.write_all(&held)?;
                Ok(Encoding::Plain)
            }
            Self::Plain(_) => Ok(Encoding::Plain),
            Self::Lz4(encoder) => {
                encoder.finish()?;
                Ok(Encoding::Lz4Frame)
            }
            Self::Failed => Err(io::Error::other("an earlier write of this state failed")),
        }
    }
}

impl Write for Encoder<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Self::Undecided { held, above, .. } = self
            && held.len().saturating_add(bytes.len()) <= *above
        {
            held.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        // What fails stays failed, also if the writer of the state does not look at it.
        let result = match std::mem::replace(self, Self::Failed) {
            Self::Undecided { held, to, .. } => {
                let frame = FrameInfo::new()
                    .block_size(BlockSize::Max256KB)
                    .block_mode(BlockMode::Independent);
                let mut encoder = Box::new(FrameEncoder::with_frame_info(frame, to));
                encoder
                    .write_all(&held)
                    .and_then(|()| encoder.write(bytes))
                    .map(|count| (count, Self::Lz4(encoder)))
            }
            Self::Plain(to) => to.write(bytes).map(|count| (count, Self::Plain(to))),
            Self::Lz4(mut encoder) => encoder
                .write(bytes)
                .map(|count| (count, Self::Lz4(encoder))),
            Self::Failed => Err(io::Error::other("an earlier write of this state failed")),
        };
        let (count, encoder) = result?;
        *self = encoder;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        // The end of the object flushes.
        Ok(())
    }
}

#[cfg(test)]
mod tests;
