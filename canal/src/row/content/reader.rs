//! Protobuf's wire format, field by field.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::Span;

/// Why bytes are none. Boxed: it is beside every number that is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.0)]
pub(crate) struct Malformed(Box<Reason>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Reason(String);

impl From<prost::DecodeError> for Malformed {
    #[cold]
    fn from(error: prost::DecodeError) -> Self {
        Self(Box::new(Reason(error.to_string())))
    }
}

#[cold]
fn malformed<T>(reason: &str) -> Result<T, Malformed> {
    Err(Malformed(Box::new(Reason(reason.to_owned()))))
}

/// A message within a buffer.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    /// The buffer, up to the message's end.
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// All of it. Places are of 32 bits: a frame that is larger is refused long before by its limit.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if u32::try_from(bytes.len()).is_err() {
            return malformed("it has more than 4 GiB");
        }
        Ok(Self { bytes, at: 0 })
    }

    /// What is left.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The buffer, up to this message's end.
    #[inline]
    pub(super) fn whole(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where it is in the buffer.
    #[inline]
    pub(super) fn place(&self) -> u32 {
        place(self.at)
    }

    /// The next field's number and kind.
    #[inline]
    pub(super) fn field(&mut self) -> Result<Option<(u32, WireType)>, Malformed> {
        let Some(&byte) = self.bytes.get(self.at) else {
            return Ok(None);
        };
        // Most are numbers and bytes with a field number below 16.
        if (8..0x80).contains(&byte) {
            let kind = match byte & 7 {
                0 => Some(WireType::Varint),
                2 => Some(WireType::LengthDelimited),
                _ => None,
            };
            if let Some(kind) = kind {
                self.at += 1;
                return Ok(Some((u32::from(byte >> 3), kind)));
            }
        }
        self.with(decode_key).map(Some)
    }

    #[inline]
    pub(super) fn number(&mut self, kind: WireType) -> Result<u64, Malformed> {
        if kind != WireType::Varint {
            return malformed("a field that should be a number is none");
        }
        self.varint()
    }

    /// The lower half, as protobuf has it.
    #[inline]
    pub(super) fn int32(&mut self, kind: WireType) -> Result<i32, Malformed> {
        let [a, b, c, d, ..] = self.number(kind)?.to_le_bytes();
        Ok(i32::from_le_bytes([a, b, c, d]))
    }

    #[inline]
    pub(super) fn boolean(&mut self, kind: WireType) -> Result<bool, Malformed> {
        Ok(self.number(kind)? != 0)
    }

    #[inline]
    pub(super) fn bytes(&mut self, kind: WireType) -> Result<Span, Malformed> {
        let (start, end) = self.range(kind)?;
        Ok(Span {
            start: place(start),
            end: place(end),
        })
    }

    pub(super) fn text(&mut self, kind: WireType) -> Result<Span, Malformed> {
        let (start, end) = self.range(kind)?;
        let bytes = self.bytes.get(start..end).unwrap_or_default();
        if std::str::from_utf8(bytes).is_err() {
            return malformed("a text is not UTF-8");
        }
        Ok(Span {
            start: place(start),
            end: place(end),
        })
    }

    /// A message in this one.
    #[inline]
    pub(super) fn message(&mut self, kind: WireType) -> Result<Self, Malformed> {
        let (start, end) = self.range(kind)?;
        Ok(Self {
            bytes: self.bytes.get(..end).unwrap_or_default(),
            at: start,
        })
    }

    /// A key and its value.
    pub(super) fn pair(mut self) -> Result<(Span, Span), Malformed> {
        let (mut key, mut value) = (Span::default(), Span::default());
        while let Some((tag, kind)) = self.field()? {
            match tag {
                1 => key = self.text(kind)?,
                2 => value = self.text(kind)?,
                _ => self.skip(tag, kind)?,
            }
        }
        Ok((key, value))
    }

    /// Passes a field that nobody knows; groups in it to a limited depth.
    pub(super) fn skip(&mut self, tag: u32, kind: WireType) -> Result<(), Malformed> {
        self.with(|rest| skip_field(kind, tag, rest, DecodeContext::default()))
    }

    #[inline]
    fn range(&mut self, kind: WireType) -> Result<(usize, usize), Malformed> {
        if kind != WireType::LengthDelimited {
            return malformed("a field that should be bytes is none");
        }
        let length = self.varint()?;
        let end = usize::try_from(length).ok();
        let end = end.and_then(|length| self.at.checked_add(length));
        match end.filter(|end| *end <= self.bytes.len()) {
            Some(end) => {
                let start = std::mem::replace(&mut self.at, end);
                Ok((start, end))
            }
            None => malformed("a field is longer than what it is in"),
        }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest() {
            [byte @ 0..0x80, ..] => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            // As most rows' lengths are.
            [low, high @ 0..0x80, ..] => {
                self.at += 2;
                Ok(u64::from(low & 0x7f) | u64::from(*high) << 7)
            }
            _ => self.with(decode_varint),
        }
    }

    /// Lets prost read on.
    #[cold]
    fn with<T>(
        &mut self,
        read: impl FnOnce(&mut &'a [u8]) -> Result<T, prost::DecodeError>,
    ) -> Result<T, Malformed> {
        let mut rest = self.rest();
        let value = read(&mut rest)?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }
}

/// A place in what [`Reader::new`] has let in.
#[inline]
pub(super) fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
