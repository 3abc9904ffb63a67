//! Why the other side did not do what it was asked: numbers for programs, text for people.

use bytes::{BufMut, BytesMut};
use lockkeeper_core::{Outcome, RpcError, RpcErrorKind};

use super::WireError;
use super::field::{self, Reader};

/// An [`RpcError`] as it travels.
///
/// Errors never travel as a type of the application: a receiver that does not know the code still
/// has the outcome and the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// [`RpcErrorKind::code`].
    pub(crate) code: u16,
    /// [`Outcome::code`].
    pub(crate) outcome: u8,
    /// The reason, for people; cut at [`field::TEXT_LIMIT`] bytes.
    pub(crate) text: String,
}

impl Fault {
    /// A fault with the kind's usual outcome.
    pub(crate) fn new(kind: RpcErrorKind, text: impl Into<String>) -> Self {
        Self::from(&RpcError::new(kind, text))
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u16(self.code);
        out.put_u8(self.outcome);
        field::put_text(out, &self.text);
    }

    pub(super) fn decode(body: &mut Reader) -> Result<Self, WireError> {
        Ok(Self {
            code: body.u16("code")?,
            outcome: body.u8("outcome")?,
            text: body.text("text")?,
        })
    }
}

impl From<&RpcError> for Fault {
    fn from(error: &RpcError) -> Self {
        Self {
            code: error.kind().code(),
            outcome: error.outcome().code(),
            text: error.text().to_owned(),
        }
    }
}

impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        Self::new(RpcErrorKind::from_code(fault.code), fault.text)
            .with_outcome(Outcome::from_code(fault.outcome))
    }
}
