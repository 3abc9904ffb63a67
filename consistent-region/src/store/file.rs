//! Objects as files of one folder.
//!
//! An object appears whole or not at all: it is written to a file of another name, flushed to the
//! medium, linked to its own name (which fails if the name exists), and the folder is flushed. A
//! failure on the way removes what was written; what a killed process leaves behind is found by
//! its name and swept.

use std::fs;
use std::fs::File;
use std::io;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockkeeper_fencing::guard::{FileGuardStore, GuardStore};
use uuid::Uuid;

use super::{CheckpointStore, StoreError, WriteObject, Written, name};

/// Unfinished objects are called `.part-<uuid>-<name>`.
const UNFINISHED: &str = ".part-";
const UUID_LENGTH: usize = 36;
const BUFFER: usize = 256 * 1024;

/// A folder of checkpoint objects. Several processes may use it at once.
///
/// The folder must be on a file system with hard links that all processes of the region share.
/// Losing it loses the region's state: it is as durable as its disk.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
    log: PathBuf,
}

impl FileStore {
    /// Opens `root`, creating it and its folders `objects` and `log` as needed.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        let store = Self {
            folder: root.join("objects"),
            log: root.join("log"),
        };
        fs::create_dir_all(&store.folder).map_err(|source| store.failed("", source))?;
        sync_folder(&root).map_err(|source| store.failed("", source))?;
        Ok(store)
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
        let result = write_and_link(&unfinished, &path, write);
        // Linked or failed, the other name has no use any more; if it can't be removed now, the
        // sweep finds it.
        let _ = fs::remove_file(&unfinished);
        let written = result.map_err(|source| self.failed_write(name, source))?;
        if let Err(source) = sync_folder(&self.folder) {
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
        match FileGuardStore::open(&self.log) {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(StoreError::Io {
                location: format!("file:{}", self.log.display()),
                name: String::new(),
                source: io::Error::other(error),
            }),
        }
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
}

fn write_and_link(unfinished: &Path, path: &Path, write: WriteObject<'_>) -> io::Result<Written> {
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(unfinished)?;
    let mut writer = BufWriter::with_capacity(BUFFER, Measured::new(file));
    write(&mut writer)?;
    let measured = writer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    measured.file.sync_all()?;
    fs::hard_link(unfinished, path)?;
    Ok(Written {
        length: measured.length,
        crc32: measured.hasher.finalize(),
    })
}

/// Takes length and checksum of what goes into a file.
struct Measured {
    file: File,
    length: u64,
    hasher: crc32fast::Hasher,
}

impl Measured {
    fn new(file: File) -> Self {
        Self {
            file,
            length: 0,
            hasher: crc32fast::Hasher::new(),
        }
    }
}

impl Write for Measured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.length = self
            .length
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes names in `folder` durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
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
