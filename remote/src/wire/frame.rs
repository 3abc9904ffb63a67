//! All kinds of frame and their numbers.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::field::Reader;
use super::{
    Call, Cancel, Chunk, Connect, Connected, Credit, Disconnect, Ended, Failure, Goodbye, Ping,
    Pong, Progress, Refused, Reply, Tell, WireError,
};

/// The kind byte of each frame.
mod kind {
    pub(super) const CONNECT: u8 = 0x01;
    pub(super) const CONNECTED: u8 = 0x02;
    pub(super) const REFUSED: u8 = 0x03;
    pub(super) const DISCONNECT: u8 = 0x04;
    pub(super) const ENDED: u8 = 0x05;
    pub(super) const SHAPED_CONNECT: u8 = 0x06;
    pub(super) const CALL: u8 = 0x10;
    pub(super) const TELL: u8 = 0x11;
    pub(super) const REPLY: u8 = 0x12;
    pub(super) const FAILURE: u8 = 0x13;
    pub(super) const CANCEL: u8 = 0x14;
    pub(super) const TRACED_CALL: u8 = 0x15;
    pub(super) const TRACED_TELL: u8 = 0x16;
    pub(super) const PING: u8 = 0x20;
    pub(super) const PONG: u8 = 0x21;
    pub(super) const GOODBYE: u8 = 0x22;
    pub(super) const CREDIT: u8 = 0x30;
    pub(super) const CHUNK: u8 = 0x31;
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Connect(Connect),
    Connected(Connected),
    Refused(Refused),
    Disconnect(Disconnect),
    Ended(Ended),
    Call(Call),
    Tell(Tell),
    Reply(Reply),
    Failure(Failure),
    Cancel(Cancel),
    Ping(Ping),
    Pong(Pong),
    Goodbye(Goodbye),
    Credit(Credit),
    Chunk(Chunk),
}

impl Frame {
    /// The part that is copied behind the fields as it is.
    pub(crate) fn payload(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        match self {
            Self::Call(call) => &call.payload,
            Self::Tell(tell) => &tell.payload,
            Self::Reply(reply) => &reply.payload,
            Self::Chunk(chunk) => &chunk.payload,
            _ => &NONE,
        }
    }

    /// The protocol version that this frame needs at least.
    pub(crate) fn since(&self) -> u16 {
        match self {
            Self::Call(Call { trace: Some(_), .. }) | Self::Tell(Tell { trace: Some(_), .. }) => {
                TRACES_SINCE
            }
            Self::Connect(Connect { shapes, .. }) if !shapes.is_empty() => SHAPES_SINCE,
            _ => 1,
        }
    }

    /// Appends kind and fields, without the payload.
    pub(crate) fn encode_fields(&self, out: &mut BytesMut) -> Result<(), WireError> {
        match self {
            Self::Connect(connect) => {
                out.put_u8(if connect.shapes.is_empty() {
                    kind::CONNECT
                } else {
                    kind::SHAPED_CONNECT
                });
                connect.encode(out)?;
            }
            Self::Connected(connected) => {
                out.put_u8(kind::CONNECTED);
                connected.encode(out);
            }
            Self::Refused(refused) => {
                out.put_u8(kind::REFUSED);
                refused.encode(out);
            }
            Self::Disconnect(disconnect) => {
                out.put_u8(kind::DISCONNECT);
                out.put_u32(disconnect.session);
            }
            Self::Ended(ended) => {
                out.put_u8(kind::ENDED);
                ended.encode(out);
            }
            Self::Credit(credit) => {
                out.put_u8(kind::CREDIT);
                credit.encode(out);
            }
            Self::Call(call) => {
                out.put_u8(match call.trace {
                    None => kind::CALL,
                    Some(_) => kind::TRACED_CALL,
                });
                call.encode_fields(out);
            }
            Self::Tell(tell) => {
                out.put_u8(match tell.trace {
                    None => kind::TELL,
                    Some(_) => kind::TRACED_TELL,
                });
                tell.encode_fields(out);
            }
            Self::Reply(reply) => {
                out.put_u8(kind::REPLY);
                out.put_u32(reply.call);
            }
            Self::Failure(failure) => {
                out.put_u8(kind::FAILURE);
                failure.encode(out);
            }
            Self::Cancel(cancel) => {
                out.put_u8(kind::CANCEL);
                out.put_u32(cancel.call);
            }
            Self::Ping(ping) => {
                out.put_u8(kind::PING);
                out.put_u64(ping.nonce);
            }
            Self::Pong(pong) => {
                out.put_u8(kind::PONG);
                out.put_u64(pong.nonce);
            }
            Self::Goodbye(goodbye) => {
                out.put_u8(kind::GOODBYE);
                goodbye.encode(out);
            }
            Self::Chunk(chunk) => {
                put_chunk_head(out, chunk.transfer, chunk.progress, chunk.size);
            }
        }
        Ok(())
    }

    /// Reads what followed a length field, or came in chunks.
    pub(crate) fn from_body(mut bytes: Bytes) -> Result<Self, WireError> {
        if bytes.is_empty() {
            return Err(WireError::EmptyFrame);
        }
        let kind = bytes.get_u8();
        let body = |name| Reader::new(bytes, name);
        Ok(match kind {
            kind::CONNECT => Self::Connect(Connect::decode(body("Connect"), false)?),
            kind::SHAPED_CONNECT => Self::Connect(Connect::decode(body("ShapedConnect"), true)?),
            kind::CONNECTED => Self::Connected(Connected::decode(body("Connected"))?),
            kind::REFUSED => Self::Refused(Refused::decode(body("Refused"))?),
            kind::DISCONNECT => Self::Disconnect(Disconnect::decode(body("Disconnect"))?),
            kind::ENDED => Self::Ended(Ended::decode(body("Ended"))?),
            kind::CREDIT => Self::Credit(Credit::decode(body("Credit"))?),
            kind::CALL => Self::Call(Call::decode(body("Call"), false)?),
            kind::TELL => Self::Tell(Tell::decode(body("Tell"), false)?),
            kind::TRACED_CALL => Self::Call(Call::decode(body("TracedCall"), true)?),
            kind::TRACED_TELL => Self::Tell(Tell::decode(body("TracedTell"), true)?),
            kind::REPLY => Self::Reply(Reply::decode(body("Reply"))?),
            kind::FAILURE => Self::Failure(Failure::decode(body("Failure"))?),
            kind::CANCEL => Self::Cancel(Cancel::decode(body("Cancel"))?),
            kind::PING => Self::Ping(Ping::decode(body("Ping"))?),
            kind::PONG => Self::Pong(Pong::decode(body("Pong"))?),
            kind::CHUNK => Self::Chunk(Chunk::decode(body("Chunk"))?),
            kind::GOODBYE => Self::Goodbye(Goodbye::decode(body("Goodbye"))?),
            kind => return Err(WireError::UnknownKind { kind }),
        })
    }
}

/// The first protocol version whose calls can say which span they are made from.
pub(crate) const TRACES_SINCE: u16 = 2;

/// The first protocol version whose handshakes can say what shapes messages have.
pub(crate) const SHAPES_SINCE: u16 = 2;

/// Appends kind and fields of a chunk, without its payload.
pub(crate) fn put_chunk_head(out: &mut BytesMut, transfer: u32, progress: Progress, size: u32) {
    out.put_u8(kind::CHUNK);
    out.put_u32(transfer);
    out.put_u8(progress.code());
    out.put_u32(size);
}
