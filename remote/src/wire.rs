//! Bytes in, frames out: the pure layer under a connection. No I/O, no clock.
//!
//! `docs/wire.md` is the specification; a test compares its vectors with this code.

mod call;
mod chunk;
mod codec;
mod control;
mod error;
mod fault;
mod field;
mod frame;
mod preface;
mod session;

#[cfg(test)]
mod tests;

pub(crate) use call::{Call, Cancel, Failure, Reply, TRACE, Tell};
pub(crate) use chunk::{Chunk, Progress};
pub(crate) use codec::FrameCodec;
pub(crate) use control::{Farewell, Goodbye, Ping, Pong};
pub(crate) use error::WireError;
pub(crate) use fault::Fault;
pub(crate) use frame::{Frame, SHAPES_SINCE, TRACES_SINCE, put_chunk_head};
pub(crate) use preface::{HEAD, Preface, VERSIONS, VersionRange};
pub(crate) use session::{Connect, Connected, Credit, Disconnect, Ended, Grant, Refused};
