//! How far a snapshot is, so that it goes on after a restart, and where that is kept.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::SnapshotError;
use super::key::{Key, KeyColumn};
use super::moment::Moment;
use super::settings::SnapshotMode;

/// The form of what is kept. Version 1 had no spans; others are refused.
const VERSION: u32 = 2;

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
    /// Which rows the handler has or may have, in the order of the key, while there are changes
    /// that it must not get: those that were made before its rows were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) spans: Vec<Span>,
}

/// Rows up to a bound, from the bound of the span before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Span {
    pub(super) to: Bound,
    /// Their changes from here on are handed out; `None`: every one that comes.
    pub(super) since: Option<Moment>,
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
    pub(super) fn resumed(
        mut self,
        kept: SnapshotState,
        mode: SnapshotMode,
    ) -> Result<Self, SnapshotError> {
        if mode == SnapshotMode::Watermarks && kept.has_moments() {
            return Err(SnapshotError::State(
                "it was begun as of one moment: go on in that mode, or remove the state and begin \
                 anew"
                    .to_owned(),
            ));
        }
        if !(1..=VERSION).contains(&kept.version) {
            return Err(SnapshotError::State(format!(
                "it is of version {}, this release reads 1 to {VERSION}",
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

    /// Whether rows of a moment are in it, so that it can be gone on with only as it was begun.
    pub(super) fn has_moments(&self) -> bool {
        self.tables.iter().any(|table| !table.spans.is_empty())
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
        state.tables[1].spans = vec![
            Span {
                to: Bound::Row(Key(vec![KeyValue::Signed(-7)])),
                since: None,
            },
            Span {
                to: Bound::End,
                since: Some(Moment {
                    journal: "binlog.000009".to_owned(),
                    offset: 500,
                    from: 1,
                    until: 2,
                }),
            },
        ];
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
        for text in ["", "{}", r#"{"version":2}"#, "nonsense"] {
            std::fs::write(&path, text).unwrap();
            let failed = FileSnapshotStore::new(&path).load().await;
            assert!(
                matches!(failed, Err(SnapshotError::State(_))),
                "{text}: {failed:?}"
            );
        }
    }

    #[tokio::test]
    async fn what_release_0_1_kept_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        let text = r#"{"version":1,"tables":[{"schema":"shop","table":"orders","key":
            [{"name":"id","kind":"Unsigned"}],"through":[{"Unsigned":7}],"attempted":null,"done":false}]}"#;
        std::fs::write(&path, text).unwrap();
        let kept = FileSnapshotStore::new(&path).load().await.unwrap().unwrap();
        let resumed = SnapshotState::new([("shop", "orders")])
            .resumed(kept, SnapshotMode::OneMoment)
            .unwrap();
        assert_eq!(
            resumed.tables[0].through,
            Some(Key(vec![KeyValue::Unsigned(7)]))
        );
        assert!(!resumed.has_moments());
    }

    #[test]
    fn other_tables_and_versions() {
        let now = SnapshotState::new([("shop", "new"), ("shop", "orders")]);
        let mode = SnapshotMode::OneMoment;
        let resumed = now.clone().resumed(state(), mode).unwrap();
        assert_eq!(resumed.tables[0], now.tables[0]);
        assert_eq!(resumed.tables[1], state().tables[0]);
        assert!(!resumed.is_done());
        let later = SnapshotState {
            version: VERSION + 1,
            ..state()
        };
        let refused = now.resumed(later, mode);
        assert!(matches!(refused, Err(SnapshotError::State(_))));
    }

    #[test]
    fn what_was_begun_as_of_one_moment_is_not_gone_on_with_by_watermarks() {
        let now = SnapshotState::new([("shop", "orders")]);
        let refused = now.clone().resumed(state(), SnapshotMode::Watermarks);
        assert!(
            matches!(&refused, Err(SnapshotError::State(text)) if text.contains("one moment")),
            "{refused:?}"
        );
        // Once the stream has passed it, either mode is the same.
        let mut passed = state();
        passed.tables[1].spans.clear();
        now.resumed(passed, SnapshotMode::Watermarks).unwrap();
    }
}
