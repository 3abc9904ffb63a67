//! Packets: requests as the Java client sends them, answers with Canal's defaults filled in.
//!
//! No server or client ever sends anything but uncompressed packets; another value is refused.
//! The protocol's version is not checked: servers of 1.1.1 to 1.1.3 send none.

use bytes::Bytes;
use prost::Message as _;

use super::generated::packet::{
    Ack, ClientAck, ClientAuth, ClientRollback, Compression, Get, Handshake, Messages, Packet,
    PacketType, Sub, Unsub,
};

/// The largest fetch size that no server answers with an error; it counts KiB in the server's
/// default mode and entries in the other.
pub(crate) const MAX_FETCH_SIZE: u32 = 2_097_151;

/// `Get.unit` for milliseconds.
const MILLISECONDS: i32 = 2;

/// The batch id of an answer without entries. An acknowledgement of it does nothing.
pub(crate) const NO_BATCH: i64 = -1;

/// The batch id that stands for all batches in a rollback.
const ALL_BATCHES: i64 = 0;

/// What can be wrong with a packet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PacketError {
    /// Not a protobuf message, or another message than its type says.
    #[error("{what} cannot be decoded: {source}")]
    Malformed {
        /// What was being read.
        what: &'static str,
        /// Why it failed.
        source: prost::DecodeError,
    },
    /// The packet is compressed, which no server does.
    #[error("packet compression {0} is not supported")]
    Compressed(i32),
    /// A packet type that a server does not send.
    #[error("packet type {0} is not one that a server sends")]
    UnexpectedType(i32),
}

/// A packet of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ServerPacket {
    /// The first packet of a connection.
    Handshake(Handshake),
    /// Success or failure of a request.
    Ack(ServerAck),
    /// The answer to a GET.
    Messages(Messages),
}

/// An [`Ack`] with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAck {
    /// 0: success.
    pub(crate) code: i32,
    /// The server's text: an exception and often a whole Java stack trace.
    pub(crate) message: String,
}

impl ServerPacket {
    /// Reads the packet of one frame. Entries keep pointing into `frame`.
    pub(crate) fn decode(frame: Bytes) -> Result<Self, PacketError> {
        let packet: Packet = message("a packet", frame)?;
        let compression = packet.compression.unwrap_or(Compression::None.into());
        if compression > Compression::None.into() || compression < 0 {
            return Err(PacketError::Compressed(compression));
        }
        match PacketType::try_from(packet.r#type) {
            Ok(PacketType::Handshake) => Ok(Self::Handshake(message("a handshake", packet.body)?)),
            Ok(PacketType::Ack) => {
                let ack: Ack = message("an ack", packet.body)?;
                let code = ack.error_code.unwrap_or(0);
                Ok(Self::Ack(ServerAck {
                    code,
                    message: ack.error_message,
                }))
            }
            Ok(PacketType::Messages) => Ok(Self::Messages(message("messages", packet.body)?)),
            _ => Err(PacketError::UnexpectedType(packet.r#type)),
        }
    }
}

/// Reads one protobuf message.
pub(crate) fn message<M: prost::Message + Default>(
    what: &'static str,
    bytes: Bytes,
) -> Result<M, PacketError> {
    M::decode(bytes).map_err(|source| PacketError::Malformed { what, source })
}

/// The packet of type `kind` around `body`, as the Java client makes it: without a version.
pub(crate) fn packet(kind: PacketType, body: &impl prost::Message) -> Bytes {
    let packet = Packet {
        r#type: kind.into(),
        body: Bytes::from(body.encode_to_vec()),
        ..Packet::default()
    };
    Bytes::from(packet.encode_to_vec())
}

/// What a client says when it authenticates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Authentication<'a> {
    pub(crate) username: &'a str,
    /// See [`password::token`](super::password::token); empty without a password.
    pub(crate) token: &'a str,
    /// Milliseconds after which the server closes a connection on which it read nothing.
    pub(crate) net_read_timeout: i32,
    /// Milliseconds after which the server closes a connection on which it wrote nothing.
    pub(crate) net_write_timeout: i32,
}

/// The CLIENTAUTHENTICATION packet. It names no destination: that would subscribe at once.
pub(crate) fn authentication(what: Authentication<'_>) -> Bytes {
    let body = ClientAuth {
        username: what.username.to_owned(),
        password: Bytes::copy_from_slice(what.token.as_bytes()),
        net_read_timeout: Some(what.net_read_timeout),
        net_write_timeout: Some(what.net_write_timeout),
        ..ClientAuth::default()
    };
    packet(PacketType::ClientAuthentication, &body)
}

/// Who asks: a destination of the server and a client id on it, as the wire carries them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) destination: String,
    pub(crate) client_id: String,
}

impl Subscriber {
    /// SUBSCRIPTION; an empty filter keeps the one in force at the server.
    pub(crate) fn subscription(&self, filter: &str) -> Bytes {
        let Self {
            destination,
            client_id,
        } = self.clone();
        let body = Sub {
            destination,
            client_id,
            filter: filter.to_owned(),
        };
        packet(PacketType::Subscription, &body)
    }

    /// UNSUBSCRIPTION; the server may delete the client's cursor.
    pub(crate) fn unsubscription(&self) -> Bytes {
        let Self {
            destination,
            client_id,
        } = self.clone();
        let body = Unsub {
            destination,
            client_id,
            filter: String::new(),
        };
        packet(PacketType::Unsubscription, &body)
    }

    /// GET: up to `fetch_size`, waiting up to `timeout` milliseconds for a *full* batch; -1
    /// answers at once. Time-out and unit are always on the wire: an absent one means "for ever".
    pub(crate) fn get(&self, fetch_size: u32, timeout: i64) -> Bytes {
        let Self {
            destination,
            client_id,
        } = self.clone();
        let body = Get {
            destination,
            client_id,
            fetch_size: i32::try_from(fetch_size.min(MAX_FETCH_SIZE)).unwrap_or(1),
            timeout: Some(timeout),
            unit: Some(MILLISECONDS),
            auto_ack: Some(false),
        };
        packet(PacketType::Get, &body)
    }

    /// CLIENTACK of one batch; the server answers only when it refuses.
    pub(crate) fn acknowledgement(&self, batch_id: i64) -> Bytes {
        let Self {
            destination,
            client_id,
        } = self.clone();
        packet(
            PacketType::ClientAck,
            &ClientAck {
                destination,
                client_id,
                batch_id,
            },
        )
    }

    /// CLIENTROLLBACK of all batches. A rollback of a single one can lose rows at the server, so
    /// there is no function for it.
    pub(crate) fn rollback_all(&self) -> Bytes {
        let Self {
            destination,
            client_id,
        } = self.clone();
        let body = ClientRollback {
            destination,
            client_id,
            batch_id: ALL_BATCHES,
        };
        packet(PacketType::ClientRollback, &body)
    }
}

/// HEARTBEAT, which every server answers with an error packet that harms nothing
/// ([`HEARTBEAT_ANSWER`]): the only way to ask whether the server lives.
pub(crate) fn heartbeat() -> Bytes {
    packet(PacketType::Heartbeat, &())
}

/// Part of the server's answer to a heartbeat: an Ack with code 400.
pub(crate) const HEARTBEAT_ANSWER: &str = "type=HEARTBEAT is NOT supported";
