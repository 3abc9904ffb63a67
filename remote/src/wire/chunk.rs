//! Pieces of a large frame: [`Chunk`].
//!
//! A frame that is too large to go in one piece goes in chunks, between which other frames find
//! their way: a transfer of 64 MiB must not hold up a ping.

use bytes::Bytes;

use super::WireError;
use super::field::Reader;

/// What a chunk says about its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More chunks follow.
    More,
    /// The frame is whole with this one.
    Last,
    /// The sender gave the frame up: what came of it is thrown away.
    Abandoned,
}

impl Progress {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::More => 0,
            Self::Last => 1,
            Self::Abandoned => 2,
        }
    }
}

/// A piece of a frame. All pieces of a transfer, joined, are the frame from its kind byte on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Chosen by the sender; not that of another transfer under way.
    pub(crate) transfer: u32,
    pub(crate) progress: Progress,
    /// Bytes of the whole frame; the same in each of its chunks.
    pub(crate) size: u32,
    pub(crate) payload: Bytes,
}

impl Chunk {
    pub(super) fn decode(mut body: Reader) -> Result<Self, WireError> {
        let transfer = body.u32("transfer")?;
        let progress = match body.u8("progress")? {
            0 => Progress::More,
            1 => Progress::Last,
            2 => Progress::Abandoned,
            other => return Err(body.bad("progress", u64::from(other))),
        };
        Ok(Self {
            transfer,
            progress,
            size: body.u32("size")?,
            payload: body.rest(),
        })
    }
}
