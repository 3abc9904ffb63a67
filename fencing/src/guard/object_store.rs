//! A store on an object store: S3, GCS, Azure and what else the crate `object_store` reaches.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use super::client_thread::ClientThread;
use super::memory::check_size;
use super::store::{Creation, GuardStore};
use super::{GuardError, name};

/// Records as objects in a folder of an object store.
///
/// What it needs of the object store: creation on the condition that there is nothing (`PutMode::Create`),
/// and listings that show at once what was created. S3, GCS, Azure Blob Storage and R2 have both;
/// `S3ConditionalPut` must not be disabled. `LocalFileSystem` does not sync: its records survive the
/// process, not a loss of power; use [`FileGuardStore`](super::FileGuardStore) on a file system.
///
/// A client that repeats a creation by itself may answer "already exists" for what it has just
/// created. The guard then steps down or is spent, which is safe and costs an epoch; a client with few
/// retries makes it rare.
pub struct ObjectGuardStore {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    timeout: Duration,
    thread: ClientThread,
}

impl ObjectGuardStore {
    /// Records in `folder` (such as `orders/checkpoints`) of this store. A call waits at most 30 s.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`] for a folder that is no path, and when no thread can be started.
    pub fn new(store: Arc<dyn ObjectStore>, folder: &str) -> Result<Self, GuardError> {
        let unavailable = |what: &str, source| GuardError::Unavailable {
            what: what.to_owned(),
            source,
        };
        let folder = Path::parse(folder)
            .map_err(|error| unavailable("reading the folder's path", io::Error::other(error)))?;
        let thread = ClientThread::start("lockkeeper-guard")
            .map_err(|error| unavailable("starting its thread", error))?;
        Ok(ObjectGuardStore {
            store,
            folder,
            timeout: Duration::from_secs(30),
            thread,
        })
    }

    /// How long a call waits (30 s).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn path(&self, name: &str) -> Path {
        self.folder.clone().join(name)
    }
}

impl GuardStore for ObjectGuardStore {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        name::validate(name)?;
        check_size(name, bytes.len())?;
        let (store, path, bytes) = (self.store.clone(), self.path(name), bytes.to_vec());
        let answer = self.thread.run(self.timeout, async move {
            let create = PutOptions::from(PutMode::Create);
            store.put_opts(&path, bytes.into(), create).await
        });
        let name = name.to_owned();
        match answer {
            Ok(Ok(_)) => Ok(Creation::Created),
            Ok(Err(Error::AlreadyExists { .. })) => Ok(Creation::AlreadyExists),
            Ok(Err(error)) if is_refusal(&error) => Err(GuardError::NotWritten {
                name,
                source: io::Error::other(error),
            }),
            Ok(Err(error)) => Err(GuardError::Unknown {
                name,
                source: io::Error::other(error),
            }),
            Err(source) => Err(GuardError::Unknown { name, source }),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        let (store, folder) = (self.store.clone(), self.folder.clone());
        let answer = self.thread.run(self.timeout, async move {
            store.list_with_delimiter(Some(&folder)).await
        });
        let listed = answer.and_then(|listed| listed.map_err(io::Error::other));
        let listed = listed.map_err(|source| GuardError::Unavailable {
            what: format!("listing {prefix}*"),
            source,
        })?;
        let names = listed
            .objects
            .iter()
            .filter_map(|object| object.location.filename());
        let names = names.filter(|name| name.starts_with(prefix));
        Ok(names.map(str::to_owned).collect())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        name::validate(name)?;
        let (store, path, record) = (self.store.clone(), self.path(name), name.to_owned());
        let answer = self.thread.run(self.timeout, async move {
            let unavailable = |error| GuardError::Unavailable {
                what: format!("reading {record}"),
                source: io::Error::other(error),
            };
            let found = match store.get(&path).await {
                Ok(found) => found,
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(unavailable(error)),
            };
            // The size is known before the bytes come.
            let size = usize::try_from(found.meta.size).unwrap_or(usize::MAX);
            check_size(&record, size)?;
            let bytes = found.bytes().await.map_err(unavailable)?;
            Ok(Some(Vec::from(bytes)))
        });
        answer.unwrap_or_else(|source| {
            Err(GuardError::Unavailable {
                what: format!("reading {name}"),
                source,
            })
        })
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        name::validate(name)?;
        let (store, path) = (self.store.clone(), self.path(name));
        let answer = self.thread.run(self.timeout, async move {
            match store.delete(&path).await {
                Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(io::Error::other(error)),
            }
        });
        let removed = answer.and_then(|removed| removed);
        removed.map_err(|source| GuardError::Unavailable {
            what: format!("removing {name}"),
            source,
        })
    }
}

impl fmt::Debug for ObjectGuardStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ObjectGuardStore")
            .field("store", &format_args!("{}", self.store))
            .field("folder", &self.folder.as_ref())
            .finish_non_exhaustive()
    }
}

/// Whether nothing can have been created.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::NotFound { .. }
            | Error::InvalidPath { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::UnknownConfigurationKey { .. }
    )
}
