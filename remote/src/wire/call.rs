//! Calls and their answers: [`Call`], [`Tell`], [`Reply`], [`Failure`], [`Cancel`].
//!
//! A call carries numbers only: the session stands for endpoint, gateway and fencing token, the
//! method number for the message's name.

use bytes::{BufMut, Bytes, BytesMut};
use lockkeeper_core::trace::TraceContext;

use super::field::Reader;
use super::{Fault, WireError};

/// An ask: exactly one [`Reply`] or [`Failure`] answers it, unless it was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Chosen by the caller; unique among the calls it has in flight on this connection.
    pub(crate) call: u32,
    /// The session that a `Connected` frame named.
    pub(crate) session: u32,
    /// Place of the method in the list of the session's `Connect` frame.
    pub(crate) method: u16,
    /// Time left until the caller gives up, in milliseconds; `u32::MAX` means that or longer.
    pub(crate) time_left_ms: u32,
    /// The span that it is made from: on the wire only if there is one.
    pub(crate) trace: Option<Box<TraceContext>>,
    /// The encoded message.
    pub(crate) payload: Bytes,
}

impl Call {
    /// Bytes of the fields before the payload.
    pub(crate) const FIELDS: usize = 4 + 4 + 2 + 4;

    pub(super) fn encode_fields(&self, out: &mut BytesMut) {
        put_trace(out, self.trace.as_deref());
        out.put_u32(self.call);
        out.put_u32(self.session);
        out.put_u16(self.method);
        out.put_u32(self.time_left_ms);
    }

    pub(super) fn decode(mut body: Reader, is_traced: bool) -> Result<Self, WireError> {
        Ok(Self {
            trace: trace(&mut body, is_traced)?,
            call: body.u32("call")?,
            session: body.u32("session")?,
            method: body.u16("method")?,
            time_left_ms: body.u32("time left")?,
            payload: body.rest(),
        })
    }
}

/// A one-way message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tell {
    pub(crate) session: u32,
    pub(crate) method: u16,
    /// The span that it is sent from: on the wire only if there is one.
    pub(crate) trace: Option<Box<TraceContext>>,
    pub(crate) payload: Bytes,
}

impl Tell {
    /// Bytes of the fields before the payload.
    pub(crate) const FIELDS: usize = 4 + 2;

    pub(super) fn encode_fields(&self, out: &mut BytesMut) {
        put_trace(out, self.trace.as_deref());
        out.put_u32(self.session);
        out.put_u16(self.method);
    }

    pub(super) fn decode(mut body: Reader, is_traced: bool) -> Result<Self, WireError> {
        Ok(Self {
            trace: trace(&mut body, is_traced)?,
            session: body.u32("session")?,
            method: body.u16("method")?,
            payload: body.rest(),
        })
    }
}

/// Bytes of a trace, which comes before the other fields.
pub(crate) const TRACE: usize = 16 + 8;

fn put_trace(out: &mut BytesMut, trace: Option<&TraceContext>) {
    if let Some(trace) = trace {
        out.put_u128(trace.trace_id);
        out.put_u64(trace.span_id);
    }
}

fn trace(body: &mut Reader, is_traced: bool) -> Result<Option<Box<TraceContext>>, WireError> {
    if !is_traced {
        return Ok(None);
    }
    let trace_id = u128::from_be_bytes(body.array("trace")?);
    let span_id = body.u64("span")?;
    if trace_id == 0 || span_id == 0 {
        return Err(body.bad(if trace_id == 0 { "trace" } else { "span" }, 0));
    }
    Ok(Some(Box::new(TraceContext { trace_id, span_id })))
}

/// The value that a call resolved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) call: u32,
    pub(crate) payload: Bytes,
}

impl Reply {
    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        Ok(Self {
            call: body.u32("call")?,
            payload: body.rest(),
        })
    }
}

/// The reason for which a call has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) call: u32,
    pub(crate) fault: Fault,
}

impl Failure {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.call);
        self.fault.encode(out);
    }

    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let call = body.u32("call")?;
        let fault = Fault::decode(&mut body)?;
        body.end()?;
        Ok(Self { call, fault })
    }
}

/// The caller no longer waits: the handler is told, and no answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancel {
    pub(crate) call: u32,
}

impl Cancel {
    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let call = body.u32("call")?;
        body.end()?;
        Ok(Self { call })
    }
}
