//! Reading an object as it was written, or not at all: length and checksum are checked while it
//! streams.

use std::io;
use std::io::Read;

use super::{CheckpointStore, StoreError, Written};
use crate::manifest::ObjectRecord;

/// Reads an object and fails when it is longer, shorter or other than what was written.
///
/// The checksum is known at the end only: call [`finish`](Self::finish) before the content is
/// believed.
#[allow(missing_debug_implementations, reason = "holds a reader")]
pub struct VerifyingReader<R> {
    inner: R,
    location: String,
    name: String,
    expected: Written,
    read: u64,
    hasher: crc32fast::Hasher,
}

impl<R: Read> VerifyingReader<R> {
    /// Reads `name` of the store at `location` through `inner`.
    pub fn new(inner: R, location: String, name: String, expected: Written) -> Self {
        Self {
            inner,
            location,
            name,
            expected,
            read: 0,
            hasher: crc32fast::Hasher::new(),
        }
    }

    /// Reads what is left and says whether everything was as written.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.inner.read(&mut buffer) {
                Ok(0) => return self.check_end(),
                Ok(count) => self.account(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(told(error, self.location.clone(), &self.name)),
            }
        }
    }

    fn account(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hasher.update(bytes);
        self.read = self
            .read
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if self.read > self.expected.length {
            return Err(self.damaged(format!("longer than {} bytes", self.expected.length)));
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), StoreError> {
        if self.read != self.expected.length {
            let what = format!("{} bytes instead of {}", self.read, self.expected.length);
            return Err(self.damaged(what));
        }
        let crc32 = self.hasher.clone().finalize();
        if crc32 != self.expected.crc32 {
            let what = format!("CRC-32 {crc32:08x} instead of {:08x}", self.expected.crc32);
            return Err(self.damaged(what));
        }
        Ok(())
    }

    fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged {
            location: self.location.clone(),
            name: self.name.clone(),
            what,
        }
    }
}

impl<R: Read> Read for VerifyingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let checked = match count {
            0 if !buffer.is_empty() => self.check_end(),
            _ => self.account(&buffer[..count]),
        };
        checked.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(count)
    }
}

/// What a reader of an object failed with: the store's own word if it has one.
pub(super) fn told(error: io::Error, location: String, name: &str) -> StoreError {
    match error.downcast::<StoreError>() {
        Ok(error) => error,
        Err(source) => StoreError::Io {
            location,
            name: name.to_owned(),
            source,
        },
    }
}

/// Opens the object of `record` for reading; see [`VerifyingReader`].
pub fn read_verified(
    store: &dyn CheckpointStore,
    record: &ObjectRecord,
) -> Result<VerifyingReader<Box<dyn Read + Send>>, StoreError> {
    let expected = Written {
        length: record.length,
        crc32: record.crc32,
    };
    let inner = store.read_object(&record.object)?;
    Ok(VerifyingReader::new(
        inner,
        store.location(),
        record.object.clone(),
        expected,
    ))
}

/// Reads the whole object of `record` and says whether it is as written.
pub fn verify(store: &dyn CheckpointStore, record: &ObjectRecord) -> Result<(), StoreError> {
    read_verified(store, record)?.finish()
}
