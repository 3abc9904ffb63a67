//! Objects on an object store: S3 and whatever else the crate `object_store` reaches.

#[cfg(all(feature = "s3", any(test, feature = "testing")))]
mod s3_server;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_fencing::guard::{GuardError, GuardStore, ObjectGuardStore};

#[cfg(all(feature = "s3", any(test, feature = "testing")))]
pub use self::s3_server::S3Server;
use super::records::by_its_records;
use super::{Compression, RecordStore, StoreError};

/// How long a request, with its repetitions, may take. A chunk is one request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The size of a chunk, in bytes: larger ones gain nothing on S3, smaller ones cost requests.
const CHUNK: usize = 8 * 1024 * 1024;

/// Checkpoint objects on an object store. Several processes on several hosts may use it at once.
///
/// Use it for state of any size that has to survive hosts. Do not use it for many cuts a second:
/// each object is a request (and one more for each 8 MiB and two more beyond the first), and requests
/// take some 10 to 100 ms and cost money.
///
/// **What can be lost:** nothing that was answered, on S3, GCS, Azure and R2. `file:` does not sync: it
/// survives its processes and not a loss of power ([`FileStore`](super::FileStore) does).
/// `memory:` ends with the store and its clones.
///
/// Objects are written in chunks of 8 MiB under their own names and become visible by their head, which is
/// created on the condition that there is none. That is used instead of multipart uploads because these
/// can't be completed on a condition, and what a killed process leaves of one can't be listed.
///
/// It holds one chunk for each object that is written or read. A request is given up after 60 s.
#[derive(Debug, Clone)]
pub struct ObjectStorageStore {
    records: RecordStore,
}

impl ObjectStorageStore {
    /// Opens the folder that a URL names, such as `s3://bucket/regions/orders`,
    /// `file:///mnt/shared/orders` or `memory:///orders`.
    ///
    /// `options` are those of the crate `object_store` by name (`aws_region`, `aws_endpoint`,
    /// `aws_access_key_id`, …); the environment is not read. `s3:` needs the feature `s3`; with it, the
    /// process' default TLS provider becomes ring if the program has chosen none. Other schemes than
    /// `s3`, `file` and `memory` need that crate's feature for them in your program.
    ///
    /// # Errors
    /// [`StoreError::Io`] for a URL or an option that can't be read and for a scheme that is not
    /// built in. Nothing is asked of the object store: what it refuses comes with the first call.
    pub fn open<'a>(
        url: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, StoreError> {
        // Not with its user part, which may hold a secret.
        let shown = without_user(url);
        let failed = |error: GuardError| StoreError::Io {
            location: shown.clone(),
            name: String::new(),
            source: io::Error::other(error),
        };
        let folder = ObjectGuardStore::open(url, options).map_err(failed)?;
        let folder = folder.with_timeout(TIMEOUT);
        let records = |name: &str| -> Result<Arc<dyn GuardStore>, StoreError> {
            Ok(Arc::new(folder.within(name).map_err(failed)?))
        };
        let records = RecordStore::new(shown.clone(), records("objects")?, records("log")?);
        Ok(Self {
            records: records.with_chunk_bytes(CHUNK),
        })
    }

    /// How state is written (LZ4 above 4 KiB).
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.records = self.records.with_compression(compression);
        self
    }

    /// The size of a chunk in bytes (8 MiB; 1 KiB to 32 MiB).
    #[must_use]
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Self {
        self.records = self.records.with_chunk_bytes(bytes);
        self
    }
}

by_its_records!(ObjectStorageStore);

/// `s3://key:secret@bucket/folder` without what comes before the `@`.
fn without_user(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}/{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CheckpointStore, contract};
    use super::*;

    fn open(url: &str) -> ObjectStorageStore {
        ObjectStorageStore::open(url, []).unwrap()
    }

    #[test]
    fn an_object_store_in_memory_keeps_the_contract() {
        contract::all(&open("memory:///regions/orders").with_chunk_bytes(64 * 1024));
        contract::all(&open("memory:///"));
    }

    #[test]
    fn an_object_store_in_a_folder_keeps_the_contract() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}", folder.path().display());
        contract::all(&open(&url).with_chunk_bytes(64 * 1024));
        // Another process finds what is there.
        let names = open(&url).list_objects().unwrap();
        assert!(
            names.iter().any(|name| name == "1.1.0.large.0"),
            "{names:?}"
        );
    }

    #[test]
    fn urls_that_cannot_be_opened_say_why() {
        for url in ["", "no url", "gopher://host/orders", "s3://"] {
            let error = ObjectStorageStore::open(url, []).unwrap_err();
            assert!(matches!(error, StoreError::Io { .. }), "{url}: {error}");
        }
        assert_eq!(
            without_user("s3://key:secret@bucket/a@b"),
            "s3://bucket/a@b"
        );
    }
}
