//! What a server sends: packets in frames.

use bytes::{Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use super::row::{self, DESTINATION};
use crate::entry::Entry;
use crate::protocol::frame::FrameCodec;
use crate::protocol::packet::ServerPacket;

const LIMIT: usize = 64 * 1024;

/// A server's bytes: the same frames however they are cut, each a packet or an error, and a batch's
/// entries too.
///
/// # Panics
/// When not.
pub fn server(bytes: &[u8]) {
    let frames = decode(std::iter::once(bytes));
    assert_eq!(frames, decode(bytes.chunks(3)), "cut in pieces");
    let mut written = BytesMut::new();
    for frame in &frames {
        let encoded = FrameCodec::new(LIMIT).encode(frame.clone(), &mut written);
        encoded.expect("what was decoded can be encoded");
        packet(frame.clone());
    }
    assert!(bytes.starts_with(&written), "another stream");
}

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Bytes> {
    let (mut codec, mut buffer) = (FrameCodec::new(LIMIT), BytesMut::new());
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Ok(Some(frame)) = codec.decode(&mut buffer) {
            frames.push(frame);
        }
    }
    frames
}

fn packet(frame: Bytes) {
    if let Ok(ServerPacket::Messages(messages)) = ServerPacket::decode(frame) {
        for raw in messages.messages {
            if let Ok(entry) = Entry::decode(DESTINATION.into(), raw) {
                row::read(&entry);
            }
        }
    }
}
