//! The few shapes that a frame's fields have: big-endian numbers, length-prefixed text, identifiers.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use uuid::Uuid;

use super::WireError;

/// Takes fields off the front of a frame's body; running out of bytes is an error, never a panic.
#[derive(Debug)]
pub(crate) struct Reader {
    rest: Bytes,
    frame: &'static str,
}

impl Reader {
    /// Reads `body`, the bytes after the kind byte; `frame` names the kind in errors.
    pub(crate) fn new(body: Bytes, frame: &'static str) -> Self {
        Self { rest: body, frame }
    }

    fn need(&self, size: usize, field: &'static str) -> Result<(), WireError> {
        if self.rest.len() < size {
            return Err(WireError::Truncated {
                frame: self.frame,
                field,
            });
        }
        Ok(())
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        self.need(1, field)?;
        Ok(self.rest.get_u8())
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        self.need(2, field)?;
        Ok(self.rest.get_u16())
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.need(4, field)?;
        Ok(self.rest.get_u32())
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.need(8, field)?;
        Ok(self.rest.get_u64())
    }

    pub(crate) fn uuid(&mut self, field: &'static str) -> Result<Uuid, WireError> {
        self.array(field).map(Uuid::from_bytes)
    }

    pub(crate) fn array<const SIZE: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; SIZE], WireError> {
        self.need(SIZE, field)?;
        let mut bytes = [0; SIZE];
        self.rest.copy_to_slice(&mut bytes);
        Ok(bytes)
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Text with a `u16` length in bytes before it.
    pub(crate) fn text(&mut self, field: &'static str) -> Result<String, WireError> {
        let length = usize::from(self.u16(field)?);
        self.need(length, field)?;
        let bytes = self.rest.split_to(length);
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(WireError::NotText {
                frame: self.frame,
                field,
            }),
        }
    }

    /// Everything that is left, without a copy.
    pub(crate) fn rest(self) -> Bytes {
        self.rest
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(WireError::TrailingBytes {
            frame: self.frame,
            size: self.rest.len(),
        })
    }

    /// An unusable value in a field.
    pub(crate) fn bad(&self, field: &'static str, value: u64) -> WireError {
        WireError::BadValue {
            frame: self.frame,
            field,
            value,
        }
    }
}

/// Writes a name; one that does not fit into a `u16` length is refused.
pub(crate) fn put_name(
    out: &mut BytesMut,
    field: &'static str,
    text: &str,
) -> Result<(), WireError> {
    let length = u16::try_from(text.len()).map_err(|_| WireError::NameTooLong {
        field,
        size: text.len(),
    })?;
    out.put_u16(length);
    out.put_slice(text.as_bytes());
    Ok(())
}

/// The longest text for people in a frame, in bytes; what is longer is cut.
pub(crate) const TEXT_LIMIT: u16 = 4096;

/// Writes text for people, cut at a character's border to at most [`TEXT_LIMIT`] bytes.
pub(crate) fn put_text(out: &mut BytesMut, text: &str) {
    let mut end = text.len();
    let mut length = TEXT_LIMIT;
    if let Ok(short) = u16::try_from(end)
        && short <= TEXT_LIMIT
    {
        length = short;
    } else {
        end = usize::from(TEXT_LIMIT);
        while !text.is_char_boundary(end) {
            end -= 1;
            length -= 1;
        }
    }
    out.put_u16(length);
    out.put_slice(&text.as_bytes()[..end]);
}
