//! What both sides say before the first frame.
//!
//! The dialling side speaks first; the other answers with its own preface whatever it thinks of
//! the first, so that both learn of a mismatch within one round trip. The layout up to the length
//! field never changes; a later protocol version may append fields, which this one skips.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

use super::WireError;
use super::field::{self, Reader};

/// The first bytes of every connection.
pub(crate) const MAGIC: [u8; 8] = *b"LOCKKEEP";

/// Bytes of magic and length field.
pub(crate) const HEAD: usize = MAGIC.len() + 2;

/// The longest preface body in bytes. It bounds what an unknown peer can make us keep.
pub(crate) const BODY_LIMIT: u16 = 2048;

/// The newest and the oldest protocol version that this build speaks.
pub(crate) const VERSIONS: VersionRange = VersionRange { min: 1, max: 2 };

/// Bytes of a nonce.
pub(crate) const NONCE: usize = 32;

/// The value of the field "proof" for a shared key; 0, or a preface without the field, is none.
const SHARED_KEY: u8 = 1;

/// An inclusive range of protocol versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionRange {
    pub(crate) min: u16,
    pub(crate) max: u16,
}

impl VersionRange {
    /// The highest version that both sides speak.
    pub(crate) fn highest_common(self, other: Self) -> Option<u16> {
        let highest = if self.max < other.max {
            self.max
        } else {
            other.max
        };
        let lowest = if self.min > other.min {
            self.min
        } else {
            other.min
        };
        (highest >= lowest).then_some(highest)
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..={}", self.min, self.max)
    }
}

/// One side's introduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preface {
    /// Protocol versions that the sender speaks; the highest common one is used.
    pub(crate) versions: VersionRange,
    /// Identifies this run of the sender's service; another run has another one.
    pub(crate) incarnation: Uuid,
    /// The largest frame in bytes that the sender takes; the smaller of both ends counts.
    pub(crate) frame_limit: u32,
    /// The application's own version, for people.
    pub(crate) application: String,
    /// Where the sender can be dialled (`host:port`), empty if it does not listen.
    pub(crate) listening: String,
    /// Fresh for each connection, if the sender proves a shared key and demands that of the peer.
    pub(crate) nonce: Option<[u8; NONCE]>,
}

impl Preface {
    /// Appends the preface's bytes.
    pub(crate) fn encode(&self, out: &mut BytesMut) -> Result<(), WireError> {
        let mut body = BytesMut::new();
        body.put_u16(self.versions.min);
        body.put_u16(self.versions.max);
        body.put_slice(self.incarnation.as_bytes());
        body.put_u32(self.frame_limit);
        field::put_name(&mut body, "application", &self.application)?;
        field::put_name(&mut body, "listening", &self.listening)?;
        if let Some(nonce) = &self.nonce {
            body.put_u8(SHARED_KEY);
            body.put_slice(nonce);
        }
        let length = u16::try_from(body.len())
            .ok()
            .filter(|length| *length <= BODY_LIMIT)
            .ok_or(WireError::NameTooLong {
                field: "preface",
                size: body.len(),
            })?;
        out.put_slice(&MAGIC);
        out.put_u16(length);
        out.put_slice(&body);
        Ok(())
    }

    /// Checks magic and length of the first [`HEAD`] bytes and returns the body's length.
    pub(crate) fn body_length(head: &[u8; HEAD]) -> Result<usize, WireError> {
        if !head.starts_with(&MAGIC) {
            let mut found = [0; 8];
            found.copy_from_slice(&head[..MAGIC.len()]);
            return Err(WireError::WrongProtocol { found });
        }
        let length = u16::from_be_bytes([head[HEAD - 2], head[HEAD - 1]]);
        if length > BODY_LIMIT {
            return Err(WireError::FrameTooLong {
                size: u64::from(length),
                limit: u64::from(BODY_LIMIT),
            });
        }
        Ok(usize::from(length))
    }

    /// Reads the body; bytes after the known fields belong to a later version and are skipped.
    pub(crate) fn decode(body: Bytes) -> Result<Self, WireError> {
        let mut body = Reader::new(body, "preface");
        let versions = VersionRange {
            min: body.u16("min version")?,
            max: body.u16("max version")?,
        };
        if versions.min > versions.max {
            return Err(body.bad("min version", u64::from(versions.min)));
        }
        Ok(Self {
            versions,
            incarnation: body.uuid("incarnation")?,
            frame_limit: body.u32("frame limit")?,
            application: body.text("application")?,
            listening: body.text("listening")?,
            nonce: nonce(&mut body)?,
        })
    }
}

fn nonce(body: &mut Reader) -> Result<Option<[u8; NONCE]>, WireError> {
    if body.is_empty() {
        return Ok(None);
    }
    match body.u8("proof")? {
        0 => Ok(None),
        SHARED_KEY => body.array("nonce").map(Some),
        other => Err(body.bad("proof", u64::from(other))),
    }
}
