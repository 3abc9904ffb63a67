//! Frames: a 32-bit big-endian length and that many bytes. Bytes in, frames out; no I/O.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// Bytes of a frame's length field.
const LENGTH_FIELD: usize = 4;

/// How far the read buffer is grown ahead of the bytes that have really come, so that a length
/// alone never makes us allocate a large block.
const READ_AHEAD: usize = 256 * 1024;

/// The largest frame that is accepted unless told otherwise: 256 MiB. A batch is at most the
/// fetch size in KiB plus one entry, and one entry has no limit on the server's side.
pub(crate) const DEFAULT_FRAME_LIMIT: usize = 256 * 1024 * 1024;

/// What can be wrong with a frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The length is below zero: the peer does not speak Canal's protocol.
    #[error("frame length {0} is negative: the peer does not speak Canal's protocol")]
    Negative(i32),
    /// The length is above the limit; nothing was allocated for it.
    #[error("a frame of {length} bytes is above the limit of {limit} bytes")]
    TooLarge {
        /// The length in bytes that the peer announced or that was to be sent.
        length: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// The transport failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Cuts a byte stream into frames and makes frames of packets.
#[derive(Debug, Clone)]
pub(crate) struct FrameCodec {
    limit: usize,
}

impl FrameCodec {
    /// A codec that refuses frames above `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit }
    }

    /// The length in the first four bytes, checked.
    fn checked_length(&self, field: [u8; LENGTH_FIELD]) -> Result<usize, FrameError> {
        let raw = i32::from_be_bytes(field);
        let length = usize::try_from(raw).map_err(|_| FrameError::Negative(raw))?;
        if length > self.limit {
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            return Err(FrameError::TooLarge {
                length,
                limit: self.limit,
            });
        }
        Ok(length)
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FrameError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(field) = source.first_chunk::<LENGTH_FIELD>() else {
            return Ok(None);
        };
        let length = self.checked_length(*field)?;
        let whole = LENGTH_FIELD + length;
        if source.len() < whole {
            source.reserve((whole - source.len()).min(READ_AHEAD));
            return Ok(None);
        }
        source.advance(LENGTH_FIELD);
        Ok(Some(source.split_to(length).freeze()))
    }
}

impl Encoder<Bytes> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, packet: Bytes, target: &mut BytesMut) -> Result<(), FrameError> {
        let length = packet.len();
        match i32::try_from(length) {
            Ok(field) if length <= self.limit => {
                target.reserve(LENGTH_FIELD + length);
                target.put_i32(field);
                target.put_slice(&packet);
                Ok(())
            }
            _ => Err(FrameError::TooLarge {
                length: u64::try_from(length).unwrap_or(u64::MAX),
                limit: self.limit,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_comes_out_whole_however_it_is_cut() {
        let mut codec = FrameCodec::new(16);
        let mut wire = BytesMut::new();
        codec.encode(Bytes::from_static(b"one"), &mut wire).unwrap();
        codec.encode(Bytes::new(), &mut wire).unwrap();
        codec
            .encode(Bytes::from_static(b"three"), &mut wire)
            .unwrap();
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for byte in wire {
            buffer.put_u8(byte);
            while let Some(frame) = codec.decode(&mut buffer).unwrap() {
                frames.push(frame);
            }
        }
        assert_eq!(frames, [&b"one"[..], b"", b"three"]);
    }

    #[test]
    fn a_length_of_two_gibibytes_is_refused_before_allocation() {
        let mut codec = FrameCodec::new(DEFAULT_FRAME_LIMIT);
        let mut buffer = BytesMut::from(&[0x7f, 0xff, 0xff, 0xff, 0][..]);
        let before = buffer.capacity();
        let error = codec.decode(&mut buffer).unwrap_err();
        assert!(matches!(
            error,
            FrameError::TooLarge {
                length: 0x7fff_ffff,
                limit: DEFAULT_FRAME_LIMIT
            }
        ));
        assert_eq!(buffer.capacity(), before);
    }

    #[test]
    fn a_length_within_the_limit_allocates_only_a_little_ahead() {
        let mut codec = FrameCodec::new(DEFAULT_FRAME_LIMIT);
        let mut buffer = BytesMut::from(&[0x0f, 0xff, 0xff, 0xff][..]);
        assert!(codec.decode(&mut buffer).unwrap().is_none());
        assert!(buffer.capacity() <= 2 * READ_AHEAD);
    }

    #[test]
    fn a_negative_length_is_refused() {
        let mut codec = FrameCodec::new(16);
        let mut buffer = BytesMut::from(&[0xff; 4][..]);
        assert!(matches!(
            codec.decode(&mut buffer),
            Err(FrameError::Negative(-1))
        ));
    }

    #[test]
    fn a_packet_above_the_limit_is_not_sent() {
        let mut codec = FrameCodec::new(4);
        let mut wire = BytesMut::new();
        let error = codec
            .encode(Bytes::from_static(b"12345"), &mut wire)
            .unwrap_err();
        assert!(matches!(
            error,
            FrameError::TooLarge {
                length: 5,
                limit: 4
            }
        ));
        assert!(wire.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_give_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut codec = FrameCodec::new(64);
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(frame)) = codec.decode(&mut buffer) {
                prop_assert!(frame.len() <= 64);
            }
        }
    }
}
