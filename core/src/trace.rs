//! Spans that join the two sides of a call, in one process or two.
//!
//! With the target `lockkeeper::rpc` enabled at `DEBUG`, each ask has a span `rpc.send` where it is
//! made and a span `rpc.handle` where it is handled, which is the current span of `handle`. Both
//! have `trace_id`, `span_id` and `parent_span_id` as hexadecimal text; the `parent_span_id` of the
//! one is the `span_id` of the other, and what a handler asks on carries the same `trace_id`. A
//! handler that returns a future has it joined by `tracing::Instrument::in_current_span`.
//!
//! Not for switching on in a hot path without a filter: a span costs more than a local call.

use serde::{Deserialize, Serialize};
use tracing::{Level, Span, debug_span, enabled};

use crate::context::CallContext;

/// What travels with a call: which trace it belongs to, and the span that made it. The shape of W3C
/// trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    /// Shared by all that one first call has led to. Never 0.
    pub trace_id: u128,
    /// The span that makes the call. Never 0.
    pub span_id: u64,
}

impl TraceContext {
    fn child_of(parent: Option<Self>) -> Self {
        Self {
            trace_id: parent.map_or_else(|| fastrand::u128(1..), |parent| parent.trace_id),
            span_id: fastrand::u64(1..),
        }
    }
}

/// What a call takes along: a new span's context, or, if nobody looks, the present call's.
pub(crate) fn outgoing(method: &'static str, endpoint: &str) -> (Option<Box<TraceContext>>, Span) {
    let parent = CallContext::current_trace();
    if !enabled!(target: "lockkeeper::rpc", Level::DEBUG) {
        return (parent.map(Box::new), Span::none());
    }
    let context = TraceContext::child_of(parent);
    let span = debug_span!(
        target: "lockkeeper::rpc",
        "rpc.send",
        method,
        endpoint,
        trace_id = %format_args!("{:032x}", context.trace_id),
        span_id = %format_args!("{:016x}", context.span_id),
        parent_span_id = %format_args!("{:016x}", parent.map_or(0, |parent| parent.span_id)),
    );
    (Some(Box::new(context)), span)
}

/// The span in which a call is handled, and what its handler's own calls take along.
pub(crate) fn incoming(
    method: &'static str,
    endpoint: &str,
    caller: Option<&TraceContext>,
) -> (Option<Box<TraceContext>>, Span) {
    if !enabled!(target: "lockkeeper::rpc", Level::DEBUG) {
        return (caller.copied().map(Box::new), Span::none());
    }
    let context = TraceContext::child_of(caller.copied());
    let span = debug_span!(
        target: "lockkeeper::rpc",
        "rpc.handle",
        method,
        endpoint,
        trace_id = %format_args!("{:032x}", context.trace_id),
        span_id = %format_args!("{:016x}", context.span_id),
        parent_span_id = %format_args!("{:016x}", caller.map_or(0, |caller| caller.span_id)),
    );
    (Some(Box::new(context)), span)
}
