//! Frames of the peer's that come in chunks and are not whole yet.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};

use super::lanes::TRANSFERS;
use crate::wire::{Chunk, Frame, Progress};

/// The parts that have come, bounded in number and size.
#[derive(Debug)]
pub(super) struct Incoming {
    parts: HashMap<u32, BytesMut>,
    frame_limit: usize,
}

impl Incoming {
    pub(super) fn new(frame_limit: u32) -> Self {
        let frame_limit = usize::try_from(frame_limit).unwrap_or(usize::MAX);
        Self {
            parts: HashMap::new(),
            frame_limit,
        }
    }

    /// Takes a chunk in; returns the frame if it is whole.
    ///
    /// # Errors
    /// How the peer broke the protocol.
    pub(super) fn take(&mut self, chunk: Chunk) -> Result<Option<Frame>, String> {
        let Chunk {
            transfer,
            progress,
            size,
            payload,
        } = chunk;
        if progress == Progress::Abandoned {
            self.parts.remove(&transfer);
            return Ok(None);
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > self.frame_limit {
            return Err(format!(
                "a frame in chunks has {size} bytes, the limit is {} bytes",
                self.frame_limit
            ));
        }
        if !self.parts.contains_key(&transfer) && self.parts.len() >= TRANSFERS {
            return Err(format!(
                "more than {TRANSFERS} frames at once come in chunks"
            ));
        }
        // All at once, so that nothing is copied while it grows: on a large frame that would hold
        // up the connections of this thread. The system gives the pages when they are filled.
        let parts = &mut self.parts;
        let part = parts
            .entry(transfer)
            .or_insert_with(|| BytesMut::with_capacity(size));
        let come = part.len() + payload.len();
        if come > size || (progress == Progress::Last && come < size) {
            return Err(format!("a frame of {size} bytes came in chunks of {come}"));
        }
        part.extend_from_slice(&payload);
        if progress == Progress::More {
            return Ok(None);
        }
        let whole = self
            .parts
            .remove(&transfer)
            .map_or_else(Bytes::new, BytesMut::freeze);
        match Frame::from_body(whole).map_err(|error| error.to_string())? {
            frame @ (Frame::Call(_) | Frame::Tell(_) | Frame::Reply(_)) => Ok(Some(frame)),
            _ => Err("only calls, one-way messages and replies come in chunks".to_owned()),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }
}
