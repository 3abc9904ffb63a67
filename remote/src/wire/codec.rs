//! Frames in a stream of bytes: `u32` length, then that many bytes (kind, fields, payload).

use bytes::{Buf, BufMut, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use super::{Frame, WireError};

/// Bytes of the length field.
pub(crate) const LENGTH: usize = 4;

/// The most that is reserved ahead for a frame whose bytes have not come yet.
///
/// A peer can announce the whole frame limit with four bytes; memory follows what it really sends.
const RESERVE: usize = 64 * 1024;

/// Cuts a stream into [`Frame`]s and back. The limit holds in both directions.
#[derive(Debug)]
pub(crate) struct FrameCodec {
    limit: u32,
    decoded: u64,
}

impl FrameCodec {
    /// A codec that neither takes nor makes a frame of more than `limit` bytes after the length
    /// field.
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, decoded: 0 }
    }

    /// Bytes of the frames that were decoded since this was called last.
    pub(crate) fn take_decoded(&mut self) -> u64 {
        std::mem::take(&mut self.decoded)
    }
}

impl Decoder for FrameCodec {
    type Item = Frame;
    type Error = WireError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Frame>, WireError> {
        let Some(head) = source.first_chunk::<LENGTH>() else {
            source.reserve(LENGTH);
            return Ok(None);
        };
        let length = u32::from_be_bytes(*head);
        if length > self.limit {
            return Err(WireError::FrameTooLong {
                size: u64::from(length),
                limit: u64::from(self.limit),
            });
        }
        let length = usize::try_from(length).map_err(|_| WireError::FrameTooLong {
            size: u64::from(length),
            limit: u64::from(self.limit),
        })?;
        if length == 0 {
            return Err(WireError::EmptyFrame);
        }
        let missing = (LENGTH + length).saturating_sub(source.len());
        if missing > 0 {
            source.reserve(if missing < RESERVE { missing } else { RESERVE });
            return Ok(None);
        }
        source.advance(LENGTH);
        self.decoded += u64::try_from(LENGTH + length).unwrap_or(u64::MAX);
        Frame::from_body(source.split_to(length).freeze()).map(Some)
    }
}

impl Encoder<&Frame> for FrameCodec {
    type Error = WireError;

    fn encode(&mut self, frame: &Frame, out: &mut BytesMut) -> Result<(), WireError> {
        let start = out.len();
        let payload = frame.payload();
        out.reserve(LENGTH + 32 + payload.len());
        out.put_u32(0);
        if let Err(error) = frame.encode_fields(out) {
            out.truncate(start);
            return Err(error);
        }
        let size = out.len() - start - LENGTH + payload.len();
        match u32::try_from(size) {
            Ok(length) if length <= self.limit => {
                out[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
                out.put_slice(payload);
                Ok(())
            }
            _ => {
                out.truncate(start);
                Err(WireError::FrameTooLong {
                    size: u64::try_from(size).unwrap_or(u64::MAX),
                    limit: u64::from(self.limit),
                })
            }
        }
    }
}
