//! A store in a folder of a local file system.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use uuid::Uuid;

use super::memory::check_size;
use super::store::{Creation, GuardStore, MAX_RECORD_BYTES};
use super::{GuardError, name};

/// A left-over temporary file is removed at opening when it is older than this.
const STALE: Duration = Duration::from_secs(600);

/// A folder of a local file system that several processes of one host share: one file a record.
///
/// A record is written to a temporary file, synced, given its name by a hard link (which fails if
/// the name is taken), and the folder is synced. A listing syncs the folder too, so that nobody
/// builds on a record that a loss of power takes back. Not for network file systems: their hard
/// links and listings do not promise that.
///
/// After a failed sync the system may have dropped the data and forgotten the error, so that a
/// second sync would succeed for nothing. The store therefore fails every call from then on
/// with [`GuardError::Spent`].
#[derive(Debug)]
pub struct FileGuardStore {
    folder: PathBuf,
    handle: File,
    /// Keeps one sync from hiding the error of another of this process.
    syncing: Mutex<()>,
    spent: AtomicBool,
    sync: fn(&File) -> io::Result<()>,
}

impl FileGuardStore {
    /// Opens a folder, creating it and its parents if needed.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`] when that fails.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, GuardError> {
        Self::open_with(folder.into(), File::sync_all)
    }

    pub(crate) fn open_with(
        folder: PathBuf,
        sync: fn(&File) -> io::Result<()>,
    ) -> Result<Self, GuardError> {
        let opened = create_synced(&folder).and_then(|()| File::open(&folder));
        let handle = opened.map_err(|source| GuardError::Unavailable {
            what: format!("opening the folder {}", folder.display()),
            source,
        })?;
        let syncing = Mutex::new(());
        let store = FileGuardStore {
            folder,
            handle,
            syncing,
            spent: AtomicBool::new(false),
            sync,
        };
        store.remove_stale();
        Ok(store)
    }

    fn write_temporary(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(bytes)?;
        (self.sync)(&file)
    }

    fn sync_folder(&self) -> io::Result<()> {
        let _one_at_a_time = self.syncing.lock();
        if self.spent.load(Ordering::SeqCst) {
            return Err(io::Error::other("an earlier sync failed"));
        }
        let result = (self.sync)(&self.handle);
        if result.is_err() {
            self.spent.store(true, Ordering::SeqCst);
        }
        result
    }

    fn usable(&self) -> Result<(), GuardError> {
        if self.spent.load(Ordering::SeqCst) {
            Err(GuardError::Spent)
        } else {
            Ok(())
        }
    }

    /// Removing one that is still being written only makes that write fail as not written.
    fn remove_stale(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let is_temporary = entry.file_name().to_str().is_some_and(is_temporary);
            let age = entry.metadata().and_then(|metadata| metadata.modified());
            let is_stale = age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE));
            if is_temporary && is_stale {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl GuardStore for FileGuardStore {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        name::validate(name)?;
        check_size(name, bytes.len())?;
        self.usable()?;
        let temporary = self.folder.join(temporary_name());
        let written = self.write_temporary(&temporary, bytes);
        let linked = written.and_then(|()| fs::hard_link(&temporary, self.folder.join(name)));
        let _ = fs::remove_file(&temporary);
        let creation = match linked {
            Ok(()) => Creation::Created,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Creation::AlreadyExists,
            // The name was never given, whatever became of the temporary file.
            Err(source) => {
                return Err(GuardError::NotWritten {
                    name: name.to_owned(),
                    source,
                });
            }
        };
        match self.sync_folder() {
            Ok(()) => Ok(creation),
            Err(source) => Err(GuardError::Unknown {
                name: name.to_owned(),
                source,
            }),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        self.usable()?;
        let names = list_folder(&self.folder, prefix);
        names
            .and_then(|names| self.sync_folder().map(|()| names))
            .map_err(|source| GuardError::Unavailable {
                what: format!("listing {prefix}* in {}", self.folder.display()),
                source,
            })
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        name::validate(name)?;
        self.usable()?;
        read_limited(name, &self.folder.join(name))
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        name::validate(name)?;
        self.usable()?;
        match fs::remove_file(self.folder.join(name)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(GuardError::Unavailable {
                what: format!("removing {name}"),
                source,
            }),
        }
    }
}

/// Creates a folder and its parents, each durable in the one above it.
fn create_synced(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = match folder.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    create_synced(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(above)?.sync_all()
}

fn list_folder(folder: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        // A name that is not UTF-8 is not ours.
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        if name.starts_with(prefix) && !is_temporary(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn read_limited(name: &str, path: &Path) -> Result<Option<Vec<u8>>, GuardError> {
    let unavailable = |source| GuardError::Unavailable {
        what: format!("reading {name}"),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(unavailable(source)),
    };
    let length = file.metadata().map_err(unavailable)?.len();
    let limit = u64::try_from(MAX_RECORD_BYTES).unwrap_or(u64::MAX);
    if length > limit {
        return Err(GuardError::TooLarge {
            name: name.to_owned(),
            bytes: length,
            limit,
        });
    }
    let mut bytes = Vec::new();
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(unavailable)?;
    Ok(Some(bytes))
}

fn temporary_name() -> String {
    format!(".{}.tmp", Uuid::new_v4().simple())
}

fn is_temporary(name: &str) -> bool {
    name.starts_with('.')
}
