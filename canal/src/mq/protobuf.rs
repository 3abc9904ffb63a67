//! The protobuf form: the packet that a server's answer to a GET is, with a batch of entries.

use bytes::Bytes;
use prost::Message as _;

use crate::protocol::generated::packet::{Compression, Messages, Packet, PacketType};

/// Bytes around entries at most: the packet's and the body's fields.
pub(super) const OVERHEAD: usize = 32;

/// Bytes around one entry at most: its field and length.
pub(super) const ENTRY_OVERHEAD: usize = 6;

/// A message with these entries, as Canal's server writes it: without a batch id.
pub(crate) fn encode(entries: Vec<Bytes>) -> Bytes {
    let messages = Messages {
        batch_id: 0,
        messages: entries,
    };
    let packet = Packet {
        version: Some(1),
        r#type: PacketType::Messages.into(),
        body: messages.encode_to_vec().into(),
        ..Packet::default()
    };
    packet.encode_to_vec().into()
}

/// The entries of a message. They keep pointing into it.
pub(crate) fn decode(message: Bytes) -> Result<Vec<Bytes>, String> {
    let wrong = |error: prost::DecodeError| format!("no protobuf message of Canal's: {error}");
    let packet = Packet::decode(message).map_err(wrong)?;
    if packet.r#type != i32::from(PacketType::Messages) {
        return Err(format!(
            "no protobuf message of Canal's: packet type {} where 7 is wanted",
            packet.r#type
        ));
    }
    let none = i32::from(Compression::None);
    if !(0..=none).contains(&packet.compression.unwrap_or(none)) {
        return Err("a compressed packet, which no server sends".to_owned());
    }
    Ok(Messages::decode(packet.body).map_err(wrong)?.messages)
}
