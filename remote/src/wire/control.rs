//! Frames about the connection itself: [`Ping`], [`Pong`], [`Goodbye`].

use bytes::{BufMut, BytesMut};

use super::WireError;
use super::field::{self, Reader};

/// Asks the other process whether it is there; answered by its I/O thread at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ping {
    pub(crate) nonce: u64,
}

impl Ping {
    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let nonce = body.u64("nonce")?;
        body.end()?;
        Ok(Self { nonce })
    }
}

/// Answers a [`Ping`] with its nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pong {
    pub(crate) nonce: u64,
}

impl Pong {
    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let nonce = body.u64("nonce")?;
        body.end()?;
        Ok(Self { nonce })
    }
}

/// Why a side says [`Goodbye`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// The service terminates: nothing more will be served.
    Shutdown,
    /// Another connection between the two processes is used from now on.
    Duplicate,
    /// The peer broke the protocol; the text says how.
    ProtocolError,
    /// A reason that this version does not know.
    Other(u8),
}

impl Farewell {
    fn code(self) -> u8 {
        match self {
            Self::Shutdown => 0,
            Self::Duplicate => 1,
            Self::ProtocolError => 2,
            Self::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Shutdown,
            1 => Self::Duplicate,
            2 => Self::ProtocolError,
            other => Self::Other(other),
        }
    }
}

/// The sender opens nothing new on this connection; answers to what is in flight still come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goodbye {
    pub(crate) reason: Farewell,
    pub(crate) text: String,
}

impl Goodbye {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u8(self.reason.code());
        field::put_text(out, &self.text);
    }

    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let reason = Farewell::from_code(body.u8("reason")?);
        let text = body.text("text")?;
        body.end()?;
        Ok(Self { reason, text })
    }
}
