//! Where a reader of a queue goes on: offsets that are its own, not the broker's.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::MqError;

/// Keeps, for each partition, the offset of the next message to be handled.
///
/// To handle each message exactly once, keep the offsets where the handler keeps its results, and
/// write both in one transaction: then [`save`](Self::save) has nothing to do.
pub trait OffsetStore: Send + Sync + 'static {
    /// Where to go on; `None` where nothing was read yet.
    ///
    /// # Errors
    /// [`MqError::Offsets`].
    fn load(
        &self,
        topic: &str,
        partition: u32,
    ) -> impl Future<Output = Result<Option<i64>, MqError>> + Send;

    /// Keeps where to go on. When this has resolved, a crash does not undo it.
    ///
    /// # Errors
    /// [`MqError::Offsets`]: the same message is delivered again after the next start.
    fn save(
        &self,
        topic: &str,
        partition: u32,
        next: i64,
    ) -> impl Future<Output = Result<(), MqError>> + Send;
}

/// Offsets in files of a folder, one a partition, each replaced by renaming and synced to the disk.
///
/// One reader a folder: two would overwrite each other's offsets.
#[derive(Debug, Clone)]
pub struct FileOffsets {
    folder: Arc<Path>,
}

impl FileOffsets {
    /// Offsets in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// [`MqError::Offsets`] when it cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, MqError> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder)
            .map_err(|error| MqError::Offsets(format!("{}: {error}", folder.display())))?;
        Ok(Self {
            folder: folder.into(),
        })
    }

    fn file(&self, topic: &str, partition: u32) -> Result<PathBuf, MqError> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        if topic.is_empty() || !topic.chars().all(plain) || topic.len() > 249 {
            return Err(MqError::Offsets(format!("`{topic}` is no topic's name")));
        }
        Ok(self.folder.join(format!("{topic}@{partition}")))
    }

    async fn blocking<T: Send + 'static>(
        path: PathBuf,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, MqError> {
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            MqError::Offsets(format!("{}: {error}", path.display()))
        };
        let done =
            tokio::task::spawn_blocking(move || work(&path).map_err(|error| failed(&path, &error)));
        done.await
            .unwrap_or_else(|error| Err(MqError::Offsets(error.to_string())))
    }
}

impl OffsetStore for FileOffsets {
    async fn load(&self, topic: &str, partition: u32) -> Result<Option<i64>, MqError> {
        let read = |path: &Path| match std::fs::read_to_string(path) {
            Ok(text) => {
                let offset = text.trim().parse().map_err(|_| {
                    io::Error::other(format!("`{}` is no offset", text.escape_debug()))
                })?;
                Ok(Some(offset))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        Self::blocking(self.file(topic, partition)?, read).await
    }

    async fn save(&self, topic: &str, partition: u32, next: i64) -> Result<(), MqError> {
        let folder = self.folder.clone();
        let write = move |path: &Path| {
            let mut draft = tempfile::NamedTempFile::new_in(&folder)?;
            writeln!(draft, "{next}")?;
            draft.as_file().sync_all()?;
            draft.persist(path)?;
            std::fs::File::open(&folder)?.sync_all()
        };
        Self::blocking(self.file(topic, partition)?, write).await
    }
}

/// Offsets in memory: after a restart everything is read again from where the settings say.
#[derive(Debug, Clone, Default)]
pub struct MemoryOffsets {
    offsets: Arc<Mutex<BTreeMap<(String, u32), i64>>>,
}

impl OffsetStore for MemoryOffsets {
    async fn load(&self, topic: &str, partition: u32) -> Result<Option<i64>, MqError> {
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(offsets.get(&(topic.to_owned(), partition)).copied())
    }

    async fn save(&self, topic: &str, partition: u32, next: i64) -> Result<(), MqError> {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        offsets.insert((topic.to_owned(), partition), next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn keeps(store: &impl OffsetStore, again: &impl OffsetStore) {
        assert_eq!(store.load("a.b-c_d", 3).await, Ok(None));
        store.save("a.b-c_d", 3, 41).await.unwrap();
        store.save("a.b-c_d", 3, 42).await.unwrap();
        store.save("a.b-c_d", 0, 7).await.unwrap();
        assert_eq!(again.load("a.b-c_d", 3).await, Ok(Some(42)));
        assert_eq!(again.load("a.b-c_d", 0).await, Ok(Some(7)));
        assert_eq!(again.load("other", 3).await, Ok(None));
    }

    #[tokio::test]
    async fn offsets_are_kept_by_topic_and_partition() {
        let memory = MemoryOffsets::default();
        keeps(&memory, &memory.clone()).await;
        let folder = tempfile::tempdir().unwrap();
        let open = || FileOffsets::open(folder.path().join("offsets")).unwrap();
        keeps(&open(), &open()).await;
    }

    #[tokio::test]
    async fn a_file_that_holds_no_offset_is_an_error_and_not_a_start_from_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileOffsets::open(folder.path()).unwrap();
        std::fs::write(folder.path().join("orders@0"), "").unwrap();
        let failed = store.load("orders", 0).await.unwrap_err();
        assert!(
            matches!(&failed, MqError::Offsets(text) if text.contains("orders@0")),
            "{failed}"
        );
        for topic in ["", "../up", "a/b", &"x".repeat(250)] {
            assert!(store.save(topic, 0, 1).await.is_err(), "{topic}");
        }
    }
}
