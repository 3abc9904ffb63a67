//! Objects as chunks in a store of records: what the stores on Redis and on object stores have in
//! common.
//!
//! An object is a *head* and any number of *chunks*. The chunks lie under a random number of their
//! writer's own; the head, which is created last and only if there is none of its name, says which
//! they are, how long, and with which checksums. So an object appears whole or not at all, two
//! writers of one name can't mix, and a chunk that is lost, or comes back old from a restored copy,
//! is [`StoreError::Damaged`]. Before the first chunk a *begun* record says for which object it
//! is: what a killed writer leaves is found by it.

mod head;
mod reader;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::{Cursor, Read};
use std::sync::Arc;

use lockkeeper_fencing::guard::{GuardError, GuardStore};

use self::head::{BEGUN, CHUNK, HEAD, Head};
use self::reader::ChunkReader;
use self::writer::ChunkWriter;
use super::{CheckpointStore, Compression, StoreError, WriteObject, Written, name};

/// Checkpoint objects in a store of records.
///
/// For places that have a [`GuardStore`] and no checkpoint store of their own, such as etcd,
/// ZooKeeper, or an object store whose client you configure yourself. `RedisStore` and
/// `ObjectStorageStore` are this with their guard stores.
///
/// It is as durable as its records. An object is held in memory by one chunk at a time (1 MiB). A
/// name is at most 193 bytes, where `_` and `%` count twice; one that is longer is
/// [`StoreError::BadName`].
#[derive(Debug, Clone)]
pub struct RecordStore {
    location: String,
    objects: Arc<dyn GuardStore>,
    log: Arc<dyn GuardStore>,
    chunk_bytes: usize,
    compression: Compression,
}

impl RecordStore {
    /// Objects in `objects`, the coordinators' log in `log`: two folders or prefixes of which
    /// neither lists the other's records. `location` names the place in logs and errors.
    pub fn new(
        location: impl Into<String>,
        objects: Arc<dyn GuardStore>,
        log: Arc<dyn GuardStore>,
    ) -> Self {
        Self {
            location: location.into(),
            objects,
            log,
            chunk_bytes: 1024 * 1024,
            compression: Compression::default(),
        }
    }

    /// The size of a chunk in bytes (1 MiB; 1 KiB to 32 MiB): no more than one record may have.
    #[must_use]
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes.clamp(1024, 32 * 1024 * 1024);
        self
    }

    /// How state is written (LZ4 above 4 KiB).
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    fn head_name(&self, object: &str) -> Result<String, StoreError> {
        let fault = name::fault(object);
        head::name_of(object, fault).map_err(|what| StoreError::BadName {
            location: self.location.clone(),
            name: object.to_owned(),
            what,
        })
    }

    fn failed(&self, name: &str, error: GuardError) -> StoreError {
        StoreError::Io {
            location: self.location.clone(),
            name: name.to_owned(),
            source: io::Error::other(error),
        }
    }

    fn names(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let listed = self.objects.list(prefix);
        listed.map_err(|error| self.failed(prefix, error))
    }

    fn head(&self, object: &str) -> Result<(Head, Vec<u8>), StoreError> {
        let name = self.head_name(object)?;
        let read = self.objects.read(&name);
        let bytes = read.map_err(|error| self.failed(object, error))?;
        let (location, name) = (self.location.clone(), object.to_owned());
        let Some(bytes) = bytes else {
            return Err(StoreError::Missing { location, name });
        };
        Head::decode(&bytes, object).map_err(|what| StoreError::Damaged {
            location,
            name,
            what,
        })
    }

    fn remove_record(&self, object: &str, record: &str) -> Result<(), StoreError> {
        let removed = self.objects.remove(record);
        removed.map_err(|error| self.failed(object, error))
    }

    /// Which object each unfinished or just finished writer writes.
    fn begun(&self) -> Result<BTreeMap<String, String>, StoreError> {
        let mut begun = BTreeMap::new();
        for record in self.names(BEGUN)? {
            let read = self.objects.read(&record);
            let object = read.map_err(|error| self.failed(&record, error))?;
            let writer = record.strip_prefix(BEGUN).unwrap_or_default().to_owned();
            if let Some(Ok(object)) = object.map(String::from_utf8) {
                begun.insert(writer, object);
            }
        }
        Ok(begun)
    }
}

impl CheckpointStore for RecordStore {
    fn write_object(&self, name: &str, write: WriteObject<'_>) -> Result<Written, StoreError> {
        let head = self.head_name(name)?;
        let failed = |error| super::verify::told(error, self.location.clone(), name);
        let mut writer = ChunkWriter::new(self.objects.as_ref(), name, self.chunk_bytes);
        let written = write(&mut writer).and_then(|()| writer.finish(&head));
        let exists = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        written.map_err(|error| {
            writer.clean();
            match error {
                error if exists(&error) => StoreError::Exists {
                    location: self.location.clone(),
                    name: name.to_owned(),
                },
                error => failed(error),
            }
        })
    }

    fn read_object(&self, name: &str) -> Result<Box<dyn Read + Send>, StoreError> {
        let (head, content) = self.head(name)?;
        if head.chunks.is_empty() {
            return Ok(Box::new(Cursor::new(content)));
        }
        let objects = Arc::clone(&self.objects);
        let location = self.location.clone();
        Ok(Box::new(ChunkReader::new(objects, location, head)))
    }

    fn list_objects(&self) -> Result<Vec<String>, StoreError> {
        let heads = self.names(HEAD)?;
        // A record that is not spelled as a head is none of ours.
        Ok(heads
            .iter()
            .filter_map(|name| head::object_of(name))
            .collect())
    }

    fn remove_object(&self, name: &str) -> Result<(), StoreError> {
        let record = self.head_name(name)?;
        let head = match self.head(name) {
            Ok((head, _)) => Some(head),
            Err(StoreError::Missing { .. }) => return Ok(()),
            // Its chunks are unknown; the sweep finds them as those of nobody.
            Err(StoreError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        // Without its head it is no object; chunks that can't be removed now are swept later.
        self.remove_record(name, &record)?;
        let Some(head) = head else {
            return Ok(());
        };
        for number in 0..head.chunks.len() {
            self.remove_record(name, &head::chunk_name(&head.writer, number))?;
        }
        if head.chunks.is_empty() {
            return Ok(());
        }
        self.remove_record(name, &head::begun_name(&head.writer))
    }

    /// The begun record of an object stays as long as the object: it also finds the chunks that an
    /// interrupted removal has left.
    fn remove_unfinished(&self, of: &dyn Fn(&str) -> bool) -> Result<usize, StoreError> {
        let mut begun = self.begun()?;
        begun.retain(|_, object| of(object));
        if begun.is_empty() {
            return Ok(0);
        }
        let chunks = self.names(CHUNK)?;
        // Listed last: a writer that has finished in between has its head here.
        let heads: BTreeSet<String> = self.list_objects()?.into_iter().collect();
        let mut removed = 0;
        for (writer, object) in begun {
            if heads.contains(&object) {
                match self.head(&object) {
                    Ok((head, _)) if head.writer == writer => continue,
                    // Somebody else's object: this writer has lost.
                    Ok(_) | Err(StoreError::Missing { .. }) => {}
                    Err(StoreError::Damaged { .. }) => continue,
                    Err(error) => return Err(error),
                }
            }
            let prefix = head::chunk_prefix(&writer);
            for chunk in chunks.iter().filter(|chunk| chunk.starts_with(&prefix)) {
                self.remove_record(&object, chunk)?;
            }
            self.remove_record(&object, &head::begun_name(&writer))?;
            removed += 1;
        }
        Ok(removed)
    }

    fn guard_store(&self) -> Result<Arc<dyn GuardStore>, StoreError> {
        Ok(Arc::clone(&self.log))
    }

    fn compression(&self) -> Compression {
        self.compression
    }

    fn location(&self) -> String {
        self.location.clone()
    }
}

/// Implements [`CheckpointStore`] by the field `records`.
#[cfg(any(feature = "redis", feature = "object-store"))]
macro_rules! by_its_records {
    ($store:ty) => {
        impl $crate::store::CheckpointStore for $store {
            fn write_object(
                &self,
                name: &str,
                write: $crate::store::WriteObject<'_>,
            ) -> Result<$crate::store::Written, $crate::store::StoreError> {
                self.records.write_object(name, write)
            }

            fn read_object(
                &self,
                name: &str,
            ) -> Result<Box<dyn std::io::Read + Send>, $crate::store::StoreError> {
                self.records.read_object(name)
            }

            fn list_objects(&self) -> Result<Vec<String>, $crate::store::StoreError> {
                self.records.list_objects()
            }

            fn remove_object(&self, name: &str) -> Result<(), $crate::store::StoreError> {
                self.records.remove_object(name)
            }

            fn remove_unfinished(
                &self,
                of: &dyn Fn(&str) -> bool,
            ) -> Result<usize, $crate::store::StoreError> {
                self.records.remove_unfinished(of)
            }

            fn guard_store(
                &self,
            ) -> Result<
                std::sync::Arc<dyn lockkeeper_fencing::guard::GuardStore>,
                $crate::store::StoreError,
            > {
                self.records.guard_store()
            }

            fn compression(&self) -> $crate::store::Compression {
                self.records.compression()
            }

            fn location(&self) -> String {
                self.records.location()
            }
        }
    };
}
#[cfg(any(feature = "redis", feature = "object-store"))]
pub(super) use by_its_records;

#[cfg(test)]
mod tests;
