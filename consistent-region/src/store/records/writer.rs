//! Writes an object chunk by chunk, its head last.

use std::io;
use std::io::Write;

use lockkeeper_fencing::guard::{Creation, GuardStore};
use uuid::Uuid;

use super::super::Written;
use super::head::{Chunk, Head, begun_name, chunk_name};

/// Takes the content of one object. Holds one chunk of it.
pub(super) struct ChunkWriter<'a> {
    records: &'a dyn GuardStore,
    head: Head,
    hasher: crc32fast::Hasher,
    held: Vec<u8>,
    chunk_bytes: usize,
    /// Records that were created, or may have been.
    chunks_begun: usize,
    failed: bool,
}

impl<'a> ChunkWriter<'a> {
    pub(super) fn new(records: &'a dyn GuardStore, object: &str, chunk_bytes: usize) -> Self {
        Self {
            records,
            head: Head::new(object, &Uuid::new_v4().to_string()),
            hasher: crc32fast::Hasher::new(),
            held: Vec::new(),
            chunk_bytes,
            chunks_begun: 0,
            failed: false,
        }
    }

    /// Creates the head under `name`. Fails with `AlreadyExists` if another writer's is there.
    pub(super) fn finish(&mut self, name: &str) -> io::Result<Written> {
        if !self.head.chunks.is_empty() && !self.held.is_empty() {
            self.put_chunk()?;
        }
        if self.failed {
            // Its writer took no notice.
            return Err(io::Error::other(
                "an earlier chunk of the object was not written",
            ));
        }
        self.head.crc32 = self.hasher.clone().finalize();
        let head = self.head.encode(&self.held)?;
        match self.records.create_if_absent(name, &head) {
            Ok(Creation::Created) => {}
            Ok(Creation::AlreadyExists) => self.is_own(name, &head)?,
            Err(error) => {
                // Nobody was told of the object: it must not be there later.
                let _ = self.records.remove(name);
                return Err(io::Error::other(error));
            }
        }
        Ok(Written {
            length: self.head.length,
            crc32: self.head.crc32,
        })
    }

    /// A client that repeats requests by itself may find its own creation. The writer's number
    /// makes heads different.
    fn is_own(&self, name: &str, head: &[u8]) -> io::Result<()> {
        let found = self.records.read(name).map_err(io::Error::other)?;
        if found.as_deref() == Some(head) {
            return Ok(());
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes the chunks of an object that came to nothing. What can't be removed is found by its
    /// begun record, which goes last.
    pub(super) fn clean(&self) {
        let writer = &self.head.writer;
        let mut all_removed = true;
        for number in 0..self.chunks_begun {
            all_removed &= self.records.remove(&chunk_name(writer, number)).is_ok();
        }
        if all_removed && self.chunks_begun > 0 {
            let _ = self.records.remove(&begun_name(writer));
        }
    }

    fn put_chunk(&mut self) -> io::Result<()> {
        let writer = &self.head.writer;
        if self.chunks_begun == 0 {
            self.chunks_begun = 1;
            let begun = (begun_name(writer), self.head.object.as_bytes());
            create(self.records, &begun.0, begun.1).inspect_err(|_| self.failed = true)?;
        }
        let number = self.head.chunks.len();
        self.chunks_begun = number + 1;
        create(self.records, &chunk_name(writer, number), &self.held)
            .inspect_err(|_| self.failed = true)?;
        self.head.chunks.push(Chunk::of(&self.held));
        self.held.clear();
        Ok(())
    }
}

/// A chunk that is there already can only be our own: its name is random.
fn create(records: &dyn GuardStore, name: &str, bytes: &[u8]) -> io::Result<()> {
    match records.create_if_absent(name, bytes) {
        Ok(Creation::Created | Creation::AlreadyExists) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed {
            return Err(io::Error::other(
                "an earlier chunk of the object was not written",
            ));
        }
        // A full chunk waits for the first byte after it: an object of one chunk is a head alone.
        if self.held.len() == self.chunk_bytes && !bytes.is_empty() {
            self.put_chunk()?;
        }
        let room = self.chunk_bytes.saturating_sub(self.held.len());
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        self.held.extend_from_slice(taken);
        self.hasher.update(taken);
        let count = u64::try_from(taken.len()).unwrap_or(u64::MAX);
        self.head.length = self.head.length.saturating_add(count);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // The head makes the object durable.
        Ok(())
    }
}
