//! The accesses to the folder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper_core::token::Lineage;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::host;
use super::record::{Expires, Lease, Published};
use crate::clock::BootTime;
use crate::election::{ComponentId, ElectionError, LeaderInformation};

const LEASE: &str = "lease-";
const EXPIRES: &str = "expires-";
const ALIVE: &str = "alive-";
const INFORMATION: &str = "information-";
const LINEAGE: &str = "lineage";
const LARGEST: u64 = 64 * 1024;
/// A temporary file is left over when it is older than this.
const STALE: Duration = Duration::from_secs(600);

/// A folder of lease files.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    handle: File,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self, ElectionError> {
        let opened = fs::create_dir_all(path).and_then(|()| File::open(path));
        let what = || format!("opening the folder {}", path.display());
        let handle = opened.map_err(|error| ElectionError::unavailable(what(), error))?;
        if host::is_network_file_system(&handle) {
            let problem = format!(
                "{} is on a network file system: use a local one",
                path.display()
            );
            return Err(ElectionError::InvalidOption {
                option: "folder",
                problem,
            });
        }
        Ok(Folder {
            path: path.to_owned(),
            handle,
        })
    }

    /// The folder's own uuid, made by whoever comes first.
    pub(crate) fn lineage(&self) -> io::Result<Lineage> {
        loop {
            if let Some(lineage) = self.read::<Uuid>(LINEAGE)? {
                return Ok(Lineage::from(lineage));
            }
            self.create(LINEAGE, &Uuid::new_v4())?;
            self.sync()?;
        }
    }

    pub(crate) fn leases(&self) -> io::Result<Vec<u64>> {
        Ok(self
            .names()?
            .iter()
            .filter_map(|name| number(name.strip_prefix(LEASE)?))
            .collect())
    }

    /// The lease with its newest expiry.
    pub(crate) fn lease(&self, epoch: u64) -> io::Result<Option<Lease>> {
        let Some(mut lease) = self.read::<Lease>(&format!("{LEASE}{epoch}"))? else {
            return Ok(None);
        };
        if let Some(renewed) = self.read::<Expires>(&format!("{EXPIRES}{epoch}"))? {
            lease.expires = lease.expires.max(renewed.expires);
        }
        Ok(Some(lease))
    }

    /// Whether the lease file is there now and was not before.
    pub(crate) fn create_lease(&self, epoch: u64, lease: &Lease) -> io::Result<bool> {
        self.create(&format!("{LEASE}{epoch}"), lease)
    }

    pub(crate) fn write_expires(&self, epoch: u64, expires: BootTime) -> io::Result<()> {
        self.replace(&format!("{EXPIRES}{epoch}"), &Expires { expires })
    }

    pub(crate) fn publish(
        &self,
        component: &ComponentId,
        information: &LeaderInformation,
    ) -> io::Result<()> {
        let name = information_name(information.token.epoch, component);
        self.replace(&name, &Published::from(information))
    }

    pub(crate) fn withdraw(&self, epoch: u64, component: &ComponentId) -> io::Result<()> {
        absent_is_fine(fs::remove_file(
            self.path.join(information_name(epoch, component)),
        ))
    }

    pub(crate) fn information(
        &self,
        epoch: u64,
        component: &ComponentId,
    ) -> io::Result<Option<LeaderInformation>> {
        let published = self.read::<Published>(&information_name(epoch, component))?;
        Ok(published.map(LeaderInformation::from))
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// Creates and locks `alive-<session>`. `None` when a sweeper was faster.
    pub(crate) fn lock_alive(&self, session: Uuid) -> io::Result<Option<Alive>> {
        let path = self.path.join(alive_name(session));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // A sweeper may have unlinked it between the two: then nobody would find the lock.
        let alive = Alive { path, _lock: file };
        Ok(alive.path.exists().then_some(alive))
    }

    /// Whether the lock of a session can be taken; a file that is absent is free.
    pub(crate) fn try_alive(&self, session: Uuid) -> io::Result<bool> {
        Ok(self.take_alive(&alive_name(session))?.is_some())
    }

    /// Deletes lower leases and what belongs to them, and alive files that the highest lease does
    /// not name and whose lock can be taken.
    pub(crate) fn sweep_below(&self, epoch: u64) -> io::Result<()> {
        let highest = self.lease(epoch)?.map(|lease| alive_name(lease.session));
        for name in self.names()? {
            if name.starts_with('.') {
                self.remove_stale(&name);
                continue;
            }
            let numbered = [LEASE, EXPIRES, INFORMATION].iter().find_map(|prefix| {
                let rest = name.strip_prefix(prefix)?;
                number(rest.split('-').next()?)
            });
            let doomed = match numbered {
                Some(other) => other < epoch,
                None if name.starts_with(ALIVE) && highest.is_some() => {
                    if highest.as_ref() == Some(&name) {
                        continue;
                    }
                    // The lock is held over the unlinking.
                    let Some(_lock) = self.take_alive(&name)? else {
                        continue;
                    };
                    absent_is_fine(fs::remove_file(self.path.join(&name)))?;
                    continue;
                }
                None => false,
            };
            if doomed {
                absent_is_fine(fs::remove_file(self.path.join(&name)))?;
            }
        }
        Ok(())
    }

    /// Removes a temporary file that a killed process has left. Removing one that is still being
    /// written only makes that write fail.
    fn remove_stale(&self, name: &str) {
        let path = self.path.join(name);
        let written = fs::metadata(&path).and_then(|metadata| metadata.modified());
        if written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE)) {
            let _ = fs::remove_file(path);
        }
    }

    /// The lock, `None` if somebody holds it. Absent counts as taken by us.
    fn take_alive(&self, name: &str) -> io::Result<Option<Option<File>>> {
        let file = match OpenOptions::new().write(true).open(self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(None)),
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Some(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create<T: Serialize>(&self, name: &str, record: &T) -> io::Result<bool> {
        let temporary = self.write_temporary(record)?;
        let linked = fs::hard_link(&temporary, self.path.join(name));
        let _ = fs::remove_file(&temporary);
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn replace<T: Serialize>(&self, name: &str, record: &T) -> io::Result<()> {
        let temporary = self.write_temporary(record)?;
        let renamed = fs::rename(&temporary, self.path.join(name));
        if renamed.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        renamed
    }

    fn write_temporary<T: Serialize>(&self, record: &T) -> io::Result<PathBuf> {
        let path = self.path.join(format!(".{}.tmp", Uuid::new_v4().simple()));
        let bytes = serde_json::to_vec(record)?;
        let mut file = File::create_new(&path)?;
        let written = file.write_all(&bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(path)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let file = match File::open(self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes)?;
        let damaged = |error| io::Error::other(format!("{name} is damaged: {error}"));
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }
}

/// A locked `alive-<session>`. Dropping it unlinks the file and lets the lock go.
#[derive(Debug)]
pub(crate) struct Alive {
    path: PathBuf,
    _lock: File,
}

impl Drop for Alive {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn alive_name(session: Uuid) -> String {
    format!("{ALIVE}{session}")
}

fn information_name(epoch: u64, component: &ComponentId) -> String {
    format!("{INFORMATION}{epoch}-{component}")
}

fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
