//! How far a snapshot is, so that it goes on after a restart, and where that is kept.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::SnapshotError;
use super::key::{Key, KeyColumn};

/// The form of what is kept. Others are refused.
const VERSION: u32 = 1;

/// How far a snapshot is. It is kept as JSON; what is in it may change with a release, under
/// another version number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotState {
    version: u32,
    pub(super) tables: Vec<TableState>,
}

/// How far a table is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct TableState {
    pub(super) schema: String,
    pub(super) table: String,
    /// The primary key; empty until the first chunk is read.
    pub(super) key: Vec<KeyColumn>,
    /// Every row up to this one was handled.
    pub(super) through: Option<Key>,
    /// Rows behind `through` that the handler may have got: the chunk in work when this was kept.
    pub(super) attempted: Option<Bound>,
    /// Every row was handled: changes are all that comes.
    pub(super) done: bool,
}

/// Where a chunk ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Bound {
    /// With this row.
    Row(Key),
    /// With the table's last.
    End,
}

impl Bound {
    pub(super) fn covers(&self, key: &Key) -> bool {
        match self {
            Self::Row(last) => key <= last,
            Self::End => true,
        }
    }
}

impl SnapshotState {
    /// Nothing of these tables, as `(schema, table)`, was read yet.
    pub(super) fn new<'a>(tables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let tables = tables.into_iter().map(|(schema, table)| TableState {
            schema: schema.to_owned(),
            table: table.to_owned(),
            ..TableState::default()
        });
        Self {
            version: VERSION,
            tables: tables.collect(),
        }
    }

    /// The same tables, as far as `kept` is with each.
    pub(super) fn resumed(mut self, kept: SnapshotState) -> Result<Self, SnapshotError> {
        if kept.version != VERSION {
            return Err(SnapshotError::State(format!(
                "it is of version {}, this release reads {VERSION}",
                kept.version
            )));
        }
        for known in kept.tables {
            let same =
                |own: &&mut TableState| own.schema == known.schema && own.table == known.table;
            if let Some(own) = self.tables.iter_mut().find(same) {
                *own = known;
            }
        }
        Ok(self)
    }

    /// Whether every row of every table was handled.
    pub fn is_done(&self) -> bool {
        self.tables.iter().all(|table| table.done)
    }
}

/// Keeps how far a snapshot is.
pub trait SnapshotStore: Send + Sync + 'static {
    /// What was kept last; `None` before the first time.
    ///
    /// # Errors
    /// [`SnapshotError::State`].
    fn load(&self) -> impl Future<Output = Result<Option<SnapshotState>, SnapshotError>> + Send;

    /// Keeps it. When this has resolved, a crash does not undo it.
    ///
    /// # Errors
    /// [`SnapshotError::State`].
    fn save(&self, state: &SnapshotState)
    -> impl Future<Output = Result<(), SnapshotError>> + Send;
}

/// The state in a file, which is replaced by renaming and synced to the disk. One snapshot a file.
#[derive(Debug, Clone)]
pub struct FileSnapshotStore {
    path: PathBuf,
}

impl FileSnapshotStore {
    /// The state in this file; its folder has to be there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SnapshotError> {
        let path = self.path.clone();
        let done = tokio::task::spawn_blocking(move || {
            work(&path)
                .map_err(|error| SnapshotError::State(format!("{}: {error}", path.display())))
        });
        done.await
            .unwrap_or_else(|error| Err(SnapshotError::State(error.to_string())))
    }
}

impl SnapshotStore for FileSnapshotStore {
    async fn load(&self) -> Result<Option<SnapshotState>, SnapshotError> {
        self.blocking(|path| match std::fs::read(path) {
            Ok(json) => Ok(Some(serde_json::from_slice(&json)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    async fn save(&self, state: &SnapshotState) -> Result<(), SnapshotError> {
        let json = serde_json::to_vec(state).map_err(|e| SnapshotError::State(e.to_string()))?;
        self.blocking(move |path| {
            let folder = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let mut draft = tempfile::NamedTempFile::new_in(folder)?;
            io::Write::write_all(&mut draft, &json)?;
            draft.as_file().sync_all()?;
            draft.persist(path)?;
            std::fs::File::open(folder)?.sync_all()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::key::{KeyKind, KeyValue};

    fn state() -> SnapshotState {
        let mut state = SnapshotState::new([("shop", "orders"), ("shop", "items")]);
        state.tables[0].key = vec![KeyColumn {
            name: "id".to_owned(),
            kind: KeyKind::Unsigned,
        }];
        state.tables[0].through = Some(Key(vec![KeyValue::Unsigned(u64::MAX)]));
        state.tables[0].attempted = Some(Bound::Row(Key(vec![KeyValue::Bytes(vec![0, 255])])));
        state.tables[1].done = true;
        state
    }

    #[tokio::test]
    async fn what_is_kept_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileSnapshotStore::new(folder.path().join("snapshot.json"));
        assert_eq!(store.load().await, Ok(None));
        store.save(&SnapshotState::new([])).await.unwrap();
        store.save(&state()).await.unwrap();
        assert_eq!(store.load().await, Ok(Some(state())));
    }

    #[tokio::test]
    async fn a_damaged_file_is_an_error_and_not_a_start_from_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        for text in ["", "{}", r#"{"version":1}"#, "nonsense"] {
            std::fs::write(&path, text).unwrap();
            let failed = FileSnapshotStore::new(&path).load().await;
            assert!(
                matches!(failed, Err(SnapshotError::State(_))),
                "{text}: {failed:?}"
            );
        }
    }

    #[test]
    fn other_tables_and_versions() {
        let now = SnapshotState::new([("shop", "new"), ("shop", "orders")]);
        let resumed = now.clone().resumed(state()).unwrap();
        assert_eq!(resumed.tables[0], now.tables[0]);
        assert_eq!(resumed.tables[1], state().tables[0]);
        assert!(!resumed.is_done());
        let later = SnapshotState {
            version: VERSION + 1,
            ..state()
        };
        assert!(matches!(now.resumed(later), Err(SnapshotError::State(_))));
    }
}
