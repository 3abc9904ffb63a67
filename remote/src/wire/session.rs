//! Sessions: the handshake between a gateway and an endpoint, their credits, and their end.

use bytes::{BufMut, BytesMut};
use lockkeeper_core::{FencingToken, Lineage};

use super::field::{self, Reader};
use super::{Fault, WireError};

/// The most methods that a gateway may have on the wire.
pub(crate) const METHOD_LIMIT: u16 = 4096;

/// Asks for a session with an endpoint; answered by [`Connected`] or [`Refused`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    /// Chosen by the sender; unique among its unanswered ones on this connection.
    pub(crate) request: u32,
    pub(crate) endpoint: String,
    pub(crate) gateway: String,
    pub(crate) gateway_version: u32,
    /// The token under which the session's calls are made.
    pub(crate) token: Option<FencingToken>,
    /// Names of the methods; a call carries the place in this list.
    pub(crate) methods: Vec<String>,
    /// Their shapes, opaque numbers; one for each method, or none at all.
    pub(crate) shapes: Vec<u64>,
}

impl Connect {
    pub(super) fn encode(&self, out: &mut BytesMut) -> Result<(), WireError> {
        out.put_u32(self.request);
        field::put_name(out, "endpoint", &self.endpoint)?;
        field::put_name(out, "gateway", &self.gateway)?;
        out.put_u32(self.gateway_version);
        match &self.token {
            None => out.put_u8(0),
            Some(token) => {
                out.put_u8(1);
                out.put_u128(token.lineage.bits());
                out.put_u64(token.epoch);
                out.put_slice(token.session.as_bytes());
            }
        }
        let count = u16::try_from(self.methods.len())
            .ok()
            .filter(|count| *count <= METHOD_LIMIT)
            .ok_or(WireError::NameTooLong {
                field: "methods",
                size: self.methods.len(),
            })?;
        out.put_u16(count);
        for method in &self.methods {
            field::put_name(out, "method", method)?;
        }
        for shape in &self.shapes {
            out.put_u64(*shape);
        }
        Ok(())
    }

    pub(super) fn decode(mut body: Reader, has_shapes: bool) -> Result<Self, WireError> {
        let request = body.u32("request")?;
        let endpoint = body.text("endpoint")?;
        let gateway = body.text("gateway")?;
        let gateway_version = body.u32("gateway version")?;
        let token = match body.u8("token flag")? {
            0 => None,
            1 => Some(FencingToken {
                lineage: Lineage::new(body.uuid("lineage")?.as_u128()),
                epoch: body.u64("epoch")?,
                session: body.uuid("token session")?,
            }),
            other => return Err(body.bad("token flag", u64::from(other))),
        };
        let count = body.u16("method count")?;
        if count > METHOD_LIMIT {
            return Err(body.bad("method count", u64::from(count)));
        }
        let mut methods = Vec::new();
        for _ in 0..count {
            methods.push(body.text("method")?);
        }
        let mut shapes = Vec::new();
        for _ in 0..if has_shapes { count } else { 0 } {
            shapes.push(body.u64("shape")?);
        }
        body.end()?;
        Ok(Self {
            request,
            endpoint,
            gateway,
            gateway_version,
            token,
            methods,
            shapes,
        })
    }
}

/// A session exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connected {
    pub(crate) request: u32,
    /// Named by the side that serves; goes into each call.
    pub(crate) session: u32,
    /// What the session's one-way messages may take to begin with.
    pub(crate) grant: Grant,
}

/// Room for a session's one-way messages at the side that serves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) messages: u32,
    /// Of payload.
    pub(crate) bytes: u32,
}

impl Grant {
    fn encode(self, out: &mut BytesMut) {
        out.put_u32(self.messages);
        out.put_u32(self.bytes);
    }

    fn decode(body: &mut Reader) -> Result<Self, WireError> {
        Ok(Self {
            messages: body.u32("messages")?,
            bytes: body.u32("bytes")?,
        })
    }
}

impl Connected {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.request);
        out.put_u32(self.session);
        self.grant.encode(out);
    }

    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let connected = Self {
            request: body.u32("request")?,
            session: body.u32("session")?,
            grant: Grant::decode(&mut body)?,
        };
        body.end()?;
        Ok(connected)
    }
}

/// No session, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) request: u32,
    pub(crate) fault: Fault,
}

impl Refused {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.request);
        self.fault.encode(out);
    }

    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let request = body.u32("request")?;
        let fault = Fault::decode(&mut body)?;
        body.end()?;
        Ok(Self { request, fault })
    }
}

/// The calling side no longer uses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disconnect {
    pub(crate) session: u32,
}

impl Disconnect {
    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let session = body.u32("session")?;
        body.end()?;
        Ok(Self { session })
    }
}

/// Room that the serving side gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credit {
    pub(crate) session: u32,
    pub(crate) grant: Grant,
}

impl Credit {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.session);
        self.grant.encode(out);
    }

    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let credit = Self {
            session: body.u32("session")?,
            grant: Grant::decode(&mut body)?,
        };
        body.end()?;
        Ok(credit)
    }
}

/// The serving side says that the endpoint has ended, and with it the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) session: u32,
    pub(crate) fault: Fault,
}

impl Ended {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.session);
        self.fault.encode(out);
    }

    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let session = body.u32("session")?;
        let fault = Fault::decode(&mut body)?;
        body.end()?;
        Ok(Self { session, fault })
    }
}
