//! What the server sends: frames with the presence of fields that the real one has.

use bytes::Bytes;

use super::version::ServerVersion;
use super::wire::{frame_prefix, put_bytes, put_length, put_number, put_signed, varint_length};
use crate::protocol::generated::packet::PacketType;
use crate::protocol::packet::NO_BATCH;

/// Fields of `Packet`.
const VERSION: u32 = 2;
const TYPE: u32 = 3;
const BODY: u32 = 5;

/// The first packet of a connection.
pub(crate) fn handshake(version: ServerVersion, seeds: &[u8]) -> Bytes {
    let mut body = Vec::new();
    if version.has_passwords() {
        put_bytes(&mut body, 2, seeds);
    }
    let mut packet = Vec::new();
    if version.has_passwords() {
        put_number(&mut packet, VERSION, 1);
    }
    put_type(&mut packet, PacketType::Handshake);
    put_bytes(&mut packet, BODY, &body);
    frame(&packet)
}

/// Success: an ACK without a body.
pub(crate) fn success() -> Bytes {
    let mut packet = Vec::new();
    put_number(&mut packet, VERSION, 1);
    put_type(&mut packet, PacketType::Ack);
    frame(&packet)
}

/// Failure: an ACK with a code and a text.
pub(crate) fn failure(code: i32, text: &str) -> Bytes {
    let mut body = Vec::new();
    put_signed(&mut body, 1, i64::from(code));
    put_bytes(&mut body, 2, text.as_bytes());
    let mut packet = Vec::new();
    put_number(&mut packet, VERSION, 1);
    put_type(&mut packet, PacketType::Ack);
    put_bytes(&mut packet, BODY, &body);
    frame(&packet)
}

/// The answer to a GET that found nothing.
pub(crate) fn no_entries() -> Bytes {
    let mut body = Vec::new();
    put_signed(&mut body, 1, NO_BATCH);
    let mut packet = Vec::new();
    put_number(&mut packet, VERSION, 1);
    put_type(&mut packet, PacketType::Messages);
    put_bytes(&mut packet, BODY, &body);
    frame(&packet)
}

/// A batch. It goes out without the packet's version, as from the real server.
pub(crate) fn batch<'e>(id: i64, entries: impl Iterator<Item = &'e Bytes> + Clone) -> Bytes {
    let mut head = Vec::new();
    put_signed(&mut head, 1, id);
    let body = head.len()
        + entries
            .clone()
            .map(|entry| 1 + varint_length(u64::try_from(entry.len()).unwrap_or(0)) + entry.len())
            .sum::<usize>();
    let mut packet = Vec::with_capacity(body + 16);
    packet.extend_from_slice(&[0; 4]);
    put_type(&mut packet, PacketType::Messages);
    put_length(&mut packet, BODY, body);
    packet.extend_from_slice(&head);
    for entry in entries {
        put_bytes(&mut packet, 2, entry);
    }
    let prefix = frame_prefix(packet.len() - 4);
    packet
        .iter_mut()
        .zip(prefix)
        .for_each(|(byte, length)| *byte = length);
    packet.into()
}

fn put_type(packet: &mut Vec<u8>, kind: PacketType) {
    put_signed(packet, TYPE, i64::from(i32::from(kind)));
}

fn frame(packet: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(packet.len() + 4);
    frame.extend_from_slice(&frame_prefix(packet.len()));
    frame.extend_from_slice(packet);
    frame.into()
}
