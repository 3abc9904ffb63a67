//! A stream of frames, without a connection.

use bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};

use crate::wire::{Frame, FrameCodec, WireError};

const LIMIT: u32 = 64 * 1024;

/// Frames in a stream: the same ones however it is cut, and each is written again as bytes that are
/// the same frame.
///
/// # Panics
/// When they are not.
pub fn frames(bytes: &[u8]) {
    let (frames, error) = decode(std::iter::once(bytes));
    let pieces = decode(bytes.chunks(3));
    assert_eq!((&frames, &error), (&pieces.0, &pieces.1), "cut in pieces");
    for frame in frames {
        let mut written = BytesMut::new();
        let mut codec = FrameCodec::new(LIMIT);
        codec
            .encode(&frame, &mut written)
            .expect("what was decoded can be encoded");
        let again = codec.decode(&mut written.clone());
        let again = again.expect("what was encoded can be decoded");
        let again = again.expect("a frame is written whole");
        // The text of a fault is cut when it is written: compared is what is written.
        let mut twice = BytesMut::new();
        codec
            .encode(&again, &mut twice)
            .expect("what was decoded can be encoded");
        assert_eq!(twice, written, "{frame:?}");
    }
}

/// The frames of a stream that comes in these pieces, and what ended it.
fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Frame>, Option<WireError>) {
    let (mut codec, mut buffer) = (FrameCodec::new(LIMIT), BytesMut::new());
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}
