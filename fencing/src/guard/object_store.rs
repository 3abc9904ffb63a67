//! A store on an object store: S3, GCS, Azure and what else the crate `object_store` reaches.

use std::fmt;
use std::io;
use std::str::FromStr;
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
/// the option `aws_conditional_put` must not be `disabled`. `file:` does not sync: its records survive
/// the process, not a loss of power; use [`FileGuardStore`](super::FileGuardStore) on a file system.
///
/// A client that repeats a creation by itself may answer "already exists" for what it has just
/// created. The guard then steps down or is spent, which is safe and costs an epoch; a client with few
/// retries makes it rare.
pub struct ObjectGuardStore {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    timeout: Duration,
    thread: Arc<ClientThread>,
}

impl ObjectGuardStore {
    /// Records in the folder that a URL names, such as `s3://bucket/orders/checkpoints`,
    /// `file:///mnt/shared/orders` or `memory:///orders`. A call waits at most 30 s.
    ///
    /// `options` are those of the crate `object_store` by name (`aws_region`, `aws_endpoint`,
    /// `aws_access_key_id`, …); the environment is not read. `s3:` needs the feature `s3`; with it, the
    /// process' default TLS provider becomes ring if the program has chosen none. Other schemes than
    /// `s3`, `file` and `memory` need that crate's feature for them in your program. What `memory:`
    /// holds is seen by this store and those [within](Self::within) it, and by no other.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`] for a URL or an option that cannot be read, for one with credentials
    /// (they are options), for a scheme that is not built in, and when no thread can be started. Nothing is asked of the object store: what it
    /// refuses comes with the first call.
    pub fn open<'a>(
        url: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, GuardError> {
        #[cfg(feature = "s3")]
        choose_tls_provider();
        let unreadable = |source| unavailable("reading the object store's URL", source);
        // Not used, and an error that shows the URL would show them.
        if has_credentials(url) {
            let reason = "credentials are options, not a part of the URL";
            return Err(unreadable(io::Error::new(
                io::ErrorKind::InvalidInput,
                reason,
            )));
        }
        let parsed = parse(url).map_err(unreadable)?;
        let (store, folder) = object_store::parse_url_opts(&parsed, options)
            .map_err(|error| unreadable(io::Error::other(error)))?;
        let thread = ClientThread::start("lockkeeper-guard")
            .map_err(|error| unavailable("starting its thread", error))?;
        Ok(ObjectGuardStore {
            store: Arc::from(store),
            folder,
            timeout: Duration::from_secs(30),
            thread: Arc::new(thread),
        })
    }

    /// A store of its own in a folder below, such as `manifests` or `2026/orders`, through the same
    /// client.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`] for a folder that is no path.
    pub fn within(&self, folder: &str) -> Result<Self, GuardError> {
        let below = Path::parse(folder)
            .map_err(|error| unavailable("reading the folder's path", io::Error::other(error)))?;
        Ok(ObjectGuardStore {
            store: Arc::clone(&self.store),
            folder: self.folder.parts().chain(below.parts()).collect(),
            timeout: self.timeout,
            thread: Arc::clone(&self.thread),
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

fn unavailable(what: &str, source: io::Error) -> GuardError {
    GuardError::Unavailable {
        what: what.to_owned(),
        source,
    }
}

fn has_credentials(url: &str) -> bool {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}

/// The type of a URL is `object_store`'s.
fn parse<T: FromStr>(url: &str) -> io::Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    url.parse()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// The client asks for the process' default provider and panics without one. One that the program has
/// chosen stays.
#[cfg(feature = "s3")]
fn choose_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_cannot_be_opened_say_why_and_show_no_secret() {
        let secret = "s3://key:secret@bucket/orders";
        for url in ["", "no url", "gopher://host/orders", "s3://", secret] {
            let error = ObjectGuardStore::open(url, []).unwrap_err();
            assert!(
                matches!(error, GuardError::Unavailable { .. }),
                "{url}: {error}"
            );
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_store_within_another_has_records_of_its_own() {
        let above = ObjectGuardStore::open("memory:///orders", []).unwrap();
        let (one, two) = (above.within("one").unwrap(), above.within("a/two").unwrap());
        assert_eq!(
            one.create_if_absent("x-1", b"1").unwrap(),
            Creation::Created
        );
        assert_eq!(
            two.create_if_absent("x-1", b"2").unwrap(),
            Creation::Created
        );
        drop(above);
        assert_eq!(one.read("x-1").unwrap().unwrap(), b"1");
        assert_eq!(two.list("x-").unwrap(), ["x-1"]);
        assert!(one.within("a//b").is_err());
    }
}
