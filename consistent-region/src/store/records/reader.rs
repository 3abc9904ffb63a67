//! Reads an object chunk by chunk; each is checked before any of it is given out.

use std::io;
use std::io::Read;
use std::sync::Arc;

use lockkeeper_fencing::guard::GuardStore;

use super::super::StoreError;
use super::head::{Chunk, Head, chunk_name};

/// The content of one object. Holds one chunk of it.
pub(super) struct ChunkReader {
    records: Arc<dyn GuardStore>,
    location: String,
    head: Head,
    next: usize,
    held: io::Cursor<Vec<u8>>,
}

impl ChunkReader {
    pub(super) fn new(records: Arc<dyn GuardStore>, location: String, head: Head) -> Self {
        Self {
            records,
            location,
            head,
            next: 0,
            held: io::Cursor::default(),
        }
    }

    fn chunk(&self, expected: Chunk) -> Result<Vec<u8>, StoreError> {
        let number = self.next;
        let location = || self.location.clone();
        let damaged = |what: String| StoreError::Damaged {
            location: location(),
            name: self.head.object.clone(),
            what,
        };
        let read = self.records.read(&chunk_name(&self.head.writer, number));
        let bytes = read.map_err(|error| StoreError::Io {
            location: location(),
            name: self.head.object.clone(),
            source: io::Error::other(error),
        })?;
        let bytes = bytes.ok_or_else(|| damaged(format!("chunk {number} is missing")))?;
        if Chunk::of(&bytes) != expected {
            return Err(damaged(format!("chunk {number} is not as it was written")));
        }
        Ok(bytes)
    }
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.held.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(expected) = self.head.chunks.get(self.next).copied() else {
                return Ok(0);
            };
            let chunk = self.chunk(expected).map_err(|error| {
                let kind = match &error {
                    StoreError::Io { .. } => io::ErrorKind::Other,
                    _ => io::ErrorKind::InvalidData,
                };
                io::Error::new(kind, error)
            })?;
            self.held = io::Cursor::new(chunk);
            self.next += 1;
        }
    }
}
