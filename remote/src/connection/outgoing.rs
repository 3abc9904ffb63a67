//! Bytes on their way to the socket, with a running count that tells what has left.

use bytes::{Buf, BufMut, BytesMut};
use tokio_util::codec::Encoder;

use crate::wire::{Frame, FrameCodec, Progress, WireError, put_chunk_head};

/// An emptied buffer larger than this is given back, so that an idle connection stays small.
const KEEP: usize = 32 * 1024;

/// The outgoing buffer. Frames are appended whole; the shell writes and [`wrote`](Self::wrote).
#[derive(Debug)]
pub(super) struct Outgoing {
    codec: FrameCodec,
    buffer: BytesMut,
    written: u64,
}

impl Outgoing {
    pub(super) fn new(frame_limit: u32) -> Self {
        Self {
            codec: FrameCodec::new(frame_limit),
            buffer: BytesMut::new(),
            written: 0,
        }
    }

    /// Appends a frame and returns the place of its end in all bytes ever sent.
    ///
    /// An error leaves the buffer as it was.
    pub(super) fn push(&mut self, frame: &Frame) -> Result<u64, WireError> {
        self.codec.encode(frame, &mut self.buffer)?;
        Ok(self.written + self.unsent_u64())
    }

    /// Appends a frame whose body is these parts; its size was checked.
    pub(super) fn push_parts(&mut self, parts: &[&[u8]]) -> u64 {
        self.push_with(|_| (), parts)
    }

    /// Appends a chunk of these parts.
    pub(super) fn push_chunk(
        &mut self,
        transfer: u32,
        progress: Progress,
        size: u32,
        parts: &[&[u8]],
    ) -> u64 {
        let head = |out: &mut BytesMut| put_chunk_head(out, transfer, progress, size);
        self.push_with(head, parts)
    }

    fn push_with(&mut self, head: impl FnOnce(&mut BytesMut), parts: &[&[u8]]) -> u64 {
        let start = self.buffer.len();
        self.buffer.put_u32(0);
        head(&mut self.buffer);
        for part in parts {
            self.buffer.put_slice(part);
        }
        let size = self.buffer.len() - start - 4;
        let length = u32::try_from(size).unwrap_or(u32::MAX);
        self.buffer[start..start + 4].copy_from_slice(&length.to_be_bytes());
        self.written + self.unsent_u64()
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.buffer
    }

    fn unsent_u64(&self) -> u64 {
        u64::try_from(self.buffer.len()).unwrap_or(u64::MAX)
    }

    /// Whether all bytes up to `end` have left.
    pub(super) fn has_left(&self, end: u64) -> bool {
        end <= self.written
    }

    /// Forgets what has not left.
    pub(super) fn abandon(&mut self) {
        self.buffer = BytesMut::new();
    }

    pub(super) fn wrote(&mut self, size: usize) {
        self.buffer.advance(size);
        self.written += u64::try_from(size).unwrap_or(u64::MAX);
        if self.buffer.is_empty() {
            if self.buffer.capacity() > KEEP {
                self.buffer = BytesMut::new();
            } else {
                self.buffer.clear();
            }
        }
    }
}
