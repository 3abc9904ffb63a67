//! Objects as files of one folder.
//!
//! An object appears whole or not at all: it is written to a file of another name, flushed to the
//! medium, linked to its own name (which fails if the name exists), and the folder is flushed. A
//! failure on the way removes what was written; what a killed process leaves behind is found by
//! its name and swept.

mod located;
mod writing;

use std::fmt;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_fencing::guard::{FileGuardStore, GuardStore};
use uuid::Uuid;

use self::located::Located;
use super::{CheckpointStore, Compression, StoreError, WriteObject, Written, name};

/// Unfinished objects are called `.part-<uuid>-<name>`.
const UNFINISHED: &str = ".part-";
const UUID_LENGTH: usize = 36;

/// A folder of checkpoint objects. Several processes may use it at once.
///
/// The folder must be on a file system with hard links that all processes of the region share.
/// Losing it loses the region's state: it is as durable as its disk.
///
/// A flush that failed is never tried again as if it had not: the kernel may have dropped the pages that
/// it could not write, and a second flush would succeed without them. The object is given up, and the
/// region writes a whole new one. A long object is flushed while it is being written as well, each 8 MiB.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
    log: PathBuf,
    compression: Compression,
    flush: Flush,
}

/// Flushes a file or folder to the medium.
#[derive(Clone)]
struct Flush(Arc<FlushFile>);

type FlushFile = dyn Fn(&File) -> io::Result<()> + Send + Sync;

impl fmt::Debug for Flush {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Flush")
    }
}

impl Flush {
    fn file(&self, file: &File) -> io::Result<()> {
        (self.0)(file)
    }

    /// Makes names in `folder` durable.
    fn folder(&self, folder: &Path) -> io::Result<()> {
        self.file(&File::open(folder)?)
    }
}

impl FileStore {
    /// Opens `root`, creating it and its folders `objects` and `log` as needed.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        let store = Self {
            folder: root.join("objects"),
            log: root.join("log"),
            compression: Compression::default(),
            flush: Flush(Arc::new(File::sync_all)),
        };
        fs::create_dir_all(&store.folder).map_err(|source| store.failed("", source))?;
        let synced = store.flush.folder(&root);
        synced.map_err(|source| store.failed("", source))?;
        Ok(store)
    }

    /// Opens a store that must be there already. Use it wherever a region is to go on: what
    /// [`open`](Self::open) makes in place of a store that was lost with its disk is an empty one, and a
    /// region that begins with it counts everything anew.
    ///
    /// # Errors
    /// [`StoreError::Io`] that says so when there is none.
    pub fn open_existing(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        if ["objects", "log"]
            .iter()
            .all(|part| root.join(part).is_dir())
        {
            return Self::open(root);
        }
        Err(StoreError::Io {
            location: format!("file:{}", root.display()),
            name: String::new(),
            source: io::Error::new(
                io::ErrorKind::NotFound,
                "there is no store: it was never made here, or it was lost with its disk, and the \
                 region's state with it",
            ),
        })
    }

    /// How state is written (LZ4 above 4 KiB).
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Flushes files and folders by `flush`: for tests with disks that fail.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_flush(
        mut self,
        flush: impl Fn(&File) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.flush = Flush(Arc::new(flush));
        self
    }

    fn failed(&self, name: &str, source: io::Error) -> StoreError {
        let (location, name) = (self.location(), name.to_owned());
        match source.kind() {
            io::ErrorKind::NotFound if !name.is_empty() => StoreError::Missing { location, name },
            io::ErrorKind::AlreadyExists => StoreError::Exists { location, name },
            _ => StoreError::Io {
                location,
                name,
                source,
            },
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        match name::fault(name) {
            None => Ok(self.folder.join(name)),
            Some(what) => Err(StoreError::BadName {
                location: self.location(),
                name: name.to_owned(),
                what,
            }),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            // A name that is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }
}

impl CheckpointStore for FileStore {
    fn write_object(&self, name: &str, write: WriteObject<'_>) -> Result<Written, StoreError> {
        let path = self.path(name)?;
        let unfinished = self
            .folder
            .join(format!("{UNFINISHED}{}-{name}", Uuid::new_v4()));
        let result = self.write_and_link(&unfinished, &path, write);
        // Linked or failed, the other name has no use any more; if it can't be removed now, the
        // sweep finds it.
        let _ = fs::remove_file(&unfinished);
        let written = result.map_err(|source| self.failed_write(name, source))?;
        if let Err(source) = self.flush.folder(&self.folder) {
            // Nobody was told of the object: without its name it does not exist.
            let _ = fs::remove_file(&path);
            return Err(self.failed_write(name, source));
        }
        Ok(written)
    }

    fn read_object(&self, name: &str) -> Result<Box<dyn Read + Send>, StoreError> {
        let path = self.path(name)?;
        let file = File::open(path).map_err(|source| self.failed(name, source))?;
        Ok(Box::new(file))
    }

    fn list_objects(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.names().map_err(|source| self.failed("", source))?;
        names.retain(|name| !name.starts_with('.'));
        Ok(names)
    }

    fn remove_object(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(name, error)),
            _ => Ok(()),
        }
    }

    fn remove_unfinished(&self, of: &dyn Fn(&str) -> bool) -> Result<usize, StoreError> {
        let mut removed = 0;
        for file in self.names().map_err(|source| self.failed("", source))? {
            let Some(rest) = file.strip_prefix(UNFINISHED) else {
                continue;
            };
            let Some(object) = rest.get(UUID_LENGTH + 1..) else {
                continue;
            };
            if of(object) {
                match fs::remove_file(self.folder.join(&file)) {
                    Ok(()) => removed += 1,
                    // Its writer lives and has just finished.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(self.failed(&file, error)),
                }
            }
        }
        Ok(removed)
    }

    fn guard_store(&self) -> Result<Arc<dyn GuardStore>, StoreError> {
        // A store that vanished must not be taken for one that was never used: opening the log would
        // make its folder anew.
        if !self.folder.is_dir() {
            return Err(StoreError::Io {
                location: self.location(),
                name: String::new(),
                source: io::Error::new(io::ErrorKind::NotFound, "the folder is gone"),
            });
        }
        match FileGuardStore::open(&self.log) {
            Ok(store) => Ok(Arc::new(Located::new(Arc::new(store), self.log.clone()))),
            Err(error) => Err(StoreError::Io {
                location: format!("file:{}", self.log.display()),
                name: String::new(),
                source: io::Error::other(error),
            }),
        }
    }

    fn compression(&self) -> Compression {
        self.compression
    }

    fn location(&self) -> String {
        format!("file:{}", self.folder.display())
    }
}

impl FileStore {
    /// Like [`failed`](Self::failed), for a write: a missing folder is a medium that is gone.
    fn failed_write(&self, name: &str, source: io::Error) -> StoreError {
        match self.failed(name, source) {
            StoreError::Missing { location, name } => {
                let source = io::Error::new(io::ErrorKind::NotFound, "the folder is gone");
                StoreError::Io {
                    location,
                    name,
                    source,
                }
            }
            other => other,
        }
    }

    fn write_and_link(
        &self,
        unfinished: &Path,
        path: &Path,
        write: WriteObject<'_>,
    ) -> io::Result<Written> {
        let file = File::options()
            .write(true)
            .create_new(true)
            .open(unfinished)?;
        let written = writing::write(&file, &self.flush, write)?;
        self.flush.file(&file)?;
        fs::hard_link(unfinished, path)?;
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_file_store_keeps_the_contract() {
        let root = tempfile::tempdir().unwrap();
        super::super::contract::all(&FileStore::open(root.path()).unwrap());
    }

    #[test]
    fn what_a_killed_writer_left_is_no_object_and_is_swept() {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::open(root.path()).unwrap();
        let half = format!("{UNFINISHED}{}-7.1.0.totals.0", Uuid::new_v4());
        fs::write(store.folder.join(&half), b"half").unwrap();
        assert_eq!(store.list_objects().unwrap(), Vec::<String>::new());
        assert_eq!(
            store
                .remove_unfinished(&|name| name.starts_with("8."))
                .unwrap(),
            0
        );
        assert_eq!(
            store
                .remove_unfinished(&|name| name == "7.1.0.totals.0")
                .unwrap(),
            1
        );
        assert!(!store.folder.join(half).exists());
    }

    /// The disk fails once, and says yes to whoever asks again.
    #[test]
    fn a_failed_flush_is_never_tried_again_as_if_it_had_not() {
        for failing in [0, 1] {
            let root = tempfile::tempdir().unwrap();
            let flushes = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&flushes);
            let store = FileStore::open(root.path())
                .unwrap()
                .with_flush(move |file| {
                    if count.fetch_add(1, Ordering::SeqCst) == failing {
                        return Err(rustix::io::Errno::IO.into());
                    }
                    file.sync_all()
                });
            let write = || store.write_object("1.1.0.a.0", &mut |to| to.write_all(b"state"));
            let failed = write();
            assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
            assert_eq!(flushes.load(Ordering::SeqCst), failing + 1);
            assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 0);
            // A whole new file: flushed, and so is its name.
            assert!(write().is_ok());
            assert_eq!(flushes.load(Ordering::SeqCst), failing + 3);
        }
    }

    #[test]
    fn a_folder_that_is_gone_is_the_mediums_failure() {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::open(root.path().join("data")).unwrap();
        fs::remove_dir_all(root.path().join("data")).unwrap();
        let error = store
            .write_object("1.1.0.a.0", &mut |_| Ok(()))
            .unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    }
}
