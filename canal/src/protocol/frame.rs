//! Frames: a 32-bit big-endian length and that many bytes. Bytes in, frames out; no I/O.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// Bytes of a frame's length field.
const LENGTH_FIELD: usize = 4;

/// How far the read buffer is grown ahead of the bytes that have really come while the peer has sent
/// nothing large yet, so that a length alone never makes us allocate a large block.
const READ_AHEAD: usize = 256 * 1024;

/// The largest frame whose room is kept for the next one while nobody uses it.
const KEPT: usize = 16 * 1024 * 1024;

/// Bytes of a page of memory.
const PAGE: usize = 4096;

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
///
/// A frame is handed out as a part of the buffer that it was read into. When its reader has dropped it,
/// the next one is read into the same memory from the front: neither are bytes moved that have come, nor
/// fresh pages asked of the system. While it is still held, the next one goes into a second buffer.
#[derive(Debug, Clone)]
pub(crate) struct FrameCodec {
    limit: usize,
    /// Length of the largest frame that has really come of late, of those whose room is kept. Each one that is
    /// smaller takes a quarter off.
    usual: usize,
    /// What is left of the buffer before; it comes back when its frames are dropped.
    other: BytesMut,
}

impl FrameCodec {
    /// A codec that refuses frames above `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            usual: 0,
            other: BytesMut::new(),
        }
    }

    /// Before a frame, with nothing of it there: makes room for one as large as usual and a little more, in memory
    /// that is there already if nobody holds it.
    fn begin(&mut self, source: &mut BytesMut) {
        if self.usual <= READ_AHEAD {
            return;
        }
        let wanted = PAGE + LENGTH_FIELD + self.usual + self.usual / 8;
        if !source.try_reclaim(wanted) {
            std::mem::swap(source, &mut self.other);
            if !source.try_reclaim(wanted) {
                *source = BytesMut::with_capacity(wanted);
            }
        }
        // The kernel has what comes from the begin of a page, and large memory begins some bytes behind one. Some
        // processors, AMD's among them, need twice the time to copy to a place that is so little further within its
        // page: half a page is kept between.
        let place = source.as_ptr().addr() % PAGE;
        let gap = (PAGE + PAGE / 2 - place) % PAGE;
        source.put_bytes(0, gap);
        source.advance(gap);
    }

    /// How far to grow a buffer with `come` bytes of a frame: by as much again, or what is usual.
    fn ahead(&self, come: usize) -> usize {
        READ_AHEAD.max(self.usual).max(come)
    }

    /// A frame of this length has come.
    fn came(&mut self, length: usize) {
        let faded = self.usual - self.usual / 4;
        self.usual = if length <= KEPT {
            length.max(faded)
        } else {
            faded
        };
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
            if source.is_empty() {
                self.begin(source);
            }
            return Ok(None);
        };
        let length = self.checked_length(*field)?;
        let whole = LENGTH_FIELD + length;
        let come = source.len();
        if come < whole {
            source.reserve((whole - come).min(self.ahead(come)));
            return Ok(None);
        }
        source.advance(LENGTH_FIELD);
        let frame = source.split_to(length).freeze();
        self.came(length);
        if length > KEPT {
            // Its memory goes with it.
            *source = BytesMut::from(&source[..]);
        }
        Ok(Some(frame))
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

    /// A frame of so many bytes, in pieces, as the transport reads them, and the largest room that there was for it.
    fn receive(codec: &mut FrameCodec, buffer: &mut BytesMut, length: usize) -> (Bytes, usize) {
        assert!(codec.decode(buffer).unwrap().is_none());
        let field = u32::try_from(length).unwrap().to_be_bytes();
        buffer.extend_from_slice(&field);
        let (mut left, mut room) = (length, 0);
        loop {
            if let Some(frame) = codec.decode(buffer).unwrap() {
                return (frame, room);
            }
            room = room.max(buffer.capacity());
            let piece = left.min(buffer.capacity() - buffer.len()).min(100_000);
            buffer.put_bytes(7, piece);
            left -= piece;
        }
    }

    const MIB: usize = 1024 * 1024;

    #[test]
    fn the_next_frame_is_read_into_the_memory_of_one_that_was_dropped() {
        let mut codec = FrameCodec::new(DEFAULT_FRAME_LIMIT);
        let mut buffer = BytesMut::new();
        drop(receive(&mut codec, &mut buffer, 5 * MIB));
        let (frame, _) = receive(&mut codec, &mut buffer, 5 * MIB);
        let memory = frame.as_ptr();
        drop(frame);
        for _ in 0..3 {
            let (frame, _) = receive(&mut codec, &mut buffer, 5 * MIB);
            assert_eq!(frame.as_ptr(), memory);
            assert_eq!(memory.addr() % PAGE, PAGE / 2 + LENGTH_FIELD);
        }
    }

    #[test]
    fn two_frames_that_are_held_in_turns_have_two_buffers() {
        let mut codec = FrameCodec::new(DEFAULT_FRAME_LIMIT);
        let mut buffer = BytesMut::new();
        let (mut held, _) = receive(&mut codec, &mut buffer, 5 * MIB);
        let mut memories = Vec::new();
        for _ in 0..6 {
            let (frame, _) = receive(&mut codec, &mut buffer, 5 * MIB);
            memories.push(frame.as_ptr());
            held = frame;
        }
        drop(held);
        assert_eq!(memories[..2], memories[2..4]);
        assert_eq!(memories[..2], memories[4..]);
    }

    #[test]
    fn room_is_made_for_what_has_come_before_and_not_for_what_a_length_says() {
        let mut codec = FrameCodec::new(DEFAULT_FRAME_LIMIT);
        let mut buffer = BytesMut::new();
        let (held, _) = receive(&mut codec, &mut buffer, MIB);
        assert!(codec.decode(&mut buffer).unwrap().is_none());
        buffer.extend_from_slice(&[0x0f, 0xff, 0xff, 0xff]);
        assert!(codec.decode(&mut buffer).unwrap().is_none());
        assert!(buffer.capacity() <= 2 * MIB + PAGE);
        drop(held);
    }

    #[test]
    fn small_frames_that_are_held_after_a_large_one_share_their_memory() {
        let mut codec = FrameCodec::new(DEFAULT_FRAME_LIMIT);
        let mut buffer = BytesMut::new();
        let large = receive(&mut codec, &mut buffer, KEPT);
        let small: Vec<_> = (0..20)
            .map(|_| receive(&mut codec, &mut buffer, 10).0)
            .collect();
        for pair in small.windows(2) {
            let apart = pair[1]
                .as_ptr()
                .addr()
                .wrapping_sub(pair[0].as_ptr().addr());
            assert!(apart <= 2 * PAGE, "{apart}");
        }
        drop(large);
    }

    #[test]
    fn the_memory_of_a_very_large_frame_goes_with_it() {
        let mut codec = FrameCodec::new(DEFAULT_FRAME_LIMIT);
        let mut buffer = BytesMut::new();
        drop(receive(&mut codec, &mut buffer, KEPT + 1));
        assert!(!buffer.try_reclaim(KEPT));
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
